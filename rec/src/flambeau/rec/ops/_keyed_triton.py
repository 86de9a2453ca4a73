"""Features of several keyed tensors put together anew on CUDA and XPU, in Triton. Imported when it is first needed.

One program moves one feature of a block of rows. On the way back, the program of a feature's first place adds up what
reaches its other places, which it finds by the last column of `permutes`; the programs of those do nothing. So no two
programs write one number, and sums are in float32 and in order.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.rec.ops.keyed import check_regrouping

_ROWS, _COLUMNS = 32, 64
_TYPES = {
    torch.float32: tl.float32,
    torch.float64: tl.float64,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.int64: tl.int64,
    torch.int32: tl.int32,
    torch.int16: tl.int16,
    torch.int8: tl.int8,
    torch.uint8: tl.uint8,
}


def permute_multi_embedding_function(
    pooled_embs: Sequence[Tensor],
    permutes: Tensor,
    in_shapes: Tensor,
    out_shapes: Tensor,
    out_lengths: Sequence[int],
    reverse: bool = False,
) -> list[Tensor]:
    """`torch.ops.flambeau_rec.permute_multi_embedding_function` on tensors of an accelerator."""
    check_regrouping(pooled_embs, permutes)
    first = pooled_embs[0]
    batch, count = first.shape[0], permutes.shape[0]
    given = [one.contiguous() for one in pooled_embs]
    outputs = [first.new_zeros((batch, width)) for width in out_lengths]
    if batch == 0 or count == 0:
        return outputs
    if first.dtype not in _TYPES:
        raise RuntimeError(
            f"permute_multi_embedding: pooled_embs has dtype {first.dtype}, expected one of {sorted(map(str, _TYPES))}."
        )
    # Where the matrices are, and how wide their rows: inputs, then outputs.
    matrices = torch.tensor(
        [[one.data_ptr(), one.shape[1]] for one in (*given, *outputs)], dtype=torch.int64, device=first.device
    )
    wide = torch.float64 if first.dtype == torch.float64 else torch.float32
    with on(first.device):
        _move[(triton.cdiv(batch, _ROWS), count)](
            matrices,
            permutes.contiguous(),
            len(given),
            batch,
            count,
            TYPE=_TYPES[first.dtype],
            WIDE=_TYPES[wide],
            REVERSE=reverse,
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
        )
    return outputs


@triton.jit
def _block(matrices, matrix, column, rows, columns, mask, TYPE: tl.constexpr):
    """Pointers to some columns of some rows of a matrix."""
    start = tl.load(matrices + 2 * matrix).to(tl.pointer_type(TYPE))
    width = tl.load(matrices + 2 * matrix + 1)
    return start + rows.to(tl.int64)[:, None] * width + (column + columns)[None, :]


@triton.jit
def _move(
    matrices,
    permutes,
    inputs,
    batch,
    count,
    TYPE: tl.constexpr,
    WIDE: tl.constexpr,
    REVERSE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    move = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    this = permutes + 6 * move
    one = tl.load(this).to(tl.int64)
    other = tl.load(this + 1).to(tl.int64)
    one_column = tl.load(this + 2).to(tl.int64)
    other_column = tl.load(this + 3).to(tl.int64)
    width = tl.load(this + 4).to(tl.int64)
    chained = tl.load(this + 5).to(tl.int64)
    for begin in range(0, width, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        mask = (rows < batch)[:, None] & (columns < width)[None, :]
        if REVERSE:
            if chained >= 0:
                from_ = _block(matrices, other, other_column, rows, columns, mask, TYPE)
                total = tl.load(from_, mask=mask, other=0).to(WIDE)
                following = chained
                while (following > 0) & (following < count):
                    further = permutes + 6 * following
                    matrix = tl.load(further + 1).to(tl.int64)
                    column = tl.load(further + 3).to(tl.int64)
                    more = _block(matrices, matrix, column, rows, columns, mask, TYPE)
                    total += tl.load(more, mask=mask, other=0).to(WIDE)
                    following = -tl.load(further + 5).to(tl.int64)
                to = _block(matrices, inputs + one, one_column, rows, columns, mask, TYPE)
                tl.store(to, total.to(TYPE), mask=mask)
        else:
            from_ = _block(matrices, one, one_column, rows, columns, mask, TYPE)
            to = _block(matrices, inputs + other, other_column, rows, columns, mask, TYPE)
            tl.store(to, tl.load(from_, mask=mask), mask=mask)


def on(device: torch.device) -> Any:
    """Launch on a tensor's device; Triton launches on the current one."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    return torch.xpu.device(device) if device.type == "xpu" else contextlib.nullcontext()

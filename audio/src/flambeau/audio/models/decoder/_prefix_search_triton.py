"""A frame of the prefix search in one pass over the probabilities, for CUDA and XPU: see `_prefix_search`.

One program for each utterance and each block of tokens. The plain version reads and writes (batch, beam, tokens) a
dozen times; this one writes it once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["advance"]

# Entries of (beam, tokens) that one program holds.
_TILE = 4096


@triton.jit
def _log_add(a, b):  # type: ignore[no-untyped-def]
    most = tl.maximum(a, b)
    safe = tl.where(most == float("-inf"), 0.0, most)
    return tl.where(most == float("-inf"), most, safe + tl.log(tl.exp(a - safe) + tl.exp(b - safe)))


@triton.jit  # type: ignore[untyped-decorator]
def _advance(  # type: ignore[no-untyped-def]
    blank_ptr, token_ptr, last_ptr, identity_ptr, parent_ptr, frame_ptr, new_blank_ptr, new_token_ptr, grown_ptr,
    beam, symbols, BEAM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    item, part = tl.program_id(0), tl.program_id(1)
    rows = tl.arange(0, BEAM)
    there = rows < beam
    at = item * beam + rows
    lowest = float("-inf")
    blank = tl.load(blank_ptr + at, mask=there, other=lowest)
    token = tl.load(token_ptr + at, mask=there, other=lowest)
    last = tl.load(last_ptr + at, mask=there, other=0)
    # Rows beyond the beam are nobody's parent.
    identity = tl.load(identity_ptr + at, mask=there, other=-(1 << 60))
    columns = part * BLOCK + tl.arange(0, BLOCK)
    inside = columns < symbols
    scores = tl.load(frame_ptr + item * symbols + columns, mask=inside, other=lowest)
    whole = _log_add(blank, token)
    before = tl.where(last[:, None] == columns[None, :], blank[:, None], whole[:, None])
    grown = before + scores[None, :]
    for i in range(beam):
        child = item * beam + i
        mark = tl.load(last_ptr + child)
        parent = tl.load(parent_ptr + child)
        joins = ((identity == parent) & there)[:, None] & (columns == mark)[None, :] & (mark > 0)
        arriving = tl.max(tl.max(tl.where(joins, grown, lowest), axis=1), axis=0)
        grown = tl.where(joins, lowest, grown)
        # The block that has the child's last token writes what becomes of it; the first one where there is none.
        here = (mark >= part * BLOCK) & (mark < (part + 1) * BLOCK)
        said = tl.load(frame_ptr + item * symbols + mark)
        stays = tl.load(token_ptr + child) + said
        total = tl.where(mark > 0, _log_add(stays, arriving), lowest)
        tl.store(new_token_ptr + child, total, mask=here)
    first = rows >= part * BEAM  # all rows in the first block, none in the others
    tl.store(new_blank_ptr + at, whole + tl.load(frame_ptr + item * symbols), mask=there & first)
    place = grown_ptr + (item * beam + rows)[:, None] * symbols + columns[None, :]
    tl.store(place, grown, mask=there[:, None] & inside[None, :])


def advance(
    blank: Tensor, token: Tensor, last: Tensor, identity: Tensor, parent: Tensor, frame: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `_prefix_search.advance`."""
    batch, beam = blank.shape
    symbols = frame.shape[1]
    new_blank, new_token = torch.empty_like(blank), torch.empty_like(token)
    grown = blank.new_empty(batch, beam, symbols)
    rows = triton.next_power_of_2(beam)
    block = max(16, min(triton.next_power_of_2(symbols), _TILE // rows))
    _advance[batch, triton.cdiv(symbols, block)](
        *(tensor.contiguous() for tensor in (blank, token, last, identity, parent, frame)),
        new_blank, new_token, grown, beam, symbols, BEAM=rows, BLOCK=block,
    )  # fmt: skip
    return new_blank, new_token, grown[..., 1:]

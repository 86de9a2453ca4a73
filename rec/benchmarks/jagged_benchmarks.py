"""Operators on jagged tensors beside FBGEMM's, in one process, on one thread.

    python rec/benchmarks/jagged_benchmarks.py [--only TEXT] [--markdown]

Times are CPU time, the best of several repetitions, product and peer in turn; a ratio of 2 is twice as fast as the
peer. Without fbgemm-gpu, which `tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from _tables import Table, fastest, parser
from torch import Tensor

from flambeau.rec.ops import (  # noqa: F401  # noqa: F401
    jagged_conversion,
    jagged_elementwise,
    jagged_matmul,
    jagged_segments,
    jagged_selection,
    jagged_slicing,
    jagged_softmax,
    jagged_stacked,
    sll_attention,
)
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS as OURS  # as the package's functions call them

Work = Callable[[Any], Any]


def peer() -> Any:
    """FBGEMM's operators, or None."""
    try:
        importlib.import_module("fbgemm_gpu.sll")
    except (ImportError, OSError, RuntimeError) as error:
        print(f"no fbgemm-gpu: {error}", file=sys.stderr)
        return None
    return torch.ops.fbgemm


def batch(rows: int, longest: int, width: int, *, learned: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Items, lengths and offsets of rows of evenly spread lengths."""
    generator = torch.Generator().manual_seed(rows + width)
    lengths = torch.randint(0, longest + 1, (rows,), generator=generator)
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    values = torch.randn(int(offsets[-1]), width, generator=generator)
    return values.requires_grad_(learned), lengths, offsets


SIZES = {"8 rows": (8, 10, 16), "512 rows": (512, 40, 64), "4096 rows": (4096, 20, 128)}


def rows() -> Iterator[tuple[str, Work]]:
    """What is timed: a name, and the work with operators of either library."""
    for size, (count, longest, width) in SIZES.items():
        x, lengths, offsets = batch(count, longest, width)
        dense = torch.randn(count, longest, width)
        ids = torch.arange(len(x))
        columns = torch.randn(count, width, 32)
        vectors = torch.randn(count * 4, longest)
        order = torch.randperm(count)
        yield (
            f"jagged_to_padded_dense, {size}",
            lambda ops, x=x, o=offsets, n=longest: ops.jagged_to_padded_dense(x, [o], [n], 0.0),
        )
        yield f"jagged_2d_to_dense, {size}", lambda ops, x=x, o=offsets, n=longest: ops.jagged_2d_to_dense(x, o, n)
        yield f"jagged_1d_to_dense, {size}", lambda ops, x=ids, o=offsets, n=longest: ops.jagged_1d_to_dense(x, o, n, 0)
        yield f"dense_to_jagged, {size}", lambda ops, d=dense, o=offsets: ops.dense_to_jagged(d, [o])
        yield (
            f"elementwise_add, {size}",
            lambda ops, x=x, o=offsets, d=dense: ops.jagged_dense_elementwise_add(x, [o], d),
        )
        yield (
            f"elementwise_mul, {size}",
            lambda ops, x=x, o=offsets, d=dense: ops.jagged_dense_elementwise_mul(x, [o], d),
        )
        yield (
            f"batched_dense_vec, {size}",
            lambda ops, v=vectors, x=x, o=offsets: ops.batched_dense_vec_jagged_2d_mul(v, x, o),
        )
        yield f"jagged_softmax, {size}", lambda ops, x=x, o=offsets, n=longest: ops.jagged_softmax(x, o, n)
        yield f"jagged_jagged_bmm, {size}", lambda ops, x=x, o=offsets, n=longest: ops.jagged_jagged_bmm(x, x, o, n)
        yield (
            f"jagged_dense_bmm, {size}",
            lambda ops, x=x, o=offsets, y=columns, n=longest: ops.jagged_dense_bmm(x, o, y, n),
        )
        yield f"jagged_index_select, {size}", lambda ops, x=x, n=lengths, i=order: ops.jagged_index_select(x, n, i)
        yield f"pack_segments, {size}", lambda ops, x=x, n=lengths, m=longest: ops.pack_segments(x, n, m)
        mask = ids % 3 > 0
        yield f"masked_select, {size}", lambda ops, x=ids, n=lengths, m=mask: ops.masked_select_jagged_1d(x, n, m)
        yield f"truncated_values, {size}", lambda ops, x=ids, n=lengths: ops.jagged_1d_to_truncated_values(x, n, 5)
        starts = lengths.clamp(max=2)
        flat = torch.randn(len(x))
        yield f"jagged_slice, {size}", lambda ops, x=flat, n=lengths, s=starts: ops.jagged_slice(x, n, s, 5)

    def learn(result: Any) -> None:
        result = result[0] if isinstance(result, (tuple, list)) else result
        result.backward(result.detach())

    x, lengths, offsets = batch(512, 40, 64, learned=True)
    dense, columns = torch.randn(512, 40, 64, requires_grad=True), torch.randn(512, 64, 32, requires_grad=True)
    yield "jagged_to_padded_dense, learned", lambda ops: learn(ops.jagged_to_padded_dense(x, [offsets], [40], 0.0))
    yield "elementwise_mul, learned", lambda ops: learn(ops.jagged_dense_elementwise_mul(x, [offsets], dense))
    yield "jagged_softmax, learned", lambda ops: learn(ops.jagged_softmax(x, offsets, 40))
    yield "jagged_dense_bmm, learned", lambda ops: learn(ops.jagged_dense_bmm(x, offsets, columns, 40))
    yield (
        "sll_flash_attention_basic, learned",
        lambda ops: learn(ops.sll_jagged_flash_attention_basic(x, x, x, offsets, 40)),
    )
    yield (
        "sll_dense_flash_attention, learned",
        lambda ops: learn(ops.sll_jagged_dense_flash_attention(x, columns, x, torch.zeros(512, 40, 32), offsets, 40)),
    )


def main() -> int:
    """Print the table; returns the exit status."""
    options = parser(__doc__).parse_args()
    torch.set_num_threads(1)
    theirs = peer()
    print(f"torch {torch.__version__}, tier {LIBRARY.provider}; CPU time, one thread")
    table = Table("Operators on jagged tensors", "us", ["FBGEMM"] if theirs else [], options.markdown)
    for what, work in rows():
        if options.only in what:
            works = [lambda work=work: work(OURS)] + ([lambda work=work: work(theirs)] if theirs else [])
            table.row(what, *fastest(works, 7))
    return 0


if __name__ == "__main__":
    sys.exit(main())

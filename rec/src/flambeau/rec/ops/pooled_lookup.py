"""Rows of many tables looked up and pooled over bags in one call, with dense gradients as `nn.EmbeddingBag` has.

One call takes the place of one `embedding_bag` for each feature, and of the joining of what they give. Nothing in it
depends on the values of lengths, so that programs with it compile and export in one graph. The native kernel is
`native/pooled_lookup.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops import _pooled_native
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["pooled_lookup"]


def pooled_lookup(
    tables: Sequence[Tensor],
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor | None,
    reads: Sequence[int],
    starts: Sequence[int],
    sizes: Sequence[int],
    means: Sequence[int],
    names: Sequence[str],
    flat: bool = False,
) -> Tensor:
    """Pool rows over bags, feature after feature.

    Args:
        tables: (rows, columns) each, of floating-point numbers.
        indices: (L,) int32 or int64, the ids of all bags.
        offsets: (bags + 1,) int32 or int64: where each bag begins, and where the last ends.
        weights: (L,): a factor for each id, or None.
        reads: for each feature of the result its table.
        starts: the first bag of each feature; several features may read the same bags.
        sizes: the number of bags of each, which is the same for all unless the result is flat.
        means: 1 for each feature whose bags are averaged, 0 where they are summed.
        names: of the features, for messages.
        flat: whether features come one after another, (bags, columns) each, rather than side by side.

    Returns:
        (bags of a feature, columns of all features) of float32, or of float64 where a table is; one-dimensional if
        flat. An empty bag is 0.

    Raises:
        RuntimeError: an id outside of its table, or offsets that do not fit.
    """
    return OPS.pooled_lookup(  # type: ignore[no-any-return]
        tables, indices, offsets, weights, reads, starts, sizes, means, names, flat
    )


_WHOLE = (torch.int32, torch.int64)


def _shape(dims: Sequence[int], reads: Sequence[int], sizes: Sequence[int], flat: bool) -> tuple[int, ...]:
    if flat:
        return (sum(size * dims[table] for size, table in zip(sizes, reads, strict=True)),)
    return (sizes[0] if len(sizes) else 0, sum(dims[table] for table in reads))


def _result_dtype(tables: Sequence[Tensor]) -> torch.dtype:
    return torch.float64 if any(table.dtype == torch.float64 for table in tables) else torch.float32


@dataclass(frozen=True)
class _Bags:
    """The bags of all features: see `pooled_lookup`."""

    indices: Tensor
    offsets: Tensor
    weights: Tensor | None
    reads: Sequence[int]
    starts: Sequence[int]
    sizes: Sequence[int]
    means: Sequence[int]
    flat: bool

    def check(self) -> None:
        ends = [start + size for start, size in zip(self.starts, self.sizes, strict=True)]
        if ends and max(ends) >= self.offsets.numel():
            raise RuntimeError(
                f"offsets has {self.offsets.numel()} entries, expected {max(ends) + 1} at least: one more than there "
                "are bags."
            )
        for name in ("indices", "offsets"):
            if getattr(self, name).dtype not in _WHOLE:
                raise RuntimeError(f"{name} has dtype {getattr(self, name).dtype}, expected int32 or int64.")

    def native(self, tables: Sequence[Tensor]) -> _pooled_native.Bags:
        """What the kernels are given of tables that they can read."""
        return _pooled_native.Bags(
            [table.data_ptr() for table in tables],
            [table.shape[0] for table in tables],
            [table.shape[1] for table in tables],
            [table.dtype for table in tables],
            self.indices,
            self.offsets,
            self.weights,
            self.reads,
            self.starts,
            self.sizes,
            self.means,
            self.flat,
        )

    def parts(self, output: Tensor, dims: Sequence[int]) -> list[Tensor]:
        """Views of each feature's (bags, columns)."""
        widths = [dims[table] for table in self.reads]
        if not self.flat:
            return list(output.split(widths, 1))
        pieces = output.split([size * width for size, width in zip(self.sizes, widths, strict=True)])
        return [piece.view(size, width) for piece, size, width in zip(pieces, self.sizes, widths, strict=True)]

    def of_feature(self, number: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """The ids of a feature, the bag of each, and what each counts."""
        start, size = self.starts[number], self.sizes[number]
        bounds = self.offsets[start : start + size + 1].long()
        begin, end = int(bounds[0]), int(bounds[-1])
        lengths = bounds.diff()
        if begin < 0 or end > self.indices.numel() or bool((lengths < 0).any()):
            return self.indices[:0], bounds[:-1], None  # `_refuse` says so
        bags = torch.arange(size, device=bounds.device).repeat_interleave(lengths, output_size=end - begin)
        factors = None if self.weights is None else self.weights[begin:end]
        if self.means[number]:
            shares = (1.0 / lengths.clamp(min=1))[bags]
            factors = shares if factors is None else shares * factors
        return self.indices[begin:end], bags, factors


def _refuse(kind: int, value: int, rows: int, name: str, total: int) -> NoReturn:
    if kind == 1:
        raise RuntimeError(f"feature {name!r} has offsets that do not rise from 0 to {total}, the number of ids.")
    raise RuntimeError(f"feature {name!r} has the id {value}, expected 0 to {rows - 1}: its table has {rows} rows.")


def _reference(
    tables: Sequence[Tensor], indices: Tensor, offsets: Tensor, weights: Tensor | None, reads: Sequence[int],
    starts: Sequence[int], sizes: Sequence[int], means: Sequence[int], names: Sequence[str], flat: bool,
) -> Tensor:  # fmt: skip
    given = _Bags(indices, offsets, weights, reads, starts, sizes, means, flat)
    given.check()
    dims = [table.shape[1] for table in tables]
    output = torch.zeros(_shape(dims, reads, sizes, flat), dtype=_result_dtype(tables), device=indices.device)
    for number, part in enumerate(given.parts(output, dims)):
        table, name = tables[reads[number]], names[number]
        ids, bags, factors = given.of_feature(number)
        if len(ids) != len(bags):
            _refuse(1, 0, len(table), name, indices.numel())
        if ids.device.type == "cpu" and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
            _refuse(2, int(ids[(ids < 0) | (ids >= len(table))][0]), len(table), name, indices.numel())
        rows = table[ids.long()].to(output.dtype)
        part.index_add_(0, bags, rows if factors is None else rows * factors.to(rows.dtype).unsqueeze(1))
    return output


def _reference_tables_backward(gradient: Tensor, rows: Sequence[int], dims: Sequence[int], *bags: Any) -> list[Tensor]:
    given = _Bags(*bags)
    found = [gradient.new_zeros(count, dim) for count, dim in zip(rows, dims, strict=True)]
    for number, part in enumerate(given.parts(gradient, dims)):
        ids, at, factors = given.of_feature(number)
        share = part[at]
        share = share if factors is None else share * factors.to(share.dtype).unsqueeze(1)
        found[given.reads[number]].index_add_(0, ids.long(), share)
    return found


def _reference_weights_backward(gradient: Tensor, tables: Sequence[Tensor], *bags: Any) -> Tensor:
    given = _Bags(*bags)
    assert given.weights is not None
    unweighted = _Bags(given.indices, given.offsets, None, *bags[3:])
    found = gradient.new_zeros(given.indices.numel())
    for number, part in enumerate(given.parts(gradient, [table.shape[1] for table in tables])):
        ids, at, shares = unweighted.of_feature(number)
        dots = (tables[given.reads[number]][ids.long()].to(gradient.dtype) * part[at]).sum(1)
        begin = int(given.offsets[given.starts[number]])
        found[begin : begin + len(ids)] += dots if shares is None else dots * shares
    return found.to(given.weights.dtype)


def _served(tables: Sequence[Tensor], indices: Tensor) -> bool:
    """Whether the native kernels take these."""
    return indices.numel() > 0 and all(table.dtype in _pooled_native.FORMATS for table in tables)


def _native(
    tables: Sequence[Tensor], indices: Tensor, offsets: Tensor, weights: Tensor | None, reads: Sequence[int],
    starts: Sequence[int], sizes: Sequence[int], means: Sequence[int], names: Sequence[str], flat: bool,
) -> Tensor:  # fmt: skip
    if not _served(tables, indices):
        return _reference(tables, indices, offsets, weights, reads, starts, sizes, means, names, flat)
    given = _Bags(indices, offsets, weights, reads, starts, sizes, means, flat)
    given.check()
    tables = [table.contiguous() for table in tables]
    output, (kind, feature, value) = given.native(tables).forward()
    if output is None:
        _refuse(kind, value, len(tables[reads[feature]]), names[feature], indices.numel())
    return output


def _native_tables_backward(gradient: Tensor, rows: Sequence[int], dims: Sequence[int], *bags: Any) -> list[Tensor]:
    if gradient.dtype != torch.float32:
        return _reference_tables_backward(gradient, rows, dims, *bags)
    found = [gradient.new_zeros(count, dim) for count, dim in zip(rows, dims, strict=True)]
    add_tables_gradients(gradient, found, *bags)
    return found


def add_tables_gradients(gradient: Tensor, found: Sequence[Tensor], *bags: Any) -> None:
    """Add to tables of gradients what the native kernel finds.

    Args:
        gradient: of the result, of float32.
        found: contiguous, (rows, columns) of float32 for each table; written.
        bags: `indices`, `offsets`, `weights`, `reads`, `starts`, `sizes`, `means` and `flat` of `pooled_lookup`.
    """
    rows, dims = [len(one) for one in found], [one.shape[1] for one in found]
    kernel = _pooled_native.Bags([0] * len(found), rows, dims, [torch.float32] * len(found), *bags)
    kernel.add_tables_gradients(gradient.contiguous(), found)


def _native_weights_backward(gradient: Tensor, tables: Sequence[Tensor], *bags: Any) -> Tensor:
    given = _Bags(*bags)
    assert given.weights is not None
    if not _served(tables, given.indices):
        return _reference_weights_backward(gradient, tables, *bags)
    tables = [table.contiguous() for table in tables]
    return given.native(tables).weights_backward(gradient.contiguous()).to(given.weights.dtype)


def _fake(
    tables: Sequence[Tensor], indices: Tensor, offsets: Tensor, weights: Tensor | None, reads: Sequence[int],
    starts: Sequence[int], sizes: Sequence[int], means: Sequence[int], names: Sequence[str], flat: bool,
) -> Tensor:  # fmt: skip
    shape = _shape([table.shape[1] for table in tables], reads, sizes, flat)
    return indices.new_empty(shape, dtype=_result_dtype(tables))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tables, indices, offsets, weights, reads, starts, sizes, means, _, flat = inputs
    ctx.weighted = weights is not None
    ctx.weights_wanted = ctx.weighted and weights.requires_grad
    ctx.tables_wanted = any(table.requires_grad for table in tables)
    ctx.rows, ctx.dims = [table.shape[0] for table in tables], [table.shape[1] for table in tables]
    ctx.dtypes = [table.dtype for table in tables]
    kept = tables if ctx.weights_wanted else []
    ctx.save_for_backward(indices, offsets, *([weights] if ctx.weighted else []), *kept)
    ctx.options = (reads, starts, sizes, means, flat)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    indices, offsets, *rest = ctx.saved_tensors
    weights = rest.pop(0) if ctx.weighted else None
    bags = (indices, offsets, weights, *ctx.options)
    tables: list[Tensor | None] = [None] * len(ctx.dtypes)
    if ctx.tables_wanted:
        found = OPS.pooled_lookup_tables_backward(gradient, ctx.rows, ctx.dims, *bags)
        tables = [one.to(dtype) for one, dtype in zip(found, ctx.dtypes, strict=True)]
    of_weights = None
    if ctx.weights_wanted:
        of_weights = OPS.pooled_lookup_weights_backward(gradient, rest, *bags)
    return tables, None, None, of_weights, None, None, None, None, None, None


_BAGS = "int[] reads, SymInt[] starts, SymInt[] sizes, int[] means"
register_op(
    "pooled_lookup(Tensor[] tables, Tensor indices, Tensor offsets, Tensor? weights, "
    f"{_BAGS}, str[] names, bool flat) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    symbol=_native,
    python=_reference,
    setup_context=_setup_context,
    backward=_backward,
)
register_op(
    "pooled_lookup_tables_backward(Tensor gradient, SymInt[] rows, int[] dims, Tensor indices, Tensor offsets, "
    f"Tensor? weights, {_BAGS}, bool flat) -> Tensor[]",
    library=LIBRARY,
    fake=lambda gradient, rows, dims, *_: [
        gradient.new_empty(count, dim) for count, dim in zip(rows, dims, strict=True)
    ],
    symbol=_native_tables_backward,
    python=_reference_tables_backward,
)
register_op(
    "pooled_lookup_weights_backward(Tensor gradient, Tensor[] tables, Tensor indices, Tensor offsets, Tensor weights, "
    f"{_BAGS}, bool flat) -> Tensor",
    library=LIBRARY,
    fake=lambda gradient, tables, indices, offsets, weights, *_: weights.new_empty(indices.shape),
    symbol=_native_weights_backward,
    python=_reference_weights_backward,
)

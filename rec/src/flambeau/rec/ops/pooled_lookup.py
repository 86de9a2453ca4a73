"""Rows of many tables looked up and pooled over bags in one call, with dense gradients as `nn.EmbeddingBag` has.

One call takes the place of one `embedding_bag` for each feature, and of the joining of what they give. Nothing in it
depends on the values of lengths, so that programs with it compile and export in one graph. The native kernel is
`native/pooled_lookup.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops import _pooled_native
from flambeau.rec.ops._library import LIBRARY

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
        tables: (rows, columns) each, of one dtype.
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
        (bags of a feature, columns of all features) of the tables' dtype; one-dimensional if flat. An empty bag is 0.

    Raises:
        RuntimeError: an id outside of its table, or offsets that do not fit.
    """
    return torch.ops.flambeau_rec.pooled_lookup(  # type: ignore[no-any-return]
        tables, indices, offsets, weights, reads, starts, sizes, means, names, flat
    )


_WHOLE = (torch.int32, torch.int64)


def _shape(dims: Sequence[int], reads: Sequence[int], sizes: Sequence[int], flat: bool) -> tuple[int, ...]:
    if flat:
        return (sum(size * dims[table] for size, table in zip(sizes, reads, strict=True)),)
    return (sizes[0] if len(sizes) else 0, sum(dims[table] for table in reads))


def _parts(output: Tensor, dims: Sequence[int], reads: Sequence[int], sizes: Sequence[int], flat: bool) -> list[Tensor]:
    """Views of each feature's (bags, columns)."""
    widths = [dims[table] for table in reads]
    if not flat:
        return list(output.split(widths, 1))
    pieces = output.split([size * width for size, width in zip(sizes, widths, strict=True)])
    return [piece.view(size, width) for piece, size, width in zip(pieces, sizes, widths, strict=True)]


def _check(offsets: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> None:
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    if ends and max(ends) >= offsets.numel():
        raise RuntimeError(
            f"offsets has {offsets.numel()} entries, expected {max(ends) + 1} at least: one more than there are bags."
        )


def _reference(
    tables: Sequence[Tensor],
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor | None,
    reads: Sequence[int],
    starts: Sequence[int],
    sizes: Sequence[int],
    means: Sequence[int],
    names: Sequence[str],
    flat: bool,
) -> Tensor:
    _check(offsets, starts, sizes)
    dims = [table.shape[1] for table in tables]
    dtype = tables[0].dtype if tables else torch.float32
    output = torch.zeros(_shape(dims, reads, sizes, flat), dtype=dtype, device=indices.device)
    features = zip(_parts(output, dims, reads, sizes, flat), reads, starts, sizes, means, names, strict=True)
    for part, at, start, size, mean, name in features:
        table = tables[at]
        ids, bags, factors = _bag_of_each(indices, offsets, weights, start, size, mean)
        if indices.device.type == "cpu" and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
            _refuse(2, int(ids[(ids < 0) | (ids >= len(table))][0]), len(table), name, indices.numel())
        rows = table[ids.long()].to(torch.float64 if dtype == torch.float64 else torch.float32)
        summed = rows.new_zeros(size, table.shape[1])
        summed.index_add_(0, bags, rows if factors is None else rows * factors.to(rows.dtype).unsqueeze(1))
        part.copy_(summed)
    return output


def _refuse(kind: int, value: int, rows: int, name: str, total: int) -> NoReturn:
    if kind == 1:
        raise RuntimeError(f"feature {name!r} has offsets that do not rise from 0 to {total}, the number of ids.")
    raise RuntimeError(f"feature {name!r} has the id {value}, expected 0 to {rows - 1}: its table has {rows} rows.")


def _bag_of_each(
    indices: Tensor, offsets: Tensor, weights: Tensor | None, start: int, size: int, mean: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The ids of a feature, the bag of each, and what each counts."""
    bounds = offsets[start : start + size + 1].long()
    begin, end = int(bounds[0]), int(bounds[-1])
    lengths = bounds.diff()
    bags = torch.arange(size, device=indices.device).repeat_interleave(lengths, output_size=end - begin)
    factors = None if weights is None else weights[begin:end]
    if mean:
        shares = (1.0 / lengths.clamp(min=1))[bags]
        factors = shares if factors is None else shares * factors
    return indices[begin:end], bags, factors


def _reference_tables_backward(
    gradient: Tensor,
    rows: Sequence[int],
    dims: Sequence[int],
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor | None,
    reads: Sequence[int],
    starts: Sequence[int],
    sizes: Sequence[int],
    means: Sequence[int],
    flat: bool,
) -> list[Tensor]:
    exact = torch.float64 if gradient.dtype == torch.float64 else torch.float32
    found = [
        torch.zeros(count, dim, dtype=exact, device=gradient.device) for count, dim in zip(rows, dims, strict=True)
    ]
    features = zip(_parts(gradient, dims, reads, sizes, flat), reads, starts, sizes, means, strict=True)
    for part, at, start, size, mean in features:
        ids, bags, factors = _bag_of_each(indices, offsets, weights, start, size, mean)
        share = part[bags].to(exact)
        found[at].index_add_(0, ids.long(), share if factors is None else share * factors.to(exact).unsqueeze(1))
    return [one.to(gradient.dtype) for one in found]


def _reference_weights_backward(
    gradient: Tensor,
    tables: Sequence[Tensor],
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor,
    reads: Sequence[int],
    starts: Sequence[int],
    sizes: Sequence[int],
    means: Sequence[int],
    flat: bool,
) -> Tensor:
    dims = [table.shape[1] for table in tables]
    found = torch.zeros(indices.numel(), dtype=weights.dtype, device=weights.device)
    features = zip(_parts(gradient, dims, reads, sizes, flat), reads, starts, sizes, means, strict=True)
    for part, at, start, size, mean in features:
        ids, bags, shares = _bag_of_each(indices, offsets, None, start, size, mean)
        dots = (tables[at][ids.long()] * part[bags]).sum(1)
        begin = int(offsets[start])
        found[begin : begin + len(ids)] += (dots if shares is None else dots * shares).to(found.dtype)
    return found


def _native(
    tables: Sequence[Tensor],
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor | None,
    reads: Sequence[int],
    starts: Sequence[int],
    sizes: Sequence[int],
    means: Sequence[int],
    names: Sequence[str],
    flat: bool,
) -> Tensor:
    dtype = tables[0].dtype if tables else torch.float32
    if dtype not in _pooled_native.FORMATS or indices.dtype not in _WHOLE or offsets.dtype not in _WHOLE:
        return _reference(tables, indices, offsets, weights, reads, starts, sizes, means, names, flat)
    _check(offsets, starts, sizes)
    tables = [table.contiguous() for table in tables]
    rows, dims = [table.shape[0] for table in tables], [table.shape[1] for table in tables]
    addresses = [table.data_ptr() for table in tables]
    bags = _pooled_native.Bags(
        addresses, rows, dims, dtype, indices, offsets, weights, reads, starts, sizes, means, flat
    )
    output, (kind, feature, value) = bags.forward()
    if output is None:
        _refuse(kind, value, rows[reads[feature]], names[feature], indices.numel())
    return output.to(dtype)


def _native_tables_backward(
    gradient: Tensor,
    rows: Sequence[int],
    dims: Sequence[int],
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor | None,
    reads: Sequence[int],
    starts: Sequence[int],
    sizes: Sequence[int],
    means: Sequence[int],
    flat: bool,
) -> list[Tensor]:
    if gradient.dtype not in _pooled_native.FORMATS or indices.dtype not in _WHOLE or offsets.dtype not in _WHOLE:
        return _reference_tables_backward(
            gradient, rows, dims, indices, offsets, weights, reads, starts, sizes, means, flat
        )
    bags = _pooled_native.Bags(
        [0] * len(rows), rows, dims, gradient.dtype, indices, offsets, weights, reads, starts, sizes, means, flat
    )
    found = bags.tables_backward(gradient.to(torch.float32).contiguous(), rows, dims)
    return [one.to(gradient.dtype) for one in found]


def _native_weights_backward(
    gradient: Tensor,
    tables: Sequence[Tensor],
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor,
    reads: Sequence[int],
    starts: Sequence[int],
    sizes: Sequence[int],
    means: Sequence[int],
    flat: bool,
) -> Tensor:
    dtype = gradient.dtype
    if dtype not in _pooled_native.FORMATS or indices.dtype not in _WHOLE or offsets.dtype not in _WHOLE:
        return _reference_weights_backward(
            gradient, tables, indices, offsets, weights, reads, starts, sizes, means, flat
        )
    tables = [table.contiguous() for table in tables]
    rows, dims = [table.shape[0] for table in tables], [table.shape[1] for table in tables]
    addresses = [table.data_ptr() for table in tables]
    bags = _pooled_native.Bags(addresses, rows, dims, dtype, indices, offsets, None, reads, starts, sizes, means, flat)
    return bags.weights_backward(gradient.to(torch.float32).contiguous()).to(weights.dtype)


def _fake(
    tables: Sequence[Tensor], indices: Tensor, offsets: Tensor, weights: Tensor | None, reads: Sequence[int],
    starts: Sequence[int], sizes: Sequence[int], means: Sequence[int], names: Sequence[str], flat: bool,
) -> Tensor:  # fmt: skip
    dims = [table.shape[1] for table in tables]
    shape = _shape(dims, reads, sizes, flat)
    return tables[0].new_empty(shape) if tables else indices.new_empty(shape, dtype=torch.float32)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tables, indices, offsets, weights, reads, starts, sizes, means, _, flat = inputs
    weighted = weights is not None
    ctx.count, ctx.weighted = len(tables), weighted
    ctx.weights_wanted = weighted and weights.requires_grad
    ctx.tables_wanted = any(table.requires_grad for table in tables)
    ctx.shapes = [table.shape[0] for table in tables], [table.shape[1] for table in tables]
    ctx.save_for_backward(indices, offsets, *([weights] if weighted else []), *(tables if ctx.weights_wanted else []))
    ctx.options = (reads, starts, sizes, means, flat)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    indices, offsets, *rest = ctx.saved_tensors
    weights = rest.pop(0) if ctx.weighted else None
    tables: list[Tensor | None] = [None] * ctx.count
    if ctx.tables_wanted:
        tables = torch.ops.flambeau_rec.pooled_lookup_tables_backward(
            gradient, *ctx.shapes, indices, offsets, weights, *ctx.options
        )
    found = None
    if ctx.weights_wanted:
        found = torch.ops.flambeau_rec.pooled_lookup_weights_backward(
            gradient, rest, indices, offsets, weights, *ctx.options
        )
    return tables, None, None, found, None, None, None, None, None, None


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

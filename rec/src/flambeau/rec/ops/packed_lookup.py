"""Pooled look-ups in tables that lie one after another in one tensor, whose gradient is one tensor too.

`pooled_lookup` of views of such a tensor gives the same; but then autograd joins the gradients of the views, another
pass over as many bytes as all tables have, which costs more than finding the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops import pooled_lookup as _separate
from flambeau.rec.ops._large_pages import zeros
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["packed_lookup"]


def packed_lookup(
    packed: Tensor,
    rows: Sequence[int],
    dims: Sequence[int],
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
        packed: one-dimensional, of floating-point numbers: all tables, row after row.
        rows: of each table.
        dims: columns of each table.
        indices: see `flambeau.rec.ops.pooled_lookup.pooled_lookup`, as are all that follow, and the result.
        offsets: see there.
        weights: see there.
        reads: see there.
        starts: see there.
        sizes: see there.
        means: see there.
        names: see there.
        flat: see there.

    Raises:
        RuntimeError: an id outside of its table, or offsets that do not fit.
    """
    return OPS.packed_lookup(  # type: ignore[no-any-return]
        packed, rows, dims, indices, offsets, weights, reads, starts, sizes, means, names, flat
    )


def _apart(packed: Tensor, rows: Sequence[int], dims: Sequence[int]) -> list[Tensor]:
    parts = packed.split([count * dim for count, dim in zip(rows, dims, strict=True)])
    return [part.view(count, dim) for part, count, dim in zip(parts, rows, dims, strict=True)]


def _reference(packed: Tensor, rows: Sequence[int], dims: Sequence[int], *bags: Any) -> Tensor:
    return _separate._reference(_apart(packed, rows, dims), *bags)


def _native(packed: Tensor, rows: Sequence[int], dims: Sequence[int], *bags: Any) -> Tensor:
    return _separate._native(_apart(packed, rows, dims), *bags)


def _fake(packed: Tensor, rows: Sequence[int], dims: Sequence[int], *bags: Any) -> Tensor:
    return _separate._fake(_apart(packed, rows, dims), *bags)


def _reference_backward(gradient: Tensor, rows: Sequence[int], dims: Sequence[int], *bags: Any) -> Tensor:
    found = _separate._reference_tables_backward(gradient, rows, dims, *bags)
    return torch.cat([one.flatten() for one in found]) if found else gradient.new_zeros(0)


def _native_backward(gradient: Tensor, rows: Sequence[int], dims: Sequence[int], *bags: Any) -> Tensor:
    if gradient.dtype != torch.float32:
        return _reference_backward(gradient, rows, dims, *bags)
    size = sum([count * dim for count, dim in zip(rows, dims, strict=True)])
    found = zeros(size, dtype=torch.float32, device=gradient.device)
    _separate.add_tables_gradients(gradient, _apart(found, rows, dims), *bags)
    return found


def _fake_backward(gradient: Tensor, rows: Sequence[int], dims: Sequence[int], *_: Any) -> Tensor:
    return gradient.new_empty(sum(count * dim for count, dim in zip(rows, dims, strict=True)))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    packed, rows, dims, indices, offsets, weights, reads, starts, sizes, means, _, flat = inputs
    ctx.weighted = weights is not None
    ctx.weights_wanted = ctx.weighted and weights.requires_grad
    ctx.packed_wanted, ctx.dtype = packed.requires_grad, packed.dtype
    ctx.rows, ctx.dims = rows, dims
    kept = [packed] if ctx.weights_wanted else []
    ctx.save_for_backward(indices, offsets, *([weights] if ctx.weighted else []), *kept)
    ctx.options = (reads, starts, sizes, means, flat)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    indices, offsets, *rest = ctx.saved_tensors
    weights = rest.pop(0) if ctx.weighted else None
    bags = (indices, offsets, weights, *ctx.options)
    of_packed = of_weights = None
    if ctx.packed_wanted:
        of_packed = OPS.packed_lookup_backward(gradient, ctx.rows, ctx.dims, *bags).to(ctx.dtype)
    if ctx.weights_wanted:
        of_weights = OPS.pooled_lookup_weights_backward(gradient, _apart(rest[0], ctx.rows, ctx.dims), *bags)
    return of_packed, None, None, None, None, of_weights, *[None] * 6


_BAGS = "int[] reads, SymInt[] starts, SymInt[] sizes, int[] means"
register_op(
    "packed_lookup(Tensor packed, SymInt[] rows, int[] dims, Tensor indices, Tensor offsets, Tensor? weights, "
    f"{_BAGS}, str[] names, bool flat) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    symbol=_native,
    python=_reference,
    setup_context=_setup_context,
    backward=_backward,
)
register_op(
    "packed_lookup_backward(Tensor gradient, SymInt[] rows, int[] dims, Tensor indices, Tensor offsets, "
    f"Tensor? weights, {_BAGS}, bool flat) -> Tensor",
    library=LIBRARY,
    fake=_fake_backward,
    symbol=_native_backward,
    python=_reference_backward,
)

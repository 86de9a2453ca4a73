"""Table-batched embeddings: look up rows of many tables at once, and train them in the backward pass.

The rows of each bag are added up, averaged, or given as they are. In the backward pass the gradients of each row are
added up over the whole batch, in float32 and in the order of the batch, and the optimizer then runs once for each row
that was looked up: no gradient of a table is ever made. Native kernels: `native/tbe_forward.cpp`, `tbe_backward.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops import _tbe_native, _tbe_reference
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._tbe_reference import missed_decay, update_rows
from flambeau.rec.ops._tbe_types import MEAN, NONE, SUM, Lookup, OptimizerSettings, OptimizerStates

__all__ = [
    "MEAN",
    "NONE",
    "SUM",
    "Lookup",
    "OptimizerSettings",
    "OptimizerStates",
    "fits",
    "lookup",
    "lookup_and_train",
    "missed_decay",
    "pool",
    "update_rows",
]


def lookup(
    lookup: Lookup,
    output_shape: tuple[int, ...],
    *,
    feature_requires_grad: Tensor | None = None,
    sparse: bool = False,
    max_gradient: float | None = None,
) -> Tensor:
    """Pool rows; the gradient of the tables is a tensor.

    Args:
        lookup: tables and bags.
        output_shape: of the result.
        feature_requires_grad: (features,), 0 where the feature gives its table no gradient.
        sparse: whether that has only the rows that were looked up; `weights` are (rows of all tables, columns) then.
        max_gradient: gradients of the output are limited to it, in size.

    Returns:
        float32 of `output_shape`. Gradients flow to the weights of bags, and to all tables of their dtype.

    Raises:
        RuntimeError: an index outside of its table, with feature and place.
    """
    if not _differentiated(lookup):
        return pool(lookup, output_shape)
    wanted = None if feature_requires_grad is None else feature_requires_grad.to(torch.uint8).contiguous()
    result: Tensor = _DenseLookUp.apply(  # type: ignore[no-untyped-call]
        lookup.weights, lookup.bag_weights, lookup, output_shape, wanted, sparse, max_gradient
    )
    return result


def _differentiated(lookup: Lookup) -> bool:
    factors = lookup.bag_weights
    wanted = lookup.weights.requires_grad or (factors is not None and factors.requires_grad)
    return wanted and torch.is_grad_enabled()


def lookup_and_train(
    lookup: Lookup,
    output_shape: tuple[int, ...],
    states: OptimizerStates,
    settings: OptimizerSettings,
    *,
    feature_requires_grad: Tensor | None = None,
    max_gradient: float | None = None,
    row_factors: Tensor | None = None,
    when_done: Callable[[], None] | None = None,
) -> Tensor:
    """Pool rows; the backward pass updates `lookup.weights` and the states in place.

    Args:
        lookup: tables and bags; weights that require gradients are trained.
        output_shape: of the result.
        states: what the optimizer needs, see `OptimizerSettings.optimizer`.
        settings: the optimizer.
        feature_requires_grad: (features,), 0 where the feature's table takes no part in the update.
        max_gradient: gradients of the output are limited to it, in size.
        row_factors: (total,) what the row of each index counts here, as decay that is not yet written does.
        when_done: called after the update.

    Returns:
        float32 of `output_shape`.

    Raises:
        RuntimeError: an index outside of its table, with feature and place.
    """
    wanted = None if feature_requires_grad is None else feature_requires_grad.to(torch.uint8).contiguous()
    result: Tensor = _LookUp.apply(  # type: ignore[no-untyped-call]
        lookup.weights, lookup.bag_weights, lookup, output_shape, states, settings, wanted, max_gradient, row_factors,
        when_done,
    )  # fmt: skip
    return result


def kernels(tensor: Tensor) -> Any:
    """The module of kernels that serves a tensor: native ones on the CPU, else plain torch."""
    native = tensor.device.type == "cpu" and LIBRARY.provider != "python" and tensor.dtype in _tbe_native.FORMATS
    return _tbe_native if native else _tbe_reference


def _kernels(lookup: Lookup, states: OptimizerStates | None = None) -> Any:
    serving = kernels(lookup.weights)
    kept = () if states is None else (states.momentum1, states.momentum2, states.prev_iter, states.row_counter)
    plain = any(one is not None and one.dtype != torch.float32 for one in kept)
    if lookup.cache is not None:
        plain |= lookup.cache.dtype != lookup.weights.dtype or lookup.cache.device != lookup.weights.device
    return _tbe_reference if plain else serving


def fits(lookup: Lookup) -> bool:
    """Whether a batch is known to fit: native kernels look at once; for other tables that takes long, and is False."""
    return kernels(lookup.weights) is _tbe_native and _tbe_native.fits(lookup)


def pool(lookup: Lookup, output_shape: tuple[int, ...], row_factors: Tensor | None = None) -> Tensor:
    """Pool rows, without gradients; see `lookup_and_train`."""
    serving = _kernels(lookup)
    known = lookup.fits or (serving is _tbe_native and _tbe_native.fits(lookup))
    if not known and (stray := serving.find_stray(lookup)) is not None:
        place, feature, index = stray
        rows = int(lookup.layout[1, feature])
        raise RuntimeError(
            f"indices has {index} at {place}, for feature {feature} whose table has {rows} rows; expected 0 to "
            f"{rows - 1}. bounds_check_mode decides what becomes of such indices."
        )
    lookup = lookup.located()
    # Kernels write all that belongs to a bag, which is everything where offsets fit.
    new = torch.empty if known and serving is _tbe_native else torch.zeros
    output = new(output_shape, device=lookup.indices.device)
    if row_factors is None:
        serving.forward(lookup, output)
    elif lookup.pooling == NONE:
        serving.forward(lookup, output)
        output *= row_factors.unsqueeze(1)
    else:
        factors = row_factors if lookup.bag_weights is None else row_factors * lookup.bag_weights
        serving.forward(replace(lookup, bag_weights=factors), output)
    return output


def _summed(lookup: Lookup, gradient: Tensor, wanted: Tensor | None) -> Tensor:
    """The gradient of all tables, float32."""
    # Gradient descent from zero, one step uphill, leaves the summed gradient of each row.
    tables = torch.zeros_like(lookup.weights, dtype=torch.float32)
    uphill = OptimizerSettings("exact_sgd", lr=-1.0, iteration=1)
    onto = replace(lookup, weights=tables)
    kernels(tables).backward(onto, gradient, wanted, OptimizerStates(), uphill)
    return tables


def _summed_by_row(lookup: Lookup, gradient: Tensor, wanted: Tensor | None) -> Tensor:
    """The gradient of rows that were looked up, a sparse tensor (rows of all tables, columns) of the tables' dtype."""
    rows, width = lookup.weights.shape
    lengths = lookup.offsets[lookup.bag_starts].diff()
    bases = torch.repeat_interleave(lookup.layout[3].to(lengths.device), lengths)
    touched, place = (lookup.indices.long() + bases).unique(return_inverse=True)
    layout = lookup.layout.clone()
    layout[0], layout[1], layout[3] = 0, len(touched), 0
    onto = replace(
        lookup, weights=lookup.weights.new_zeros(len(touched) * width), layout=layout, indices=place.contiguous()
    )
    summed = _summed(onto, gradient, wanted).view(-1, width).to(lookup.weights.dtype)
    return torch.sparse_coo_tensor(
        touched.unsqueeze(0), summed, (rows, width), is_coalesced=True, check_invariants=False
    )


class _DenseLookUp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        bag_weights: Tensor | None,
        lookup: Lookup,
        output_shape: tuple[int, ...],
        wanted: Tensor | None,
        sparse: bool,
        max_gradient: float | None,
    ) -> Tensor:
        ctx.lookup, ctx.wanted, ctx.sparse, ctx.max_gradient = lookup, wanted, sparse, max_gradient
        return pool(lookup, output_shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = _limited(gradients[0], ctx.max_gradient)
        lookup = ctx.lookup
        tables = bags = None
        with torch.no_grad():
            if ctx.needs_input_grad[1] and lookup.pooling != NONE:
                bags = kernels(lookup.weights).weights_gradient(lookup, gradient, ctx.wanted)
            if ctx.needs_input_grad[0] and ctx.sparse:
                tables = _summed_by_row(lookup, gradient, ctx.wanted)
            elif ctx.needs_input_grad[0]:
                tables = _summed(lookup, gradient, ctx.wanted).to(lookup.weights.dtype)
        return tables, bags, None, None, None, None, None


def _limited(gradient: Tensor, most: float | None) -> Tensor:
    gradient = gradient.contiguous()
    return gradient if most is None else gradient.clamp(-most, most)


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        bag_weights: Tensor | None,
        lookup: Lookup,
        output_shape: tuple[int, ...],
        states: OptimizerStates,
        settings: OptimizerSettings,
        wanted: Tensor | None,
        max_gradient: float | None,
        row_factors: Tensor | None,
        when_done: Callable[[], None] | None,
    ) -> Tensor:
        output = pool(lookup, output_shape, row_factors)
        ctx.lookup, ctx.states, ctx.settings, ctx.wanted = lookup, states, settings, wanted
        ctx.max_gradient, ctx.row_factors, ctx.when_done = max_gradient, row_factors, when_done
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = _limited(gradients[0], ctx.max_gradient)
        lookup = ctx.lookup.located()
        serving = _kernels(lookup, ctx.states)
        # Before the tables change.
        weights = None
        if ctx.needs_input_grad[1] and lookup.pooling != NONE:
            weights = serving.weights_gradient(lookup, gradient, ctx.wanted)
            if ctx.row_factors is not None:
                weights = weights * ctx.row_factors
        if ctx.needs_input_grad[0]:
            with torch.no_grad():
                serving.backward(lookup, gradient, ctx.wanted, ctx.states, ctx.settings)
        if ctx.when_done is not None:
            ctx.when_done()
        return None, weights, None, None, None, None, None, None, None, None

"""Table-batched embeddings: look up rows of many tables at once, and train them in the backward pass.

The rows of each bag are added up, averaged, or given as they are. In the backward pass the gradients of each row are
added up over the whole batch, in float32 and in the order of the batch, and the optimizer then runs once for each row
that was looked up: no gradient of a table is ever made. Native kernels: `native/tbe_forward.cpp`, `tbe_backward.cpp`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops import _tbe_native, _tbe_reference
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._tbe_reference import update_rows
from flambeau.rec.ops._tbe_types import MEAN, NONE, SUM, Lookup, OptimizerSettings, OptimizerStates

__all__ = [
    "MEAN",
    "NONE",
    "SUM",
    "Lookup",
    "OptimizerSettings",
    "OptimizerStates",
    "lookup",
    "lookup_and_train",
    "update_rows",
]


def lookup(lookup: Lookup, output_shape: tuple[int, ...], *, feature_requires_grad: Tensor | None = None) -> Tensor:
    """Pool rows; the gradient of the tables is a tensor.

    Args:
        lookup: tables and bags.
        output_shape: of the result.
        feature_requires_grad: (features,), 0 where the feature gives its table no gradient.

    Returns:
        float32 of `output_shape`. Gradients flow to the weights of bags, and to all tables of their dtype.

    Raises:
        RuntimeError: an index outside of its table, with feature and place.
    """
    wanted = None if feature_requires_grad is None else feature_requires_grad.to(torch.uint8).contiguous()
    result: Tensor = _DenseLookUp.apply(lookup.weights, lookup.bag_weights, lookup, output_shape, wanted)  # type: ignore[no-untyped-call]
    return result


def lookup_and_train(
    lookup: Lookup,
    output_shape: tuple[int, ...],
    states: OptimizerStates,
    settings: OptimizerSettings,
    *,
    feature_requires_grad: Tensor | None = None,
    max_gradient: float | None = None,
) -> Tensor:
    """Pool rows; the backward pass updates `lookup.weights` and the states in place.

    Args:
        lookup: tables and bags; weights that require gradients are trained.
        output_shape: of the result.
        states: what the optimizer needs, see `OptimizerSettings.optimizer`.
        settings: the optimizer.
        feature_requires_grad: (features,), 0 where the feature's table takes no part in the update.
        max_gradient: gradients of the output are limited to it, in size.

    Returns:
        float32 of `output_shape`.

    Raises:
        RuntimeError: an index outside of its table, with feature and place.
    """
    wanted = None if feature_requires_grad is None else feature_requires_grad.to(torch.uint8).contiguous()
    result: Tensor = _LookUp.apply(  # type: ignore[no-untyped-call]
        lookup.weights, lookup.bag_weights, lookup, output_shape, states, settings, wanted, max_gradient
    )
    return result


def kernels(tensor: Tensor) -> Any:
    """The module of kernels that serves a tensor: native ones on the CPU, else plain torch."""
    native = tensor.device.type == "cpu" and LIBRARY.provider != "python" and tensor.dtype in _tbe_native.FORMATS
    return _tbe_native if native else _tbe_reference


def _pooled(lookup: Lookup, output_shape: tuple[int, ...]) -> Tensor:
    serving = kernels(lookup.weights)
    if (stray := serving.find_stray(lookup)) is not None:
        place, feature, index = stray
        rows = int(lookup.layout[1, feature])
        raise RuntimeError(
            f"indices has {index} at {place}, for feature {feature} whose table has {rows} rows; expected 0 to "
            f"{rows - 1}. bounds_check_mode decides what becomes of such indices."
        )
    output = torch.zeros(output_shape, device=lookup.weights.device)
    serving.forward(lookup, output)
    return output


class _DenseLookUp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        bag_weights: Tensor | None,
        lookup: Lookup,
        output_shape: tuple[int, ...],
        wanted: Tensor | None,
    ) -> Tensor:
        ctx.lookup, ctx.wanted = lookup, wanted
        return _pooled(lookup, output_shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].contiguous()
        lookup = ctx.lookup
        serving = kernels(lookup.weights)
        tables = bags = None
        with torch.no_grad():
            if ctx.needs_input_grad[1]:
                bags = serving.weights_gradient(lookup, gradient, ctx.wanted)
            if ctx.needs_input_grad[0]:
                # Gradient descent from zero, one step uphill, leaves the summed gradient of each row.
                tables = torch.zeros_like(lookup.weights, dtype=torch.float32)
                uphill = OptimizerSettings("exact_sgd", lr=-1.0, iteration=1)
                onto = replace(lookup, weights=tables)
                serving.backward(onto, gradient, ctx.wanted, OptimizerStates(), uphill)
                tables = tables.to(lookup.weights.dtype)
        return tables, bags, None, None, None


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
    ) -> Tensor:
        output = _pooled(lookup, output_shape)
        ctx.lookup, ctx.states, ctx.settings, ctx.wanted = lookup, states, settings, wanted
        ctx.max_gradient = max_gradient
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        gradient = gradient.contiguous()
        if ctx.max_gradient is not None:
            gradient = gradient.clamp(-ctx.max_gradient, ctx.max_gradient)
        serving = kernels(ctx.lookup.weights)
        # Before the tables change.
        wants_weights = ctx.needs_input_grad[1]
        weights = serving.weights_gradient(ctx.lookup, gradient, ctx.wanted) if wants_weights else None
        if ctx.needs_input_grad[0]:
            with torch.no_grad():
                serving.backward(ctx.lookup, gradient, ctx.wanted, ctx.states, ctx.settings)
        return None, weights, None, None, None, None, None, None

"""Look up rows of tables on disk, and train them in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.fbgemm_gpu.tbe.ssd._tiers import Located, TieredTables
from flambeau.rec.ops import tbe

__all__ = ["Training", "lookup_and_train"]


@dataclass
class Training:
    """How rows of a batch are trained.

    Args:
        tables: where they are.
        feature_tables: the table of each feature.
        settings: the optimizer.
        momenta: how many of the states are momenta; what follows are counters of rows.
        wanted: (features,), 0 where the feature's table takes no part; all do by default.
        max_gradient: gradients of the output are limited to it, in size.
        before: called with the gradient before rows are trained.
    """

    tables: TieredTables
    feature_tables: list[int]
    settings: tbe.OptimizerSettings
    momenta: int
    wanted: Tensor | None = None
    max_gradient: float | None = None
    before: Callable[[Tensor], object] | None = None

    def states(self) -> tbe.OptimizerStates:
        """What the optimizer keeps of the rows in memory."""
        states, offsets, slots = self.tables.states(self.feature_tables)
        momenta = [(state, at) for state, at in zip(states, offsets, strict=True)][: self.momenta]
        momenta += [(None, None)] * (2 - len(momenta))  # type: ignore[list-item]
        counters = [*states[self.momenta :], None, None]
        return tbe.OptimizerStates(*momenta[0], *momenta[1], counters[0], counters[1], slots)


def lookup_and_train(anchor: Tensor, located: Located, shape: tuple[int, ...], training: Training) -> Tensor:
    """Pool rows; the backward pass trains them where they are then.

    Rows may leave the memory between the two, and are fetched again: what the backward pass does is what it would do
    to tables in memory, also where it comes late, twice, or never.

    Args:
        anchor: requires gradients where rows are to be trained.
        located: the batch.
        shape: of the result.
        training: see there.

    Returns:
        float32 of `shape`.
    """
    result: Tensor = _LookUp.apply(anchor, located.lookup.bag_weights, located, shape, training)  # type: ignore[no-untyped-call]
    return result


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        bag_weights: Tensor | None,
        located: Located,
        shape: tuple[int, ...],
        training: Training,
    ) -> Tensor:
        ctx.located, ctx.training = located, training
        output = torch.zeros(shape)
        tbe.kernels(located.lookup.weights).forward(located.lookup, output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        located: Located = ctx.located
        training: Training = ctx.training
        gradient = gradients[0].contiguous()
        if training.max_gradient is not None:
            gradient = gradient.clamp(-training.max_gradient, training.max_gradient)
        if training.before is not None:
            training.before(gradient)
        weights = None
        with training.tables.lock, torch.no_grad():
            training.tables.relocate(located, training.feature_tables)
            lookup = located.lookup
            serving = tbe.kernels(lookup.weights)
            if ctx.needs_input_grad[1]:  # before rows change
                weights = serving.weights_gradient(lookup, gradient, training.wanted)
            if ctx.needs_input_grad[0]:
                training.tables.mark(located)
                serving.backward(lookup, gradient, training.wanted, training.states(), training.settings)
        return None, weights, None, None, None

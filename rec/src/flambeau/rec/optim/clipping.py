"""Gradients that are limited before a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from enum import Enum, unique
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from flambeau.rec.optim.keyed import KeyedOptimizer, OptimizerWrapper

__all__ = ["GradientClipping", "GradientClippingOptimizer"]


@unique
class GradientClipping(Enum):
    """What is limited: the norm of all gradients together, each number by itself, or nothing."""

    NORM = "norm"
    VALUE = "value"
    NONE = "none"


class GradientClippingOptimizer(OptimizerWrapper):
    """An optimizer that limits gradients before its steps.

    Args:
        optimizer: what makes the steps.
        clipping: what is limited.
        max_gradient: the limit.
        norm_type: of the norm: 1, 2, ..., or inf.
        enable_global_grad_clip: whether the norm is that of the whole model, of which other processes have parts.
        param_to_pgs: for each parameter that is divided among processes, the groups over which its norm is summed.
        track_grad_norm: whether `last_total_grad_norm` is kept.
    """

    def __init__(
        self,
        optimizer: KeyedOptimizer,
        clipping: GradientClipping = GradientClipping.NONE,
        max_gradient: float = 0.1,
        norm_type: float | str = 2.0,
        enable_global_grad_clip: bool = False,
        param_to_pgs: dict[torch.nn.Parameter, list[dist.ProcessGroup]] | None = None,
        track_grad_norm: bool = False,
    ) -> None:
        super().__init__(optimizer)
        self._clipping, self._max_gradient = clipping, max_gradient
        self._norm_type = float(norm_type)
        self._global, self._track = enable_global_grad_clip, track_grad_norm
        self._groups_of = param_to_pgs or {}
        self._last_total_grad_norm: Tensor | None = None

    @property
    def last_total_grad_norm(self) -> Tensor | None:
        """The norm of all gradients before the last step limited them, where it is kept."""
        return self._last_total_grad_norm

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Limit gradients, then make a step."""
        if self._clipping == GradientClipping.NORM:
            norm = self.clip_grad_norm_()
            if self._track and norm is not None:
                self._last_total_grad_norm = torch.as_tensor(norm)
        elif self._track:
            self._last_total_grad_norm, _ = self.compute_total_grad_norm()
        if self._clipping == GradientClipping.VALUE:
            torch.nn.utils.clip_grad_value_(list(self._trained()), self._max_gradient)
        super().step(closure)

    def _params(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def _trained(self) -> Iterator[Tensor]:
        return (param for param in self._params() if param.grad is not None)

    def _divided(self) -> bool:
        return self._global and bool(self._groups_of)

    @torch.no_grad()
    def clip_grad_norm_(self) -> float | Tensor | None:
        """Scale all gradients so that their norm is at most the limit; returns what it was, None without gradients."""
        if not self._divided() and not any(isinstance(param, DTensor) for param in self._params()):
            return torch.nn.utils.clip_grad_norm_(list(self._trained()), self._max_gradient, norm_type=self._norm_type)
        total, gradients = self.compute_total_grad_norm()
        if gradients:
            factor = (self._max_gradient / (total + 1e-6)).clamp(max=1.0)
            torch._foreach_mul_(gradients, factor)
        return total

    @torch.no_grad()
    def compute_total_grad_norm(self) -> tuple[Tensor, list[Tensor]]:
        """The norm of all gradients, those of other processes' parts included, and the gradients of this process."""
        by_groups: dict[tuple[dist.ProcessGroup, ...], list[Tensor]] = defaultdict(list)
        device = torch.device("cpu")
        for param in self._params():
            groups = tuple(self._groups_of.get(param, ()))  # type: ignore[call-overload]
            if not groups and isinstance(param, DTensor):
                groups = tuple(param.device_mesh.get_all_groups())
            # A process without gradients takes part in the sums all the same.
            gradients, gradient, device = by_groups[groups], param.grad, param.device
            if gradient is not None:
                gradients.append(gradient.to_local() if isinstance(gradient, DTensor) else gradient)
        totals = []
        # In the same order on all processes, whose parameters come in orders of their own.
        for groups in sorted(by_groups, key=lambda several: [group.group_name for group in several]):
            power = self._power(by_groups[groups], device)
            for group in groups:
                dist.all_reduce(power, op=self._reduction(), group=group)
            totals.append(power)
        gradients = [gradient for several in by_groups.values() for gradient in several]
        if not totals:
            return torch.zeros(()), []
        together = torch.stack(totals)
        if self._norm_type == float("inf"):
            return together.max(), gradients
        return together.sum().pow(1 / self._norm_type), gradients

    def _power(self, gradients: list[Tensor], device: torch.device) -> Tensor:
        """The norm to the power that sums over parts; of the maximum norm itself."""
        filled = [gradient for gradient in gradients if gradient.numel()]
        if not filled:
            return torch.zeros((), device=device)
        norms = torch.stack(torch._foreach_norm(filled, self._norm_type))
        return norms.max() if self._norm_type == float("inf") else norms.pow(self._norm_type).sum()

    def _reduction(self) -> Any:
        return dist.ReduceOp.MAX if self._norm_type == float("inf") else dist.ReduceOp.SUM

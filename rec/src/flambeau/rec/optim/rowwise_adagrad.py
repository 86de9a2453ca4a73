"""Adagrad with one sum for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["RowWiseAdagrad", "adagrad"]


class RowWiseAdagrad(Optimizer):
    """Adagrad (Duchi et al. 2011) that keeps the sum of a row's mean squared gradients, instead of one for each number.

    With gradient g of a row: s += mean(g ** 2); row -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(s) + eps).

    Args:
        params: two-dimensional; others are taken as they are, a row being what the first dimension counts.
        lr: learning rate, at least 0.
        lr_decay: how fast it falls, at least 0.
        weight_decay: added to gradients times the parameter, at least 0.
        initial_accumulator_value: what sums begin with, at least 0.
        eps: added to the denominator, at least 0.
        maximize: whether steps go up.
        unused: options of other optimizers, left alone.

    Raises:
        ValueError: a number below 0.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **unused: Any,
    ) -> None:
        settings = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
        }  # fmt: skip
        for name, value in settings.items():
            if not value >= 0:
                raise ValueError(f"{name} is {value}, expected at least 0.")
        super().__init__(params, {**settings, "maximize": maximize})
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["step"] = torch.tensor(0.0)
                shape = (*param.shape[:1], *[1] * (param.dim() - 1))
                self.state[param]["sum"] = torch.full(
                    shape, initial_accumulator_value, dtype=param.dtype, device=param.device
                )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)
        for kept in self.state.values():
            kept["step"] = torch.as_tensor(kept["step"], dtype=torch.float32)

    def share_memory(self) -> None:
        """Put what is kept into memory that processes share."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:  # type: ignore[override]
        """Train all parameters that have gradients.

        Args:
            closure: computes the loss and gradients anew.

        Returns:
            What the closure returns.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            adagrad(
                params,
                [param.grad for param in params],
                [self.state[param]["sum"] for param in params],
                [self.state[param]["step"] for param in params],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                lr_decay=group["lr_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
            )
        return loss


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of row-wise Adagrad, see `RowWiseAdagrad`.

    Args:
        params: changed in place.
        grads: their gradients, dense or sparse in their first dimension.
        state_sums: (rows, 1) each, changed in place.
        state_steps: numbers of steps, changed in place.
        lr: learning rate.
        weight_decay: added to gradients times the parameter.
        lr_decay: how fast the learning rate falls.
        eps: added to the denominator.
        maximize: whether steps go up.

    Raises:
        RuntimeError: weights decay, and a gradient is sparse.
    """
    for param, grad, total, step in zip(params, grads, state_sums, state_steps, strict=True):
        step += 1
        gradient = -grad if maximize else grad
        rate = lr / (1 + (float(step) - 1) * lr_decay)
        if gradient.is_sparse:
            if weight_decay != 0:
                raise RuntimeError(f"weight_decay is {weight_decay}, which takes dense gradients; expected 0.")
            _sparse_step(param, gradient.coalesce(), total, rate, eps)
            continue
        if weight_decay != 0:
            gradient = gradient.add(param, alpha=weight_decay)
        total += _mean_square(gradient)
        param.addcdiv_(gradient, total.sqrt() + eps, value=-rate)


def _sparse_step(param: Tensor, gradient: Tensor, total: Tensor, rate: float, eps: float) -> None:
    rows, values = gradient.indices()[0], gradient.values()
    total.index_add_(0, rows, _mean_square(values))
    param.index_add_(0, rows, values / (total[rows].sqrt() + eps), alpha=-rate)


def _mean_square(gradient: Tensor) -> Tensor:
    """(rows, 1, ...)."""
    if gradient.dim() == 1:
        return gradient.square()
    return gradient.square().mean(dim=tuple(range(1, gradient.dim())), keepdim=True)

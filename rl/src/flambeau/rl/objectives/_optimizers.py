"""Optimizers of several losses as one, and steps whose size follows how far a policy moves."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def group_optimizers(*optimizers: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """One optimizer with the groups of parameters of several, and with what they have accumulated.

    Args:
        *optimizers: of one class.

    Raises:
        TypeError: none is given.
        ValueError: their classes differ, or they share parameters.
    """
    if not optimizers:
        raise TypeError("group_optimizers takes one optimizer or more, got none.")
    kinds = {type(optimizer) for optimizer in optimizers}
    if len(kinds) > 1:
        raise ValueError(f"Optimizers of one class can be grouped, got {sorted(kind.__name__ for kind in kinds)}.")
    make: Any = kinds.pop()
    grouped: torch.optim.Optimizer = make([dict(group) for each in optimizers for group in each.param_groups])
    for optimizer in optimizers:
        grouped.state.update(optimizer.state)
    return grouped


class KLAdaptiveLR:
    """A learning rate that falls where a policy moved too far, and grows where it moved too little.

    More than twice the target divides it by `factor`, less than half multiplies it; nothing at all (0) leaves it.

    Args:
        optimizer: whose groups' learning rates are changed.
        target_kl: divergence aimed at, > 0.
        factor: > 1.
        min_lr: > 0, the least learning rate.
        max_lr: the largest.

    Raises:
        ValueError: numbers out of their ranges.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, target_kl: float, *, factor: float = 1.5, min_lr: float = 1e-5,
        max_lr: float = 1e-2,
    ) -> None:  # fmt: skip
        if not (math.isfinite(target_kl) and target_kl > 0):
            raise ValueError(f"target_kl is {target_kl}, expected a finite number > 0.")
        if not (math.isfinite(factor) and factor > 1):
            raise ValueError(f"factor is {factor}, expected a finite number > 1.")
        if not 0 < min_lr <= max_lr < math.inf:
            raise ValueError(
                f"min_lr is {min_lr} and max_lr {max_lr}; both must be finite, min_lr > 0 and not the larger one."
            )
        self.optimizer, self.target_kl, self.factor = optimizer, target_kl, factor
        self.min_lr, self.max_lr = min_lr, max_lr
        self.last_kl: float | None = None

    def step(self, kl: float | Tensor) -> None:
        """Change the learning rates by a divergence that was measured.

        Raises:
            ValueError: it is not one finite number.
        """
        if isinstance(kl, Tensor):
            if kl.numel() != 1:
                raise ValueError(f"kl has {kl.numel()} elements, expected one; reduce it first.")
            kl = kl.item()
        kl = float(kl)
        if not math.isfinite(kl):
            raise ValueError(f"kl is {kl}, expected a finite number.")
        self.last_kl = kl
        change = 1 / self.factor if kl > 2 * self.target_kl else self.factor if 0 < kl < self.target_kl / 2 else 1.0
        if change == 1:
            return
        for group in self.optimizer.param_groups:
            group["lr"] = min(max(group["lr"] * change, self.min_lr), self.max_lr)

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "optimizer"})

"""Optimizers that run in the backward pass of the module that owns the parameters."""

from __future__ import annotations

import abc
from typing import Any

from flambeau.rec.optim.keyed import KeyedOptimizer

__all__ = ["EmptyFusedOptimizer", "FusedOptimizer", "FusedOptimizerModule"]


class FusedOptimizer(KeyedOptimizer, abc.ABC):
    """What the backward pass has done already: its steps change nothing but settings."""

    @abc.abstractmethod
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Have changed settings, such as the learning rate, hold from the next backward pass on."""

    @abc.abstractmethod
    def zero_grad(self, set_to_none: bool = False) -> None:
        """There are no gradients to forget."""


class EmptyFusedOptimizer(FusedOptimizer):
    """One without parameters."""

    def __init__(self) -> None:
        super().__init__({}, {}, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Nothing to do."""

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Nothing to do."""


class FusedOptimizerModule(abc.ABC):
    """A module that trains its parameters in its backward pass."""

    @property
    @abc.abstractmethod
    def fused_optimizer(self) -> KeyedOptimizer:
        """What it trains them by."""

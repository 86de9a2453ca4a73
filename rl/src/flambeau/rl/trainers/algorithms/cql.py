"""`CQLTrainer`."""

from __future__ import annotations

from typing import Any

from flambeau.rl.trainers._optim_hooks import DefaultOptimizationStepper
from flambeau.rl.trainers.algorithms._off_policy import OffPolicyTrainer

__all__ = ["CQLTrainer"]


class CQLTrainer(OffPolicyTrainer):
    """Trains by conservative Q-learning: actions that were not taken have low values.

    Its arguments are those of `OffPolicyTrainer`.

    References:
        Kumar et al. 2020, arXiv:2006.04779.
    """

    def __init__(self, *, optimizer: Any = None, optimization_stepper: Any = None, **kwargs: Any) -> None:
        if optimization_stepper is None and optimizer is not None:
            optimization_stepper = DefaultOptimizationStepper()
        super().__init__(optimizer=optimizer, optimization_stepper=optimization_stepper, **kwargs)
        if optimizer is not None:
            self.register_module("optimizer", optimizer)

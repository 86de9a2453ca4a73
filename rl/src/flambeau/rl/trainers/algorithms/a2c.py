"""`A2CTrainer`."""

from __future__ import annotations

from typing import ClassVar

from flambeau.rl.trainers.algorithms.on_policy import OnPolicyTrainer

__all__ = ["A2CTrainer"]


class A2CTrainer(OnPolicyTrainer):
    """Trains by advantage actor-critic: each batch serves once.

    Its arguments are those of `OnPolicyTrainer`.

    References:
        Mnih et al. 2016, arXiv:1602.01783.
    """

    default_num_epochs: ClassVar[int] = 1

"""`PPOTrainer`."""

from __future__ import annotations

from typing import ClassVar

from flambeau.rl.trainers.algorithms.on_policy import OnPolicyTrainer

__all__ = ["PPOTrainer"]


class PPOTrainer(OnPolicyTrainer):
    """Trains by proximal policy optimization: each batch serves four epochs.

    Its arguments are those of `OnPolicyTrainer`.

    References:
        Schulman et al. 2017, arXiv:1707.06347.
    """

    default_num_epochs: ClassVar[int] = 4

"""`IQLTrainer`."""

from __future__ import annotations

from flambeau.rl.trainers.algorithms._off_policy import OffPolicyTrainer

__all__ = ["IQLTrainer"]


class IQLTrainer(OffPolicyTrainer):
    """Trains by implicit Q-learning: values of actions that were taken, and none of others.

    Its arguments are those of `OffPolicyTrainer`.

    References:
        Kostrikov et al. 2022, arXiv:2110.06169.
    """

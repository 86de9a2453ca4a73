"""`SACTrainer`."""

from __future__ import annotations

from flambeau.rl.trainers.algorithms._off_policy import OffPolicyTrainer

__all__ = ["SACTrainer"]


class SACTrainer(OffPolicyTrainer):
    """Trains a soft actor-critic, with one optimizer for the sum of its losses.

    Its arguments are those of `OffPolicyTrainer`.

    References:
        Haarnoja et al. 2018, arXiv:1812.05905.
    """

"""`DDPGTrainer`."""

from __future__ import annotations

from flambeau.rl.trainers.algorithms._off_policy import OffPolicyTrainer

__all__ = ["DDPGTrainer"]


class DDPGTrainer(OffPolicyTrainer):
    """Trains a deterministic policy by gradients of its values.

    Its arguments are those of `OffPolicyTrainer`.

    References:
        Lillicrap et al. 2016, arXiv:1509.02971.
    """

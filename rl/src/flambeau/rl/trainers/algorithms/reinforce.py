"""`ReinforceTrainer`."""

from __future__ import annotations

from typing import ClassVar

from flambeau.rl.trainers.algorithms.on_policy import OnPolicyTrainer

__all__ = ["ReinforceTrainer"]


class ReinforceTrainer(OnPolicyTrainer):
    """Trains by REINFORCE: each batch serves once.

    Its arguments are those of `OnPolicyTrainer`.

    References:
        Williams 1992.
    """

    default_num_epochs: ClassVar[int] = 1

"""Losses and their target networks from configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.rl.objectives import DistributionalDQNLoss, DQNLoss, HardUpdate, SoftUpdate

__all__ = ["A2CLossConfig", "LossConfig", "PPOLossConfig", "make_dqn_loss", "make_target_updater"]


@dataclass
class LossConfig:
    """A loss on values.

    Attributes:
        loss: "double" with target networks, "single" without.
        hard_update: targets are copied now and then, else they follow slowly.
        loss_function: of errors: "l1", "l2" or "smooth_l1".
        value_network_update_interval: steps between copies; targets that follow take its inverse of the source.
        gamma: the discount.
        num_q_values: number of critics.
        target_entropy: of policies; None for that of the loss.
    """

    loss: str = "double"
    hard_update: bool = False
    loss_function: str = "smooth_l1"
    value_network_update_interval: int = 1000
    gamma: float = 0.99
    num_q_values: int = 2
    target_entropy: Any = None


@dataclass
class A2CLossConfig:
    """The loss of an advantage actor-critic.

    Attributes:
        gamma: the discount.
        entropy_coeff, critic_coeff: weights of the entropy and of the critic's loss.
        critic_loss_function: of the critic's errors.
    """

    gamma: float = 0.99
    entropy_coeff: float = 1e-3
    critic_coeff: float = 1.0
    critic_loss_function: str = "smooth_l1"


@dataclass
class PPOLossConfig:
    """The loss of proximal policy optimization.

    Attributes:
        loss: "clip", "kl" or "base".
        gamma, lmbda: of the advantages.
        entropy_bonus, entropy_coeff, samples_mc_entropy: of the entropy.
        loss_function, critic_coeff: of the critic.
        clip_epsilon: how far the ratio may be from 1.
        dtarg, beta, increment, decrement, samples_mc_kl: of the divergence.
    """

    loss: str = "clip"
    gamma: float = 0.99
    lmbda: float = 0.95
    entropy_bonus: bool = True
    entropy_coeff: float = 1e-3
    samples_mc_entropy: int = 1
    loss_function: str = "smooth_l1"
    critic_coeff: float = 1.0
    clip_epsilon: float = 0.2
    dtarg: float = 0.01
    beta: float = 1.0
    increment: float = 2
    decrement: float = 0.5
    samples_mc_kl: int = 1


def make_target_updater(cfg: Any, loss_module: Any) -> Any:
    """What moves the targets of a loss.

    Args:
        cfg: as `LossConfig`.
        loss_module: the loss.

    Returns:
        A `HardUpdate` or a `SoftUpdate`; None for a loss without targets.

    Raises:
        NotImplementedError: another `loss`, or `hard_update` without targets.
    """
    if cfg.loss == "double":
        interval = cfg.value_network_update_interval
        if cfg.hard_update:
            return HardUpdate(loss_module, value_network_update_interval=interval)
        return SoftUpdate(loss_module, eps=1 - 1 / interval)
    if cfg.hard_update:
        raise NotImplementedError(f"hard_update is for losses with targets, which loss={cfg.loss!r} has not.")
    return None


def make_dqn_loss(model: Any, cfg: Any) -> tuple[Any, Any]:
    """A loss of deep Q-learning, distributional where `cfg.distributional` is set, and what moves its targets.

    Args:
        model: the actor.
        cfg: as `LossConfig`, and `distributional`.

    Raises:
        NotImplementedError: another `loss`.
    """
    if cfg.loss not in ("single", "double"):
        raise NotImplementedError(f"loss is {cfg.loss!r}, expected 'single' or 'double'.")
    options: dict[str, Any] = {"gamma": cfg.gamma} if cfg.distributional else {"loss_function": cfg.loss_function}
    kind = DistributionalDQNLoss if cfg.distributional else DQNLoss
    loss: Any = kind(model, delay_value=cfg.loss == "double", **options)
    if not cfg.distributional:
        loss.make_value_estimator(gamma=cfg.gamma)
    return loss, make_target_updater(cfg, loss)

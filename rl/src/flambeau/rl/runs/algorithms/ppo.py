"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim.lr_scheduler import LinearLR

from flambeau.rl.data import LazyTensorStorage, SamplerWithoutReplacement
from flambeau.rl.data.tensor_specs import OneHot
from flambeau.rl.objectives import ClipPPOLoss
from flambeau.rl.objectives.value import GAE
from flambeau.rl.runs.algorithms._parts import (
    NeededSteps,
    Parts,
    adam,
    critic,
    gaussian_policy,
    orthogonal,
    stochastic_policy,
)
from flambeau.rl.trainers.algorithms import PPOTrainer

__all__ = ["PRESETS", "Settings", "build"]


@dataclass(frozen=True)
class Settings:
    """Steps are collected by `envs` environments, `steps` each, and serve `epochs` times in pieces of `batch_size`."""

    frames: int = 1_000_000
    envs: int = 8
    steps: int = 256
    batch_size: int = 256
    epochs: int = 10
    lr: float = 3e-4
    gamma: float = 0.99
    lmbda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    critic: float = 0.5
    grad_norm: float = 0.5
    cells: tuple[int, ...] = (64, 64)


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "frames": 60_000,
        "envs": 8,
        "steps": 32,
        "batch_size": 256,
        "epochs": 20,
        "lr": 1e-3,
        "gamma": 0.98,
        "lmbda": 0.8,
    },
    "Pendulum-v1": {"frames": 200_000, "envs": 16, "steps": 64, "batch_size": 128, "lr": 1e-3, "gamma": 0.9},
}


class _Advantages:
    """Computes the advantages of each batch once, as the paper has it, and draws from it, epoch after epoch.

    Args:
        estimator: writes advantages and targets of values.
        buffer: takes a batch.
    """

    def __init__(self, estimator: GAE, buffer: NeededSteps) -> None:
        self.estimator, self.buffer = estimator, buffer

    def fill(self, batch: Any) -> Any:
        """The batch with advantages; the buffer has its steps in the place of those before."""
        batch = self.estimator(batch)
        self.buffer.empty()
        self.buffer.extend(batch.reshape(-1))
        return batch

    def draw(self, batch: Any) -> Any:
        """Some of its steps; all of them in the course of an epoch."""
        return self.buffer.sample()

    def register(self, trainer: Any) -> None:
        """Fill with each batch, draw for each step."""
        trainer.register_op("batch_process", self.fill)
        trainer.register_op("process_optim_batch", self.draw)


def build(env: Any, settings: Settings, frames: int) -> Parts:
    """The parts for an environment, and a run of so many frames."""
    chooses = isinstance(env.action_spec_unbatched, OneHot)
    policy = (stochastic_policy if chooses else gaussian_policy)(env, settings.cells, nn.Tanh)
    values = critic(env, settings.cells, nn.Tanh)
    if not chooses:
        orthogonal(values, last=1.0)
    loss = ClipPPOLoss(
        policy,
        values,
        clip_epsilon=settings.clip,
        entropy_bonus=settings.entropy != 0,
        entropy_coeff=settings.entropy,
        critic_coeff=settings.critic,
        loss_critic_type="l2",
    )
    whole = settings.envs * settings.steps
    buffer = NeededSteps(
        ["observation", "action", "action_log_prob", "advantage", "value_target"],
        storage=LazyTensorStorage(whole),
        sampler=SamplerWithoutReplacement(),
        batch_size=settings.batch_size,
    )
    estimator = GAE(gamma=settings.gamma, lmbda=settings.lmbda, value_network=values, average_gae=True)
    optimizer = adam(loss.parameters(), lr=settings.lr, eps=1e-5)
    return Parts(
        policy,
        policy,
        loss,
        PPOTrainer,
        {
            "optimizer": optimizer,
            "lr_scheduler": LinearLR(optimizer, 1.0, 0.0, total_iters=max(1, -(-frames // whole))),
            "add_gae": False,
            "optim_steps_per_batch": max(1, whole // settings.batch_size),
            "num_epochs": settings.epochs,
            "clip_norm": settings.grad_norm,
        },
        hooks=(_Advantages(estimator, buffer),),
        frames_per_batch=whole,
    )

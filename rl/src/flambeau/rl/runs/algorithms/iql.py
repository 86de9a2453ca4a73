"""Implicit Q-learning (Kostrikov et al. 2022, arXiv:2110.06169), with steps of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from flambeau.rl.objectives import IQLLoss, SoftUpdate
from flambeau.rl.runs.algorithms._parts import Parts, adam, continuous, critic, q_network, replay, stochastic_policy
from flambeau.rl.trainers.algorithms import IQLTrainer

__all__ = ["PRESETS", "Settings", "build"]


@dataclass(frozen=True)
class Settings:
    """After each `batch_frames` steps of `envs` environments, `updates` batches of the buffer are trained with."""

    frames: int = 1_000_000
    envs: int = 1
    batch_frames: int = 1
    updates: int = 1
    batch_size: int = 256
    buffer: int = 1_000_000
    start: int = 1_000
    lr: float = 1e-3
    gamma: float = 0.99
    tau: float = 0.005
    temperature: float = 3.0
    expectile: float = 0.8
    cells: tuple[int, ...] = (256, 256)


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "frames": 60_000,
        "envs": 4,
        "batch_frames": 16,
        "updates": 8,
        "batch_size": 128,
        "buffer": 60_000,
        "cells": (64, 64),
    },
}


def build(env: Any, settings: Settings, frames: int) -> Parts:
    """The parts for an environment, and a run of so many frames."""
    continuous(env, "iql")
    policy = stochastic_policy(env, settings.cells, nn.ReLU)
    loss = IQLLoss(
        policy,
        q_network(env, settings.cells),
        critic(env, settings.cells, nn.ReLU),
        loss_function="l2",
        temperature=settings.temperature,
        expectile=settings.expectile,
    )
    loss.make_value_estimator(gamma=settings.gamma)
    return Parts(
        policy,
        policy,
        loss,
        IQLTrainer,
        {
            "optimizer": adam(loss.parameters(), lr=settings.lr),
            "replay_buffer": replay(settings.buffer, settings.batch_size, loss.in_keys),
            "target_net_updater": SoftUpdate(loss, tau=settings.tau),
            "optim_steps_per_batch": settings.updates,
        },
        frames_per_batch=settings.batch_frames,
        init_random_frames=settings.start,
    )

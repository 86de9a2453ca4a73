"""Twin delayed deterministic policy gradients (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.data.tensordict.nn import TensorDictSequential
from flambeau.rl.modules import AdditiveGaussianModule
from flambeau.rl.objectives import SoftUpdate, TD3Loss
from flambeau.rl.runs.algorithms._parts import Parts, adam, deterministic_policy, parameters_of, q_network, replay
from flambeau.rl.trainers.algorithms import TD3OptimizationStepper, TD3Trainer

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
    noise: float = 0.1
    policy_delay: int = 2
    cells: tuple[int, ...] = (256, 256)


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "frames": 15_000,
        "envs": 4,
        "batch_frames": 16,
        "updates": 8,
        "batch_size": 128,
        "buffer": 20_000,
        "cells": (64, 64),
    },
}


def build(env: Any, settings: Settings, frames: int) -> Parts:
    """The parts for an environment, and a run of so many frames."""
    policy = deterministic_policy(env, settings.cells, "td3")
    noise = AdditiveGaussianModule(env.action_spec_unbatched, sigma_init=settings.noise, sigma_end=settings.noise)
    loss = TD3Loss(policy, q_network(env, settings.cells), action_spec=env.action_spec_unbatched, loss_function="l2")
    loss.make_value_estimator(gamma=settings.gamma)
    actor = adam(parameters_of(loss, "actor"), lr=settings.lr)
    critics = adam(parameters_of(loss, "qvalue"), lr=settings.lr)
    return Parts(
        policy,
        TensorDictSequential(policy, noise),
        loss,
        TD3Trainer,
        {
            "optimization_stepper": TD3OptimizationStepper(actor, critics, policy_update_delay=settings.policy_delay),
            "replay_buffer": replay(settings.buffer, settings.batch_size, loss.in_keys),
            "target_net_updater": SoftUpdate(loss, tau=settings.tau),
            "optim_steps_per_batch": settings.updates,
        },
        frames_per_batch=settings.batch_frames,
        init_random_frames=settings.start,
    )

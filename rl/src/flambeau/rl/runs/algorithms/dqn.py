"""Double deep Q-learning over several steps (Mnih et al. 2015; van Hasselt et al. 2016, arXiv:1509.06461).

What follows several steps later is learned from at once, as in Rainbow (Hessel et al. 2018, arXiv:1710.02298).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from flambeau.data.tensordict.nn import TensorDictSequential
from flambeau.rl.modules import EGreedyModule, QValueActor
from flambeau.rl.objectives import DQNLoss, SoftUpdate
from flambeau.rl.runs.algorithms._parts import LookAhead, Parts, adam, discrete, network, replay, seen
from flambeau.rl.trainers.algorithms import DQNTrainer

__all__ = ["PRESETS", "Settings", "build"]


@dataclass(frozen=True)
class Settings:
    """After each `batch_frames` steps of `envs` environments, `updates` batches of the buffer are trained with."""

    frames: int = 1_000_000
    envs: int = 1
    batch_frames: int = 64
    updates: int = 16
    batch_size: int = 64
    buffer: int = 100_000
    start: int = 1_000
    lr: float = 1e-3
    gamma: float = 0.99
    n_steps: int = 5
    tau: float = 0.01
    eps_end: float = 0.05
    eps_frames: int = 20_000
    grad_norm: float = 10.0
    cells: tuple[int, ...] = (128, 128)


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "frames": 50_000,
        "envs": 8,
        "batch_frames": 256,
        "updates": 64,
        "n_steps": 10,
        "tau": 0.05,
        "eps_end": 0.04,
        "eps_frames": 6_000,
    },
}


def build(env: Any, settings: Settings, frames: int) -> Parts:
    """The parts for an environment, and a run of so many frames."""
    actions = discrete(env, "dqn")
    policy = QValueActor(
        network(seen(env), actions, settings.cells, nn.ReLU), in_keys=["observation"], spec=env.action_spec_unbatched
    )
    greedy = EGreedyModule(
        env.action_spec_unbatched, eps_init=1.0, eps_end=settings.eps_end, annealing_num_steps=settings.eps_frames
    )
    loss = DQNLoss(policy, loss_function="smooth_l1", delay_value=True, double_dqn=True, action_space="one-hot")
    loss.make_value_estimator(gamma=settings.gamma)
    return Parts(
        policy,
        TensorDictSequential(policy, greedy),
        loss,
        DQNTrainer,
        {
            "optimizer": adam(loss.parameters(), lr=settings.lr),
            "replay_buffer": replay(
                settings.buffer,
                settings.batch_size,
                loss.in_keys,
                LookAhead(settings.envs, settings.gamma, settings.n_steps),
            ),
            "target_net_updater": SoftUpdate(loss, tau=settings.tau),
            "greedy_module": greedy,
            "optim_steps_per_batch": settings.updates,
            "clip_norm": settings.grad_norm,
        },
        frames_per_batch=settings.batch_frames,
        init_random_frames=settings.start,
    )

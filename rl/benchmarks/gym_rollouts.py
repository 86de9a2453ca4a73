"""Rollouts of gymnasium's environments beside torchrl's and beside gymnasium alone, in one process, on one thread.

    python rl/benchmarks/gym_rollouts.py [--quick]

Steps per second, the best of several repetitions, in turn. The bounds are those the library holds itself to: a rollout
with random actions runs at half of gymnasium's own speed or more for CartPole, and at 0.9 of it for HalfCheetah, where
mujoco is installed; at five times torchrl's for CartPole. The program exits with 1 when one is missed. Where `torchrl`
is not installed it is left out. `--quick` runs everything a few times, to see that it runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import torch

QUICK = "--quick" in sys.argv
REPETITIONS = 1 if QUICK else 5
STEPS = 200 if QUICK else 2000
NAMES = ("CartPole-v1", "Pendulum-v1", "HalfCheetah-v5")
OF_GYMNASIUM = {"CartPole-v1": 0.5, "HalfCheetah-v5": 0.9}
OF_TORCHRL = {"CartPole-v1": 5.0}


def bare(name: str) -> Callable[[int], object]:
    """Steps of gymnasium's environment with actions drawn before."""
    env = gymnasium.make(name, disable_env_checker=True)
    env.reset(seed=0)

    def run(steps: int) -> None:
        for action in actions[:steps]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    actions = [env.action_space.sample() for _ in range(STEPS)]
    return run


def rollout(package: str, name: str, with_policy: bool = False) -> Callable[[int], object] | None:
    """A rollout by one of the two libraries; None where it is not installed."""
    try:
        env: Any = importlib.import_module(f"{package}.envs").GymEnv(name)
    except ImportError:
        return None
    policy = env.rand_action if with_policy else None
    return lambda steps: env.rollout(steps, policy=policy, break_when_any_done=False)


def steps_per_second(run: Callable[[int], object], steps: int) -> float:
    """The speed of one run."""
    start = time.process_time()
    run(steps)
    return steps / (time.process_time() - start)


def main() -> int:
    """Measure all, print a table, and say whether a bound was missed."""
    torch.set_num_threads(1)
    missed = 0
    print(f"{'environment':<16}{'gymnasium':>12}{'ours':>12}{'a policy':>12}{'torchrl':>12}{'a policy':>12}")
    for name in NAMES:
        if name == "HalfCheetah-v5" and None in map(importlib.util.find_spec, ("mujoco", "imageio")):
            continue
        runs = [
            bare(name),
            rollout("flambeau.rl", name),
            rollout("flambeau.rl", name, with_policy=True),
            rollout("torchrl", name),
            rollout("torchrl", name, with_policy=True),
        ]
        best = [0.0] * len(runs)
        for _ in range(REPETITIONS):
            for at, run in enumerate(runs):
                if run is not None:
                    best[at] = max(best[at], steps_per_second(run, STEPS if at < 2 else STEPS // 10))
        print(f"{name:<16}" + "".join(f"{speed:>12,.0f}" if speed else f"{'-':>12}" for speed in best))
        if not QUICK:
            missed += best[1] < OF_GYMNASIUM.get(name, 0.0) * best[0] or best[1] < OF_TORCHRL.get(name, 0.0) * best[3]
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

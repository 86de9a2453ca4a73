"""Batches of CartPole beside torchrl's and gymnasium's vectors, and control problems in tensor code, on one machine.

    python rl/benchmarks/batched_environments.py [--quick]

Frames per second by the clock on the wall, the best of several repetitions, in turn: four environments that step and
begin anew by themselves. The bounds are those the library holds itself to: `ParallelEnv` is as fast as gymnasium's
AsyncVectorEnv or faster, `SerialEnv` has three times torchrl's speed. Below, millions of steps a second of problems in
tensor code, in batches of 4,096 with actions drawn before; the bound is ten for steps of all but Acrobot, which takes
four evaluations of its equations for one step. The program exits with 1 when a bound is missed. Where `torchrl` is not
installed it is left out. `--quick` runs everything a few times, to see that it runs.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import torch

QUICK = "--quick" in sys.argv
REPETITIONS = 1 if QUICK else 5
STEPS = 20 if QUICK else 300
COUNT, BATCH = 4, 4096
Run = Callable[[], object]


def cart_pole() -> gymnasium.Env[Any, Any]:
    """Gymnasium's own environment."""
    return gymnasium.make("CartPole-v1", disable_env_checker=True)


def vector(kind: Any) -> tuple[Run, Run]:
    """Steps of one of gymnasium's vectors, and what closes it."""
    env = kind([cart_pole] * COUNT)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(STEPS)]

    def run() -> None:
        for action in actions:
            env.step(action)

    return run, env.close


def batch(package: str, kind: str) -> tuple[Run, Run] | None:
    """Steps of a batch of one of the two libraries; None where it is not installed."""
    try:
        envs: Any = importlib.import_module(f"{package}.envs")
    except ImportError:
        return None
    options = {"mp_start_method": "fork"} if kind == "ParallelEnv" else {}
    env = getattr(envs, kind)(COUNT, lambda: envs.GymEnv("CartPole-v1"), **options)
    data = [env.reset()]
    actions = [env.rand_action()["action"] for _ in range(STEPS)]

    def run() -> None:
        root = data[0]
        for action in actions if package != "torchrl" else actions[: STEPS // 3]:
            _, root = env.step_and_maybe_reset(root.set("action", action))
        data[0] = root

    return run, env.close


def seconds(run: Run) -> float:
    """How long one run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def batches() -> bool:
    """Measure all batches, print a table, and say whether a bound was missed."""
    runs: dict[str, Any] = {
        "SyncVectorEnv": vector(gymnasium.vector.SyncVectorEnv),
        "our SerialEnv": batch("flambeau.rl", "SerialEnv"),
        "torchrl's SerialEnv": batch("torchrl", "SerialEnv"),
        "AsyncVectorEnv": vector(gymnasium.vector.AsyncVectorEnv),
        "our ParallelEnv": batch("flambeau.rl", "ParallelEnv"),
        "torchrl's ParallelEnv": batch("torchrl", "ParallelEnv"),
    }
    best = dict.fromkeys((name for name, each in runs.items() if each), 0.0)
    for _ in range(REPETITIONS):
        for name in best:
            steps = STEPS // 3 if "torchrl" in name else STEPS
            best[name] = max(best[name], COUNT * steps / seconds(runs[name][0]))
    for name, speed in best.items():
        print(f"{name:<24}{speed:>12,.0f} frames/s")
        runs[name][1]()
    return best["our ParallelEnv"] < best["AsyncVectorEnv"] or best["our SerialEnv"] < 3 * best.get(
        "torchrl's SerialEnv", 0.0
    )


def problems() -> bool:
    """Measure problems in tensor code, print a table, and say whether a bound was missed."""
    envs: Any = importlib.import_module("flambeau.rl.envs")
    missed = False
    print(f"\n{'problem':<28}{'step':>8}{'step and maybe reset':>24}   million steps/s")
    for name in ("CartPoleEnv", "MountainCarEnv", "MountainCarContinuousEnv", "AcrobotEnv"):
        env = getattr(envs, name)([BATCH], seed=0, categorical_action_encoding=True)
        data = env.rand_action(env.reset())
        action = data["action"]
        best = [0.0, 0.0]
        for _ in range(REPETITIONS):
            start = time.perf_counter()
            for _ in range(STEPS):
                env._step(data)
            best[0] = max(best[0], BATCH * STEPS / (time.perf_counter() - start))
            root = data
            start = time.perf_counter()
            for _ in range(STEPS):
                _, root = env.step_and_maybe_reset(root.set("action", action))
            best[1] = max(best[1], BATCH * STEPS / (time.perf_counter() - start))
        print(f"{name:<28}{best[0] / 1e6:>8.1f}{best[1] / 1e6:>24.1f}")
        missed |= best[0] < 1e7 and name != "AcrobotEnv"
    return missed


def main() -> int:
    """Measure, and say whether a bound was missed."""
    torch.set_num_threads(1)
    missed = batches()
    missed |= problems()
    return int(missed and not QUICK)


if __name__ == "__main__":
    sys.exit(main())

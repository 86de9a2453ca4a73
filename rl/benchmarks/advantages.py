"""Returns and advantages beside torchrl's vectorized forms, in one process, on one thread.

    python rl/benchmarks/advantages.py [--quick]

Microseconds of CPU time for 64 trajectories of 128 steps, the least of several repetitions, in turn. Generalized
advantages take at most 0.3 of torchrl's time; the program exits with 1 where they take more. Where `torchrl` is not
installed it is left out. `--quick` runs everything once, to see that it runs.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

QUICK = "--quick" in sys.argv
REPETITIONS = 1 if QUICK else 50
BOUNDS = {"generalized advantages": 0.3}


def calls(package: str) -> dict[str, Callable[[], Any]]:
    """What one of the two libraries is asked for; nothing where it is not installed."""
    try:
        functional = importlib.import_module(f"{package}.objectives.value.functional")
    except ImportError:
        return {}
    generator = torch.Generator().manual_seed(0)
    value, following, reward = (torch.randn(64, 128, 1, generator=generator) for _ in range(3))
    done = torch.rand(64, 128, 1, generator=generator) > 0.95
    each = torch.rand(64, 128, 1, generator=generator)
    gae, td_lambda = functional.vec_generalized_advantage_estimate, functional.vec_td_lambda_return_estimate
    return {
        "generalized advantages": lambda: gae(0.99, 0.95, value, following, reward, done, done),
        "the same, a discount for each step": lambda: gae(each, 0.95, value, following, reward, done, done),
        "TD(lambda)": lambda: td_lambda(0.99, 0.95, following, reward, done, done),
        "TD(1)": lambda: functional.vec_td1_return_estimate(0.99, following, reward, done, done),
    }


def least(functions: list[Callable[[], Any]]) -> list[float]:
    """The least microseconds of each, run in turn."""
    times = [float("inf")] * len(functions)
    for _ in range(REPETITIONS):
        for at, function in enumerate(functions):
            begin = time.thread_time()
            function()
            times[at] = min(times[at], (time.thread_time() - begin) * 1e6)
    return times


def main() -> int:
    """Print the table; 1 where a bound is missed."""
    torch.set_num_threads(1)
    ours, peers = calls("flambeau.rl"), calls("torchrl")
    missed = 0
    for name, function in ours.items():
        times = least([function, peers[name]] if peers else [function])
        line = f"{name:36} {times[0]:9.0f} us"
        if peers:
            line += f"   torchrl {times[1]:9.0f} us   ratio {times[0] / times[1]:.2f}"
            missed += not QUICK and times[0] / times[1] > BOUNDS.get(name, float("inf"))
        print(line)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

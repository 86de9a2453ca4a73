"""How many frames a second environments give, with random actions."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from flambeau.rl.collectors import Collector
from flambeau.rl.runs.environments import NATIVE, is_native, make_env

__all__ = ["measure"]


def measure(env_id: str, counts: Sequence[int], *, seconds: float = 2.0) -> list[dict[str, Any]]:
    """Frames a second by several paths: steps alone, a collector, and gymnasium's own environment beside them.

    Args:
        env_id: the environment's name.
        counts: how many environments at once, for each measurement.
        seconds: of each.

    Returns:
        Rows with "path", "envs" and "frames_per_second".
    """
    rows = []
    for count in counts:
        if is_native(env_id):
            rows.append(_row("steps", count, _steps(env_id, count), seconds))
        elif count > 64:
            continue  # each is an object of its own here
        rows.append(_row("collector", count, _collected(env_id, count), seconds))
    if importlib.util.find_spec("gymnasium") is not None:
        rows.append(_row("gymnasium", 1, _gymnasium(env_id), seconds))
    return rows


def _row(path: str, count: int, step: Callable[[], int], seconds: float) -> dict[str, Any]:
    """The rate of a function that returns how many frames it took."""
    step()  # what is made with the first call
    frames, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        frames += step()
    return {"path": path, "envs": count, "frames_per_second": frames / passed}


def _steps(env_id: str, count: int) -> Callable[[], int]:
    env = NATIVE[env_id]([count], seed=0)
    root = [env.reset()]

    def step() -> int:
        _, root[0] = env.step_and_maybe_reset(env.rand_action(root[0]))
        return count

    return torch.inference_mode()(step)


def _collected(env_id: str, count: int) -> Callable[[], int]:
    collector = Collector(make_env(env_id, count, 0), None, frames_per_batch=32 * count, total_frames=-1)
    batches = iter(collector)
    return lambda: int(next(batches).numel())


def _gymnasium(env_id: str) -> Callable[[], int]:
    import gymnasium

    env = gymnasium.make(env_id)
    env.action_space.seed(0)
    env.reset(seed=0)

    def step() -> int:
        for _ in range(100):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return 100

    return step

"""Replay buffers beside torchrl's, beside stable-baselines3's, and beside a ring of NumPy arrays, on one thread.

    python rl/benchmarks/replay.py [--quick]

Microseconds, the best of several repetitions, in turn. The bounds are those the library holds itself to; the program
exits with 1 when one is missed. Libraries that are not installed are left out. torchrl's compiled segment trees do not
load beside every torch; where they do not, its prioritized samplers cannot be measured. `--quick` runs everything a few
times, to see that it runs.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

QUICK = "--quick" in sys.argv
SECONDS = 0.02 if QUICK else 0.1
REPETITIONS = 1 if QUICK else 4
CAPACITY = 10_000 if QUICK else 100_000
ROWS, BATCH, OBSERVATION, ACTION = 1000, 256, 17, 6
EPISODE = 50
LIBRARIES = {"flambeau": ("flambeau.rl.data", "flambeau.data.tensordict"), "torchrl": ("torchrl.data", "tensordict")}
STORAGES = ("LazyTensorStorage", "LazyMemmapStorage", "ListStorage")
SAMPLERS = {
    "without replacement": "SamplerWithoutReplacement()",
    "slices of 8": "SliceSampler(slice_len=8, end_key=('next', 'done'))",
}
Run = Callable[[], object]


def content(count: int) -> dict[str, Any]:
    """Steps of a locomotion task."""
    done = (torch.arange(count) % EPISODE == EPISODE - 1).unsqueeze(-1)
    follows = {"observation": torch.randn(count, OBSERVATION), "reward": torch.randn(count, 1), "done": done}
    return {"observation": torch.randn(count, OBSERVATION), "action": torch.randn(count, ACTION), "next": follows}


class NumpyRing:
    """The least that a buffer does: arrays, a cursor, random rows."""

    def __init__(self) -> None:
        widths = {"observation": OBSERVATION, "action": ACTION, "next": OBSERVATION, "reward": 1, "done": 1}
        self.arrays = {name: np.zeros((CAPACITY, width), np.float32) for name, width in widths.items()}
        self.rows = {name: np.ones((ROWS, width), np.float32) for name, width in widths.items()}
        self.cursor = 0

    def extend(self) -> None:
        """Write rows behind the last."""
        places = (self.cursor + np.arange(ROWS)) % CAPACITY
        for name, rows in self.rows.items():
            self.arrays[name][places] = rows
        self.cursor = (self.cursor + ROWS) % CAPACITY

    def sample(self) -> dict[str, Any]:
        """Random rows."""
        places = np.random.randint(0, CAPACITY, BATCH)
        return {name: torch.from_numpy(array[places]) for name, array in self.arrays.items()}


def of_library(name: str) -> dict[str, Run]:
    """What one of the two libraries is asked, by what it is called."""
    where, tensordicts = LIBRARIES[name]
    try:
        data = importlib.import_module(where)
        kind = importlib.import_module(tensordicts).TensorDict
    except ImportError:
        return {}
    rows, one = kind(content(ROWS), [ROWS]), kind(content(1), [1])[0]
    whole = kind(content(CAPACITY), [CAPACITY])
    runs: dict[str, Run] = {}
    for storage in STORAGES:
        size = CAPACITY if storage != "ListStorage" else 10_000
        buffer = data.TensorDictReplayBuffer(storage=getattr(data, storage)(size), batch_size=BATCH)
        buffer.extend(whole[:size])
        short = storage.removeprefix("Lazy").removesuffix("Storage").lower()
        runs[f"extend {ROWS}, {short}"] = lambda buffer=buffer: buffer.extend(rows)
        runs[f"add, {short}"] = lambda buffer=buffer: buffer.add(one)
        runs[f"sample {BATCH}, {short}"] = buffer.sample
        if storage == "LazyTensorStorage":
            folder = tempfile.mkdtemp(prefix="flambeau-benchmark-")
            runs[f"dumps of {CAPACITY}"] = lambda buffer=buffer, folder=folder: buffer.dumps(folder)
    for called, text in SAMPLERS.items():
        sampler = eval(
            text, vars(data) | {each: getattr(data, each) for each in ("SliceSampler", "SamplerWithoutReplacement")}
        )
        buffer = data.TensorDictReplayBuffer(
            storage=data.LazyTensorStorage(CAPACITY), sampler=sampler, batch_size=BATCH
        )
        buffer.extend(whole)
        runs[f"sample {BATCH}, {called}"] = buffer.sample
    try:
        weighed = data.TensorDictPrioritizedReplayBuffer(
            alpha=0.7, beta=0.5, storage=data.LazyTensorStorage(CAPACITY), batch_size=BATCH
        )
        weighed.extend(whole)
    except (RuntimeError, TypeError, ImportError, NameError):
        return runs  # its segment trees do not load
    index, priority = torch.randint(CAPACITY, (BATCH,)), torch.rand(BATCH)
    runs[f"sample {BATCH}, prioritized"] = weighed.sample
    runs[f"update {BATCH} priorities"] = lambda: weighed.update_priority(index, priority)

    def both() -> None:
        weighed.sample()
        weighed.update_priority(index, priority)

    runs["prioritized sample and update"] = both
    return runs


def of_stable_baselines() -> dict[str, Run]:
    """The same of stable-baselines3."""
    try:
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer
    except ImportError:
        return {}
    box = spaces.Box(-9, 9, (OBSERVATION,), np.float32)
    buffer = ReplayBuffer(CAPACITY, box, spaces.Box(-1, 1, (ACTION,), np.float32), device="cpu")
    seen, done = np.zeros((1, OBSERVATION), np.float32), np.zeros(1)
    step = (seen, seen, np.zeros((1, ACTION), np.float32), done, done, [{}])
    for _ in range(CAPACITY):
        buffer.add(*step)
    return {"add, tensor": lambda: buffer.add(*step), f"sample {BATCH}, tensor": lambda: buffer.sample(BATCH)}


def microseconds(run: Run) -> float:
    """How long one call takes, on average over a short while."""
    run()
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SECONDS:
        run()
        count += 1
    return 1e6 * passed / count


def main() -> int:
    """Measure everything, print the table, and tell whether the bounds hold."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ring = NumpyRing()
    ring.extend()
    runs = {
        "flambeau": of_library("flambeau"),
        "torchrl": of_library("torchrl"),
        "stable-baselines3": of_stable_baselines(),
        "NumPy": {f"extend {ROWS}, tensor": ring.extend, f"sample {BATCH}, tensor": ring.sample},
    }
    best: dict[str, dict[str, float]] = {library: {} for library in runs}
    for _ in range(REPETITIONS):
        for called in runs["flambeau"]:
            for library, known in runs.items():
                if called in known:
                    taken = microseconds(known[called])
                    best[library][called] = min(taken, best[library].get(called, taken))
    print(f"{'microseconds':34}" + "".join(f"{library:>20}" for library in runs))
    for called in runs["flambeau"]:
        cells = (f"{best[library][called]:20,.1f}" if called in best[library] else " " * 20 for library in runs)
        print(f"{called:34}" + "".join(cells))
    missed = [text for text, held in bounds(best) if not held]
    for text in missed:
        print(f"missed: {text}")
    return 0 if QUICK or not missed else 1


def bounds(best: dict[str, dict[str, float]]) -> list[tuple[str, bool]]:
    """What the library holds itself to, as far as there is something to compare with."""
    ours = best["flambeau"]

    def within(called: str, library: str, ratio: float) -> tuple[str, bool]:
        other = best[library].get(called)
        text = f"{called}: {ratio} of {library}"
        return text, other is None or ours[called] <= ratio * other

    wanted = [
        within(f"extend {ROWS}, tensor", "NumPy", 1.5),
        within(f"sample {BATCH}, tensor", "stable-baselines3", 1.0),
        within(f"sample {BATCH}, tensor", "torchrl", 0.5),
        within("prioritized sample and update", "torchrl", 1 / 3),
        within(f"sample {BATCH}, slices of 8", "torchrl", 0.5),
    ]
    # A dump is on the disk when it returns, and replaces another in one step; torchrl leaves both to luck.
    wanted += [within(called, "torchrl", 3.0 if called.startswith("dumps") else 1.0) for called in ours]
    return wanted


if __name__ == "__main__":
    sys.exit(main())

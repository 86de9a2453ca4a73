"""Pipelines beside TorchData 0.7 and torch's own pipes: CPU time for each sample, in one process.

    python data/benchmarks/datapipes.py [--samples N]

Each case is run in turn for every library, the best of several repetitions counts. Ratios are the peer's time divided
by ours. torch's pipes stand in where torchdata 0.7 is not installed (`pip install --no-deps torchdata==0.7.1`, in an
environment of its own); cases that only torchdata has are then timed alone.
"""

from __future__ import annotations

import argparse
import importlib
import pickle
import time
import warnings
from collections.abc import Callable
from typing import Any

REPETITIONS = 5


def add_one(x: int) -> int:
    return x + 1


def is_even(x: int) -> bool:
    return x % 2 == 0


def pair(x: int) -> list[int]:
    return [x, x]


Build = Callable[[Any, Any, int], Any]

CASES: dict[str, Build] = {
    "IterableWrapper": lambda wrap, _, n: wrap(range(n)),
    "map": lambda wrap, _, n: wrap(range(n)).map(add_one),
    "map x 5": lambda wrap, _, n: wrap(range(n)).map(add_one).map(add_one).map(add_one).map(add_one).map(add_one),
    "filter": lambda wrap, _, n: wrap(range(n)).filter(is_even),
    "batch(32)": lambda wrap, _, n: wrap(range(n)).batch(32),
    "shuffle": lambda wrap, _, n: wrap(range(n)).shuffle(),
    "shuffle, shard, map, batch": lambda wrap, _, n: wrap(range(n)).shuffle().sharding_filter().map(add_one).batch(32),
    "zip": lambda wrap, _, n: wrap(range(n)).zip(wrap(range(n))),
    "fork and zip": lambda wrap, _, n: forked(wrap, n),
    "groupby": lambda wrap, _, n: wrap(range(n)).groupby(is_even, group_size=16),
    "flatmap": lambda wrap, _, n: wrap(range(n // 2)).flatmap(pair),
    "cycle": lambda wrap, _, n: wrap(range(n // 4)).cycle(4),
    "prefetch": lambda wrap, _, n: wrap(range(n // 4)).prefetch(10),
}


def forked(wrap: Any, n: int) -> Any:
    left, right = wrap(range(n)).fork(2)
    return left.zip(right)


def libraries() -> dict[str, Any]:
    """Name -> `IterableWrapper` of each library that is installed."""
    found = {}
    for name in ("flambeau.data.datapipes.iter", "torchdata.datapipes.iter", "torch.utils.data.datapipes.iter"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torchdata announces its end
                found[name.partition(".data")[0].partition(".")[0]] = importlib.import_module(name).IterableWrapper
        except ImportError:
            continue
    return found


def seconds(build: Build, wrap: Any, n: int) -> float | None:
    """CPU seconds of one pass, the best of some; None where the library has no such pipe."""
    best = float("inf")
    for _ in range(REPETITIONS):
        try:
            pipe = build(wrap, None, n)
        except AttributeError:
            return None
        start = time.process_time()
        for _ in pipe:
            pass
        best = min(best, time.process_time() - start)
    return best


def states(n: int) -> None:
    """What a state costs, and what going on from it costs."""
    wrap = libraries()["flambeau"]

    def build() -> Any:
        return wrap(range(n)).shuffle(buffer_size=10_000).map(add_one).batch(32)

    pipe = build()
    reader = iter(pipe)
    for _ in range(n // 64):
        next(reader)
    pipe.state_dict()  # loads the modules that it needs
    start = time.perf_counter()
    state = pipe.state_dict()
    taken = time.perf_counter() - start
    again = build()
    start = time.perf_counter()
    again.load_state_dict(state)
    next(iter(again))
    resumed = time.perf_counter() - start
    size = len(pickle.dumps(state))
    print(f"\nstate of shuffle(10,000).map.batch: {size:,} bytes", end=", ")
    print(f"{taken * 1e3:.2f} ms to take, {resumed * 1e3:.2f} ms to go on")


def loaders(n: int) -> None:
    """DataLoader2 with two workers beside torch's DataLoader over the same pipeline, wall-clock."""
    from torch.utils.data import DataLoader

    from flambeau.data.dataloader2 import DataLoader2, MultiProcessingReadingService

    wrap = libraries()["flambeau"]

    def build() -> Any:
        return wrap(range(n)).shuffle().sharding_filter().map(add_one).batch(32)

    with DataLoader2(build(), reading_service=MultiProcessingReadingService(2)) as ours:
        list(ours)
        start = time.perf_counter()
        list(ours)
        mine = time.perf_counter() - start
    theirs = DataLoader(build(), batch_size=None, num_workers=2, persistent_workers=True)
    list(theirs)
    start = time.perf_counter()
    list(theirs)
    peer = time.perf_counter() - start
    print(f"\ntwo workers: DataLoader2 {mine:.3f} s, torch's DataLoader {peer:.3f} s, ratio {peer / mine:.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    n = parser.parse_args().samples
    found = libraries()
    peers = [name for name in found if name != "flambeau"]
    print(f"{'ns a sample':<28}{'flambeau':>10}" + "".join(f"{name:>12}{'ratio':>8}" for name in peers))
    for name, build in CASES.items():
        mine = seconds(build, found["flambeau"], n)
        line = f"{name:<28}{mine / n * 1e9:>10.0f}"
        for peer in peers:
            theirs = seconds(build, found[peer], n)
            line += f"{'-':>12}{'-':>8}" if theirs is None else f"{theirs / n * 1e9:>12.0f}{theirs / mine:>8.2f}"
        print(line, flush=True)
    states(n)
    loaders(n)


if __name__ == "__main__":
    main()

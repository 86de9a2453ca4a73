"""TensorDict beside upstream's, in one process, on one thread.

    python data/benchmarks/tensordict_operations.py [--quick]

Times are CPU time, the best of several repetitions, product and peer in turn. The bounds are those the library holds
itself to, in parts of the peer's time; the program exits with 1 when one is missed. Where `tensordict` is not
installed only the product is timed. `--quick` runs everything a few times, to see that it runs.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

QUICK = "--quick" in sys.argv
REPETITIONS = 2 if QUICK else 7
missed: list[str] = []

Work = Callable[[], object]


def flat() -> dict[str, Any]:
    return {name: torch.zeros(4, 3) for name in "abc"}


def nested() -> dict[str, Any]:
    return {"a": torch.zeros(4, 3), "b": {"c": torch.zeros(4, 3), "d": {"e": torch.zeros(4, 3)}}}


def works(package: ModuleType) -> dict[str, Work]:
    """Every path, for one of the two libraries."""
    TensorDict, lazy_stack = package.TensorDict, package.lazy_stack
    source, tree = flat(), nested()
    td = TensorDict(source, [4])
    deep = TensorDict(tree, [4])
    long = TensorDict({name: torch.zeros(1000, 3) for name in "abc"}, [1000])
    wide = TensorDict({f"key{number}": torch.zeros(10) for number in range(100)}, [10])
    many = [TensorDict(flat(), [4]) for _ in range(100)]
    lazy = lazy_stack([TensorDict(flat(), [4]) for _ in range(20)])
    value = torch.zeros(4, 3)
    rows = [0, 2, 3]
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(10)])
    params = TensorDict.from_module(net).data
    return {
        "construct, empty": lambda: TensorDict({}, []),
        "construct, flat": lambda: TensorDict(source, [4]),
        "construct, nested": lambda: TensorDict(tree, [4]),
        "td[key]": lambda: td["a"],
        "td.get(key)": lambda: td.get("a"),
        "td[nested key]": lambda: deep["b", "d", "e"],
        "td.set(key, value)": lambda: td.set("a", value),
        "td[key] = value": lambda: td.__setitem__("a", value),
        "td.set(nested key, value)": lambda: deep.set(("b", "c"), value),
        "list(keys(True, True))": lambda: list(deep.keys(True, True)),
        "unbind(1000)": lambda: long.unbind(0),
        "split(1) of 1000": lambda: long.split(1),
        "split in 10": lambda: long.split(100),
        "stack of 100": lambda: torch.stack(many),
        "cat of 100": lambda: torch.cat(many),
        "td[int]": lambda: td[1],
        "td[slice]": lambda: td[1:3],
        "td[list]": lambda: td[rows],
        "td[int] = td": lambda: td.__setitem__(1, td[0]),
        "apply, 100 leaves": lambda: wide.apply(lambda leaf: leaf + 1),
        "td + 1, 100 leaves": lambda: wide + 1,
        "td + td, 100 leaves": lambda: wide + wide,
        "clone, 100 leaves": lambda: wide.clone(),
        "copy, 100 leaves": lambda: wide.copy(),
        "to(float64), 100 leaves": lambda: wide.to(torch.float64),
        'to("cpu"), 100 leaves': lambda: wide.to("cpu"),
        "reshape": lambda: deep.reshape(2, 2),
        "flatten_keys": lambda: deep.flatten_keys(),
        "select": lambda: td.select("a", "b"),
        "lock, unlock": lambda: (deep.lock_(), deep.unlock_()),
        "lazy stack of 20: get": lambda: lazy["a"],
        "to_module, 20 parameters": lambda: swap(params, net),
    }


def swap(params: Any, net: nn.Module) -> None:
    with params.to_module(net):
        pass


# Path -> the largest part of the peer's time that it may take.
BOUNDS = {
    "construct, empty": 0.7, "construct, flat": 0.7, "construct, nested": 0.7,
    "td[key]": 0.8, "td.get(key)": 0.8, "td[nested key]": 0.8, "td.set(key, value)": 0.8, "td[key] = value": 0.8,
    "td.set(nested key, value)": 0.8,
    "unbind(1000)": 0.5, "split(1) of 1000": 0.5, "split in 10": 0.5,
    "stack of 100": 0.7, "apply, 100 leaves": 0.7, "td + 1, 100 leaves": 0.7, "td + td, 100 leaves": 0.7,
    "clone, 100 leaves": 0.7, "to(float64), 100 leaves": 0.7, 'to("cpu"), 100 leaves': 0.7,
    "to_module, 20 parameters": 0.7,
}  # fmt: skip


def calls_for(work: Work) -> int:
    """As many calls as take some 20 ms."""
    if QUICK:
        return 2
    start = time.process_time()
    for _ in range(3):
        work()
    return max(1, int(0.02 * 3 / max(time.process_time() - start, 1e-7)))


def best_us(candidates: list[Work]) -> list[float]:
    """CPU microseconds of each work, in turn, so that what else the machine does meets all alike."""
    best = [float("inf")] * len(candidates)
    counts = [calls_for(work) for work in candidates]
    for _ in range(REPETITIONS):
        for index, (work, calls) in enumerate(zip(candidates, counts, strict=True)):
            start = time.process_time()
            for _ in range(calls):
                work()
            best[index] = min(best[index], (time.process_time() - start) / calls * 1e6)
    return best


def main() -> int:
    torch.set_num_threads(1)
    ours = works(importlib.import_module("flambeau.data.tensordict"))
    try:
        theirs = works(importlib.import_module("tensordict"))
    except ModuleNotFoundError:
        theirs = {}
    print(f"{'path':<28} {'ours, us':>10} {'peer, us':>10} {'part':>6} {'bound':>6}")
    for path, work in ours.items():
        times = best_us([work, theirs[path]] if theirs else [work])
        part = times[0] / times[1] if theirs else None
        bound = BOUNDS.get(path)
        late = part is not None and bound is not None and part > bound and not QUICK
        missed.extend([path] if late else [])
        cells = f"{times[1]:>10.2f} {part:>6.2f}" if part is not None else f"{'-':>10} {'-':>6}"
        print(f"{path:<28} {times[0]:>10.2f} {cells} {bound or '':>6}{'  MISSED' if late else ''}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

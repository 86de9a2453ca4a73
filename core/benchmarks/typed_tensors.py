"""What types cost: operations, questions and functionals on typed tensors beside plain ones.

    python core/benchmarks/typed_tensors.py

Times are CPU time of one thread in microseconds per call, the best of many repetitions, all kinds in turn, on a 3 x 8
float tensor. The program exits with 1 when a functional costs more than 1.5 microseconds over the plain function.
Where torchvision is importable (`tools/peers.py` installs it) its `Image` is measured in the same run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from flambeau.core.tensors import TypedTensor, functional, register_kernel, tensor_type, unwrap, wrap

CALLS = 300
REPETITIONS = 500
BOUND_US = 1.5


@tensor_type(name="benchmark-picture")
class Picture(TypedTensor):
    """A type without metadata."""


@tensor_type(name="benchmark-wave", fields={"rate": int})
class Wave(TypedTensor):
    """A type with one field."""


def reverse(inpt: Tensor) -> Tensor:
    """What the functional does, without dispatch."""
    return inpt.flip(-1)


@functional
def flip(inpt: Tensor) -> Tensor:
    """Reverse the last dimension."""
    return inpt.flip(-1)


@register_kernel(flip, Picture)
def flip_picture(inpt: Tensor) -> Tensor:
    """`flip` of a picture."""
    return inpt.flip(-1)


@register_kernel(flip, Wave)
def flip_wave(inpt: Tensor, *, rate: int) -> Tensor:
    """`flip` of a wave, which asks for the metadata."""
    return inpt.flip(-1)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "x + 1": lambda x: x + 1,
    "x.shape": lambda x: x.shape,
    "x.dtype": lambda x: x.dtype,
    "x.device": lambda x: x.device,
    "x.numel()": lambda x: x.numel(),
    "x.view(24)": lambda x: x.view(24),
    "x.clone()": lambda x: x.clone(),
}


def best_us(cases: dict[Any, tuple[Callable[[Any], Any], Any]]) -> dict[Any, float]:
    """CPU microseconds a call of each case, in turn, so that what else the machine does meets all alike."""
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(REPETITIONS):
        for name, (function, value) in cases.items():
            start = time.thread_time_ns()
            for _ in range(CALLS):
                function(value)
            best[name] = min(best[name], (time.thread_time_ns() - start) / CALLS / 1e3)
    return best


def peer() -> tuple[Any, Any, Any] | None:
    """Torchvision's `Image`, its flip, and its kernel; None where it is not installed or does not load."""
    try:
        from torchvision import tv_tensors
        from torchvision.transforms.v2 import functional as F
    except (ImportError, RuntimeError):
        return None
    return tv_tensors.Image, F.horizontal_flip, F.horizontal_flip_image


def main() -> int:
    """Print the tables; 1 when a bound is missed."""
    torch.set_num_threads(1)
    data = torch.randn(3, 8)
    kinds: dict[str, Any] = {"plain": data, "typed": Picture(data), "typed, a field": Wave(data, rate=4)}
    theirs = peer()
    if theirs is not None:
        kinds["torchvision Image"] = theirs[0](data.unsqueeze(0))
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}; microseconds")
    times = best_us({(op, kind): (OPERATIONS[op], kinds[kind]) for op in OPERATIONS for kind in kinds})
    print(f"{'':<34}" + "".join(f"{kind:>19}" for kind in kinds))
    for op in OPERATIONS:
        print(f"{op:<34}" + "".join(f"{times[op, kind]:>19.2f}" for kind in kinds))

    wave = kinds["typed, a field"]
    cases: dict[Any, tuple[Callable[[Any], Any], Any]] = {
        "function, plain": (reverse, data),
        "functional, plain": (flip, data),
        "functional, typed": (flip, kinds["typed"]),
        "functional, typed, asks a field": (flip, wave),
        "wrap(plain, like=typed)": (lambda x: wrap(x, like=wave), data),
        "unwrap(typed)": (unwrap, wave),
        "pytree flatten": (pytree.tree_flatten, wave),
    }
    if theirs is not None:
        cases |= {
            "torchvision kernel, plain": (theirs[2], data),
            "torchvision functional, plain": (theirs[1], data),
            "torchvision functional, Image": (theirs[1], kinds["torchvision Image"]),
        }
    times = best_us(cases)
    print(f"\n{'':<34}{'time':>8}{'over plain':>12}")
    for name, taken in times.items():
        bare = times["torchvision kernel, plain" if "torchvision" in name else "function, plain"]
        over = f"{taken - bare:>+12.2f}" if "function" in name else ""
        print(f"{name:<34}{taken:>8.2f}{over}")
    over = {name: times[name] - times["function, plain"] for name in times if name.startswith("functional")}
    if theirs is not None:
        upstream = times["torchvision functional, Image"] - times["torchvision kernel, plain"]
        print(f"\ntorchvision's overhead is {upstream / over['functional, typed']:.1f} times ours")
    missed = [name for name, cost in over.items() if cost > BOUND_US]
    for name in missed:
        print(f"MISSED: {name} costs {over[name]:.2f} us over plain, the bound is {BOUND_US}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Deformable convolution beside torchvision's operator, in one process, on one thread and on two; both directions.

    python vision/benchmarks/deform_conv2d.py

Times are wall-clock, the best of several repetitions, product and peer in turn. The bound is the one the library holds
itself to, forward and backward together; the program exits with 1 when it is missed. Without torchvision's compiled
operators, which `tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from flambeau.vision.ops import deform_conv2d
from flambeau.vision.ops._library import LIBRARY

LEAST_RATIO = 2.0
REPETITIONS = 3


@dataclass(frozen=True)
class Case:
    """A layer with a kernel of 3 x 3."""

    name: str
    input: tuple[int, int, int, int]
    outputs: int
    groups: int = 1
    offset_groups: int = 1
    masked: bool = True
    last: bool = False


CASES = (
    Case("64 channels, 56 x 56", (2, 64, 56, 56), 64),
    Case("64 channels, 56 x 56, no mask", (2, 64, 56, 56), 64, masked=False),
    Case("64 channels, 56 x 56, NHWC", (2, 64, 56, 56), 64, last=True),
    Case("256 channels, 50 x 68", (1, 256, 50, 68), 256),
    Case("128 channels, 4 offset groups, 28 x 28", (2, 128, 28, 28), 128, offset_groups=4),
    Case("512 channels, 32 groups, 14 x 14", (4, 512, 14, 14), 512, groups=32),
    Case("3 channels, 64 x 64", (2, 3, 64, 64), 16),
)


def works(case: Case, convolve: Callable[..., Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Forward alone, and both directions."""
    generator = torch.Generator().manual_seed(0)
    images, channels, height, width = case.input

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * scale).requires_grad_()

    picture = normal(*case.input)
    if case.last:
        picture = picture.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    offset = normal(images, 18 * case.offset_groups, height, width, scale=2.0)
    weight, bias = normal(case.outputs, channels // case.groups, 3, 3, scale=0.05), normal(case.outputs)
    mask = normal(images, 9 * case.offset_groups, height, width) if case.masked else None
    grad = normal(images, case.outputs, height, width).detach()
    leaves = [each for each in (picture, offset, weight, bias, mask) if each is not None]

    def forward() -> Any:
        return convolve(picture, offset, weight, bias, padding=1, mask=mask)

    def alone() -> Any:
        with torch.no_grad():
            return forward()

    return alone, lambda: torch.autograd.grad(forward(), leaves, grad)


def best_ms(tasks: list[Callable[[], Any]]) -> list[float]:
    """Milliseconds of each task, in turn, so that what else the machine does meets all alike."""
    best = [float("inf")] * len(tasks)
    for _ in range(REPETITIONS):
        for index, task in enumerate(tasks):
            start = time.perf_counter()
            task()
            best[index] = min(best[index], (time.perf_counter() - start) * 1e3)
    return best


def main() -> int:
    """Print the table; returns the exit status."""
    try:
        import torchvision

        peer = torchvision.ops.deform_conv2d
        peer(torch.zeros(1, 1, 2, 2), torch.zeros(1, 2, 2, 2), torch.zeros(1, 1, 1, 1))
    except (ImportError, RuntimeError, AttributeError):
        peer = None
    missed = []
    print(f"torch {torch.__version__}, tier {LIBRARY.provider}, {'torchvision' if peer else 'no peer'}; milliseconds")
    print(f"{'':<42} {'threads':>7} {'forward':>9} {'peer':>9} {'ratio':>7} {'and back':>9} {'peer':>9} {'ratio':>7}")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for case in CASES:
            pairs = [works(case, convolve) for convolve in (deform_conv2d, peer) if convolve]
            for ours, theirs in zip(*(pairs[0], pairs[-1]), strict=True):
                torch.testing.assert_close(ours(), theirs(), rtol=1e-3, atol=2e-2)
            cells = ""
            for direction in (0, 1):
                times = best_ms([pair[direction] for pair in pairs])
                ratio = times[1] / times[0] if peer else None
                cells += f" {times[0]:>9.2f} {times[1]:>9.2f} {ratio:>6.1f}x" if ratio else f" {times[0]:>9.2f}"
            if ratio is not None and ratio < LEAST_RATIO:
                missed.append(f"{case.name}, {threads} threads")
            print(f"{case.name:<42} {threads:>7}{cells}")
    if missed:
        print(f"below {LEAST_RATIO:g} x:", "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Region align beside torchvision's operator, in one process, on one thread and on two; both directions.

    python vision/benchmarks/roi_align.py

Times are wall-clock, the best of several repetitions, product and peer in turn. The bound is the one the library holds
itself to, forward and backward together; the program exits with 1 when it is missed. Without torchvision's compiled
operators, which `tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flambeau.vision.ops import roi_align
from flambeau.vision.ops._library import LIBRARY

LEAST_RATIO = 2.0
REPETITIONS = 3


@dataclass(frozen=True)
class Case:
    """A level of a pyramid and the regions that are pooled from it."""

    name: str
    maps: tuple[int, int, int, int]
    regions: int
    sides: tuple[int, int]  # of the regions, in pixels of the picture
    stride: int
    bins: int
    sampling_ratio: int


CASES = (
    Case("boxes of a fine level", (1, 256, 200, 272), 256, (20, 112), 4, 7, 2),
    Case("boxes of a coarse level", (2, 256, 50, 68), 512, (112, 448), 16, 7, 2),
    Case("ten boxes of a fine level", (1, 256, 200, 272), 10, (20, 112), 4, 7, 2),
    Case("masks", (1, 256, 50, 68), 100, (112, 448), 16, 14, 2),
    Case("samples by size", (1, 256, 50, 68), 128, (112, 448), 16, 7, -1),
    Case("single level, large boxes", (1, 1024, 38, 50), 64, (100, 600), 16, 14, 0),
)


def inputs(case: Case, *, last: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Maps, regions, and the gradient that comes back."""
    generator = torch.Generator().manual_seed(0)
    images, channels, height, width = case.maps
    maps = torch.randn(case.maps, generator=generator)
    corner = torch.rand(case.regions, 2, generator=generator) * torch.tensor([width, height]) * case.stride * 0.6
    low, high = case.sides
    far = corner + low + torch.rand(case.regions, 2, generator=generator) * (high - low)
    rois = torch.cat([torch.randint(0, images, (case.regions, 1), generator=generator), corner, far], 1)
    grad = torch.randn(case.regions, channels, case.bins, case.bins, generator=generator)
    if last:
        maps, grad = (each.contiguous(memory_format=torch.channels_last) for each in (maps, grad))
    return maps.requires_grad_(), rois, grad


def works(case: Case, align: Callable[..., Tensor], *, last: bool) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Forward alone, and both directions."""
    maps, rois, grad = inputs(case, last=last)
    plain = maps.detach()

    def forward(features: Tensor = plain) -> Tensor:
        return align(features, rois, case.bins, 1 / case.stride, case.sampling_ratio)

    return forward, lambda: torch.autograd.grad(forward(maps), maps, grad)[0]


def best_ms(tasks: list[Callable[[], Tensor]]) -> list[float]:
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

        peer = torchvision.ops.roi_align
        peer(torch.zeros(1, 1, 2, 2), torch.zeros(1, 5), 1)
    except (ImportError, RuntimeError, AttributeError):
        peer = None
    missed = []
    print(f"torch {torch.__version__}, tier {LIBRARY.provider}, {'torchvision' if peer else 'no peer'}; milliseconds")
    print(f"{'':<42} {'threads':>7} {'forward':>9} {'peer':>9} {'ratio':>7} {'and back':>9} {'peer':>9} {'ratio':>7}")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for case in CASES:
            for last in (False, True):
                name = f"{case.name}, {'NHWC' if last else 'NCHW'}"
                pairs = [works(case, align, last=last) for align in (roi_align, peer) if align]
                for ours, theirs in zip(*(pairs[0], pairs[-1]), strict=True):
                    torch.testing.assert_close(ours(), theirs(), rtol=1e-3, atol=1e-4)
                cells = ""
                for direction in (0, 1):
                    times = best_ms([pair[direction] for pair in pairs])
                    ratio = times[1] / times[0] if peer else None
                    cells += f" {times[0]:>9.2f} {times[1]:>9.2f} {ratio:>6.1f}x" if ratio else f" {times[0]:>9.2f}"
                if ratio is not None and ratio < LEAST_RATIO:
                    missed.append(f"{name}, {threads} threads")
                print(f"{name:<42} {threads:>7}{cells}")
    if missed:
        print(f"below {LEAST_RATIO:g} x:", "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Resizing of bytes beside torchvision's, in one process, on one thread and on two.

    python vision/benchmarks/resize.py [--seconds 0.3]

Times are CPU time on one thread, wall time on two, the best of many, product and peer in turn. A line below 1 is
marked. Without torchvision, which `tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

SIZES = {
    "375 x 500 to 224 x 224": ((375, 500), (224, 224)),
    "480 x 640 to 256 x 341": ((480, 640), (256, 341)),
    "1080 x 1920 to 256 x 455": ((1080, 1920), (256, 455)),
    "1080 x 1920 to 750 x 1333": ((1080, 1920), (750, 1333)),
    "224 x 224 to 448 x 448": ((224, 224), (448, 448)),
}
LAYOUTS = ("channels first", "channels last", "batch of 8")


def picture(size: tuple[int, int], layout: str) -> Tensor:
    """Noise, uint8."""
    count = 8 if layout == "batch of 8" else 1
    levels = torch.randint(0, 256, (count, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    if layout == "batch of 8":
        return levels
    last = layout == "channels last"
    return levels.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)[0]


def best_us(works: list[Callable[[], object]], seconds: float) -> list[float]:
    """Microseconds of each work, in turn, so that what else the machine does meets all alike."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    best = [float("inf")] * len(works)
    for work in works:
        work()
    end, rounds = time.perf_counter() + seconds * len(works), 0
    while rounds < 5 or time.perf_counter() < end:
        for index, work in enumerate(works):
            start = clock()
            work()
            best[index] = min(best[index], (clock() - start) * 1e6)
        rounds += 1
    return best


def works(
    libraries: list[ModuleType], image: Tensor, size: tuple[int, int], mode: str, antialias: bool
) -> list[Callable[[], object]]:
    calls: list[Callable[[], object]] = []
    for library in libraries:
        F = importlib.import_module(f"{library.__name__}.transforms.v2.functional")
        modes = importlib.import_module(f"{library.__name__}.transforms.v2").InterpolationMode
        calls.append(
            lambda F=F, modes=modes: F.resize(image, list(size), interpolation=modes(mode), antialias=antialias)
        )
    return calls


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="for each line and library")
    given = parser.parse_args()
    libraries = [importlib.import_module("flambeau.vision")]
    try:
        libraries.append(importlib.import_module("torchvision"))
    except ImportError:
        print("There is nothing to compare with; tools/peers.py installs it.")
    print(f"torch {torch.__version__}; microseconds")
    print(f"{'':<66} {'threads':>7} {'ours':>9} {'peer':>9} {'ratio':>7}")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, (before, after) in SIZES.items():
            for layout in LAYOUTS:
                image = picture(before, layout)
                for mode in ("bilinear", "bicubic"):
                    for antialias in (True, False):
                        times = best_us(works(libraries, image, after, mode, antialias), given.seconds)
                        cells = f"{times[1]:>9.0f} {times[1] / times[0]:>7.2f}" if len(times) > 1 else ""
                        mark = "  BEHIND" if len(times) > 1 and times[1] < times[0] else ""
                        what = f"{name}, {layout}, {mode}{', antialias' if antialias else ''}"
                        print(f"{what:<66} {threads:>7} {times[0]:>9.0f} {cells}{mark}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every functional of `transforms.v2` beside torchvision's, in one process.

    python vision/benchmarks/functionals.py [--threads 1 2] [--only NAME] [--seconds 0.05]

Product and peer run in turn on the same values: uint8 and float32 images, plain and as `Image`, videos, masks,
boxes and key points. Times are CPU time on one thread, wall time on more, the best of many. A line below 1 is marked.
The peer is torchvision, which `tools/peers.py` installs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

HEIGHT, WIDTH = CANVAS = (256, 320)

# Functional -> positional arguments after the first, as in training recipes.
CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "adjust_brightness": ((1.3,), {}),
    "adjust_contrast": ((0.6,), {}),
    "adjust_gamma": ((1.7, 0.9), {}),
    "adjust_hue": ((0.2,), {}),
    "adjust_saturation": ((1.8,), {}),
    "adjust_sharpness": ((1.5,), {}),
    "affine": ((25.0, [1, -2], 1.1, [5.0, -3.0]), {"interpolation": "bilinear"}),
    "autocontrast": ((), {}),
    "center_crop": (([224, 224],), {}),
    "crop": ((20, 10, 200, 210), {}),
    "equalize": ((), {}),
    "erase": ((20, 30, 40, 50, torch.zeros(1, 1, 1)), {}),
    "five_crop": (([224, 224],), {}),
    "gaussian_blur": (([5, 3], [1.0, 0.8]), {}),
    "gaussian_noise": ((0.0, 0.1), {}),
    "get_size": ((), {}),
    "horizontal_flip": ((), {}),
    "invert": ((), {}),
    "jpeg": ((90,), {}),
    "normalize": (([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]), {}),
    "pad": (([1, 2, 3, 4], 1), {}),
    "permute_channels": (([2, 0, 1],), {}),
    "perspective": (
        ([[0, 0], [319, 0], [319, 255], [0, 255]], [[9, 5], [300, 0], [310, 250], [3, 240]]),
        {"interpolation": "bilinear"},
    ),
    "posterize": ((3,), {}),
    "resize": (([224, 280],), {}),
    "resized_crop": ((10, 20, 200, 220, [224, 224]), {}),
    "rgb_to_grayscale": ((3,), {}),
    "rotate": ((33.0,), {"interpolation": "bilinear", "expand": True}),
    "solarize": ((0.4,), {}),
    "ten_crop": (([224, 224],), {}),
    "to_dtype": ((torch.float32, True), {}),
    "uniform_temporal_subsample": ((3,), {}),
    "vertical_flip": ((), {}),
}
ELASTIC = torch.rand(1, HEIGHT, WIDTH, 2, generator=torch.Generator().manual_seed(5)) * 0.02 - 0.01
CASES["elastic"] = ((ELASTIC,), {"interpolation": "bilinear"})
MODED = ("affine", "perspective", "rotate", "elastic")
BYTES, FLOATS = {"jpeg"}, {"normalize", "gaussian_noise"}


def picture(*leading: int) -> Tensor:
    """Smooth waves and some noise, uint8."""
    y, x = torch.meshgrid(torch.arange(HEIGHT) / 40, torch.arange(WIDTH) / 30, indexing="ij")
    waves = torch.stack([((c + 1) * x + y * c).sin() for c in range(3)])
    noise = torch.rand(*leading, 3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0))
    return (((waves + 1) * 0.4 + noise * 0.2) * 255).to(torch.uint8)


def inputs(functional: str, library: ModuleType) -> Iterator[tuple[str, Tensor]]:
    """Inputs of every kind that the functional takes."""
    types = importlib.import_module(f"{library.__name__}.tv_tensors")
    F = importlib.import_module(f"{library.__name__}.transforms.v2.functional")
    levels = picture()
    numbers = levels / 255
    if functional == "uniform_temporal_subsample":
        yield "Video, uint8", types.Video(picture(8))
        return
    if functional not in FLOATS:
        yield "uint8", levels
        yield "uint8, channels last", levels[None].contiguous(memory_format=torch.channels_last)[0]
        yield "Image, uint8", types.Image(levels)
    if functional not in BYTES:
        yield "float32", numbers
        yield "Image, float32", types.Image(numbers)
    if hasattr(F, f"{functional}_video") and functional not in FLOATS:
        yield "Video, uint8", types.Video(picture(4))
    if hasattr(F, f"{functional}_mask"):
        yield "Mask", types.Mask(levels[:2] // 64)
    corner = torch.rand(20, 2, generator=torch.Generator().manual_seed(1)) * 150
    if hasattr(F, f"{functional}_bounding_boxes"):
        boxes = torch.cat([corner, corner + 40], 1)
        yield "BoundingBoxes", types.BoundingBoxes(boxes, format="XYXY", canvas_size=CANVAS)
    if hasattr(F, f"{functional}_keypoints"):
        yield "KeyPoints", types.KeyPoints(corner, canvas_size=CANVAS)


def best_us(works: list[Callable[[], object]], seconds: float) -> list[float]:
    """Microseconds of each work, in turn, so that what else the machine does meets all alike."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    best = [float("inf")] * len(works)
    start = clock()
    works[0]()
    calls = max(1, int(0.0005 / max(clock() - start, 1e-7)))
    rounds = 0
    started = clock()
    while rounds < 5 or clock() - started < seconds * len(works):
        for index in range(len(works)):
            work = works[index]
            start = clock()
            for _ in range(calls):
                work()
            best[index] = min(best[index], (clock() - start) / calls * 1e6)
        rounds += 1
    return best


def bound(library: ModuleType, functional: str, inpt: Tensor) -> Callable[[], object]:
    F = importlib.import_module(f"{library.__name__}.transforms.v2.functional")
    args, kwargs = CASES[functional]
    kwargs = dict(kwargs)
    if functional in MODED:
        modes = importlib.import_module(f"{library.__name__}.transforms.v2").InterpolationMode
        kwargs["interpolation"] = modes(kwargs["interpolation"])
    call = getattr(F, functional)
    return lambda: call(inpt, *args, **kwargs)


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--only", help="names that contain this")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each line and library")
    given = parser.parse_args()
    ours = importlib.import_module("flambeau.vision")
    try:
        peer = importlib.import_module("torchvision")
    except ImportError:
        print("There is nothing to compare with; tools/peers.py installs it.")
        return 1
    behind = 0
    for threads in given.threads:
        torch.set_num_threads(threads)
        print(f"torch {torch.__version__}, torchvision {peer.__version__}, {threads} thread(s), microseconds")
        for functional in sorted(CASES):
            if given.only and given.only not in functional:
                continue
            for (kind, mine), (_, theirs) in zip(inputs(functional, ours), inputs(functional, peer), strict=True):
                times = best_us([bound(ours, functional, mine), bound(peer, functional, theirs)], given.seconds)
                ratio = times[1] / times[0]
                behind += ratio < 1
                name = f"{functional}, {kind}"
                print(f"{name:<48} {times[0]:>10.1f} {times[1]:>10.1f} {ratio:>7.2f}{'  BEHIND' if ratio < 1 else ''}")
    print(f"{behind} lines behind")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Named resources that mean the same at every provider: sizes as of shirts, with or without GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from flambeau.launch.specs.resources import Resource

__all__ = ["NAMED_RESOURCES", "GiB"]

GiB: int = 1024

_SIZES = {
    "gpu.small": (8, 1, 32 * GiB),
    "gpu.medium": (16, 2, 64 * GiB),
    "gpu.large": (32, 4, 128 * GiB),
    "gpu.xlarge": (64, 8, 256 * GiB),
    "cpu.nano": (1, 0, GiB // 2),
    "cpu.micro": (1, 0, 1 * GiB),
    "cpu.small": (1, 0, 2 * GiB),
    "cpu.medium": (2, 0, 4 * GiB),
    "cpu.large": (2, 0, 8 * GiB),
    "cpu.xlarge": (8, 0, 32 * GiB),
}

NAMED_RESOURCES: Mapping[str, Callable[[], Resource]] = {
    name: partial(Resource, cpu, gpu, memory) for name, (cpu, gpu, memory) in _SIZES.items()
}
"""Name -> what makes the resource."""

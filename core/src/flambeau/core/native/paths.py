"""Where third parties find what a library of kernels is built with. Nothing here imports torch: build tools ask."""

from __future__ import annotations

from pathlib import Path


def include_dir() -> Path:
    """The folder to compile with: `#include <flambeau/kernel.h>`."""
    return Path(__file__).parent / "include"


def cmake_dir() -> Path:
    """The folder of `FlambeauConfig.cmake`: what `Flambeau_DIR` must be for `find_package(Flambeau CONFIG)`.

    It defines `flambeau_add_kernels(target sources...)`.
    """
    return Path(__file__).parent / "cmake"

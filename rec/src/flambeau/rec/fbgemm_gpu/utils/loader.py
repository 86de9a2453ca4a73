"""Libraries of operators by path, of builds with one for all accelerators or one for each."""

from __future__ import annotations

import torch

__all__ = ["load_torch_module", "load_torch_module_bc"]


def load_torch_module(unified_path: str, cuda_path: str | None = None, hip_path: str | None = None) -> None:
    """Load a library; where there is no common one, that of the accelerator which torch is built for.

    Args:
        unified_path: the common one.
        cuda_path: that for CUDA; `<unified_path>_cuda` by default.
        hip_path: that for ROCm; `<unified_path>_hip` by default.

    Raises:
        OSError: there is neither.
    """
    try:
        torch.ops.load_library(unified_path)
    except OSError:
        # What is wrong with a path that a build does not have is of no interest; the other one's fault is raised.
        torch.ops.load_library(
            (hip_path or f"{unified_path}_hip") if torch.version.hip else (cuda_path or f"{unified_path}_cuda")
        )


def load_torch_module_bc(new_path: str, old_path: str) -> None:
    """Load a library from its new path, or from where older builds have it.

    Args:
        new_path: is tried first.
        old_path: where there is nothing.

    Raises:
        OSError: there is neither.
    """
    try:
        torch.ops.load_library(new_path)
    except OSError:
        torch.ops.load_library(old_path)

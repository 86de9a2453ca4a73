"""The library of rl's native kernels, `torch.ops.flambeau_rl`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

__all__ = ["LIBRARY"]

LIBRARY = KernelLibrary("flambeau.rl", "_kernels", namespace="flambeau_rl")

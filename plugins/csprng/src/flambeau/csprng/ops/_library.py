"""The library of csprng's native kernels, `torch.ops.flambeau_csprng`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

__all__ = ["LIBRARY"]

LIBRARY = KernelLibrary("flambeau.csprng", "_kernels", namespace="flambeau_csprng")

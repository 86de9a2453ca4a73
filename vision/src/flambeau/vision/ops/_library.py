"""The library of vision's native kernels, `torch.ops.flambeau_vision`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

LIBRARY = KernelLibrary("flambeau.vision", "_kernels", namespace="flambeau_vision")

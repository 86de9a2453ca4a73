"""The library of data's native kernels, `torch.ops.flambeau_data`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

LIBRARY = KernelLibrary("flambeau.data", "_kernels", namespace="flambeau_data")

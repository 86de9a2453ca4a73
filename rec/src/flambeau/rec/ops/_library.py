"""The library of rec's native kernels, `torch.ops.flambeau_rec`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

LIBRARY = KernelLibrary("flambeau.rec", "_kernels", namespace="flambeau_rec")

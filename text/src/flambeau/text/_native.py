"""The library of text's native kernels, `torch.ops.flambeau_text`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

LIBRARY = KernelLibrary("flambeau.text", "libflambeau_text", namespace="flambeau_text")

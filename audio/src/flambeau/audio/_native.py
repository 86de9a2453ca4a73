"""The library of audio's native kernels, `torch.ops.flambeau_audio`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

LIBRARY = KernelLibrary("flambeau.audio", "_kernels", namespace="flambeau_audio")

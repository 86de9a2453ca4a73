"""Modules over `flambeau.audio.functional`: banks, windows and kernels are buffers, arguments stay attributes."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {})

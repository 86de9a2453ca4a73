"""Functions on waveforms and spectrograms: stateless, batched, differentiable where the mathematics is."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {})

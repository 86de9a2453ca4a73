"""Datasets that upstream offers as prototypes."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.audio.prototype.datasets.musan import Musan as Musan

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"musan": ("Musan",)})

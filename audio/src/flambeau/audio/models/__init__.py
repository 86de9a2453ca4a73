"""Models for speech and music, with upstream's state_dict keys."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {})

"""What changes collected data before it is stored or learned from."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"postprocs": ("DensifyReward", "MultiStep")})

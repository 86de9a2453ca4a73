"""Transforms, compositions of them, and the environments that they change."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "compose": ("Compose",),
        "environment": ("AutoResetEnv", "TransformedEnv"),
        "transform": ("ObservationTransform", "Transform"),
    },
)

"""Transforms of actions."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "chunks": ("ActionChunkTransform",),
        "discrete": ("ActionMask", "DiscreteActionProjection"),
        "discretizer": ("ActionDiscretizer",),
        "scaling": ("ActionScaling", "FlattenAction"),
        "several": ("MultiAction",),
        "tokens": ("ActionTokenizerTransform",),
    },
)

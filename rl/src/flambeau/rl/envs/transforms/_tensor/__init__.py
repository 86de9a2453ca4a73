"""Transforms of tensors, whatever they are."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cat_tensors": ("CatTensors",),
        "hash": ("Hash",),
        "stack": ("Stack",),
        "tokenizer": ("Tokenizer",),
        "unary": ("UnaryTransform",),
    },
)

"""What upstream calls prototypes: generation, and earlier forms of transforms, vectors and vocabularies."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {}, submodules=("generate", "transforms", "vectors", "vocab_factory")
)

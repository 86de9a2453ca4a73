"""Collections of embeddings with an optimizer of their own, over several processes."""

from __future__ import annotations

from flambeau.rec.distributed._sharders import FusedEmbeddingCollectionSharder

__all__ = ["FusedEmbeddingCollectionSharder"]

"""Collections of pooled embeddings with an optimizer of their own, over several processes."""

from __future__ import annotations

from flambeau.rec.distributed._sharders import FusedEmbeddingBagCollectionSharder

__all__ = ["FusedEmbeddingBagCollectionSharder"]

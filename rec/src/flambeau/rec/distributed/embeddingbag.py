"""Collections of pooled embeddings over several processes."""

from __future__ import annotations

from flambeau.rec.distributed._sharders import EmbeddingBagCollectionSharder, EmbeddingBagSharder

__all__ = ["EmbeddingBagCollectionSharder", "EmbeddingBagSharder"]

"""Collections of embeddings, a row for each id, over several processes."""

from __future__ import annotations

from flambeau.rec.distributed._sharders import EmbeddingCollectionSharder

__all__ = ["EmbeddingCollectionSharder"]

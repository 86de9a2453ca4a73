"""Tables whose columns are on several processes, a row for each id."""

from __future__ import annotations

from flambeau.rec.distributed.sharding.cw_sharding import BaseCwEmbeddingSharding
from flambeau.rec.distributed.sharding.tw_sequence_sharding import TwSequenceEmbeddingSharding

__all__ = ["CwSequenceEmbeddingSharding"]


class CwSequenceEmbeddingSharding(BaseCwEmbeddingSharding, TwSequenceEmbeddingSharding):
    """Tables whose columns are on several processes, a row for each id; columns are joined where results are named."""

"""Tables whose columns are on several processes of one host, their rows pooled."""

from __future__ import annotations

from flambeau.rec.distributed.sharding.cw_sharding import CwPooledEmbeddingSharding
from flambeau.rec.distributed.types import ShardingType

__all__ = ["TwCwPooledEmbeddingSharding"]


class TwCwPooledEmbeddingSharding(CwPooledEmbeddingSharding):
    """As by columns: the plan has chosen processes of one host."""

    sharding_type = ShardingType.TABLE_COLUMN_WISE

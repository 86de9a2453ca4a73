"""Tables whose columns are on several hosts, the rows of each part on the processes of its host."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.rec.distributed.embedding_sharding import EmbeddingShardingInfo
from flambeau.rec.distributed.sharding.cw_sharding import JoinedColumns
from flambeau.rec.distributed.sharding.twrw_sharding import BaseTwRwEmbeddingSharding, TwRwPooledEmbeddingDist
from flambeau.rec.distributed.types import QuantizedCommCodecs, ShardingEnv, ShardingType

__all__ = ["BaseGridEmbeddingSharding", "GridPooledEmbeddingDist", "GridPooledEmbeddingSharding"]


class BaseGridEmbeddingSharding(BaseTwRwEmbeddingSharding):
    """Tables whose columns are on several hosts, each part like a table whose rows are on its host's processes.

    Args:
        sharding_infos: the tables, and where their parts go.
        env: the processes.
        device: of this one.
        need_pos: whether the place of each id in its bag is sent along.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    sharding_type = ShardingType.GRID_SHARD

    def __init__(
        self,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        need_pos: bool = False,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(sharding_infos, env, device, need_pos, qcomm_codecs_registry)
        order = self.uncombined_embedding_names()
        offsets = [place.shard_offsets[1] if place is not None else 0 for place in self.embedding_shard_metadata()]
        self.joined = JoinedColumns(self.uncombined_embedding_names(), self.uncombined_embedding_dims(), offsets, order)

    def embedding_dims(self) -> list[int]:
        """Of each of `embedding_names`, its columns."""
        return self.joined.widths

    def embedding_names(self) -> list[str]:
        """What results are called, in the order in which they come."""
        return self.joined.names

    def uncombined_embedding_dims(self) -> list[int]:
        """Columns of each part of a result."""
        return super().embedding_dims()

    def uncombined_embedding_names(self) -> list[str]:
        """The result that each part belongs to."""
        return super().embedding_names()

    def _callbacks(self) -> list[Callable[[Tensor], Tensor]] | None:
        return [self.joined.join]


class GridPooledEmbeddingDist(TwRwPooledEmbeddingDist):
    """As of tables by rows on hosts; callbacks join the columns of each table."""


class GridPooledEmbeddingSharding(BaseGridEmbeddingSharding):
    """Tables whose columns are on several hosts, their rows pooled there in part."""

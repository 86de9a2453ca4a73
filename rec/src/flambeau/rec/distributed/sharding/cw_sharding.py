"""Tables whose columns are on several processes, their rows pooled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    EmbeddingShardingInfo,
)
from flambeau.rec.distributed.embedding_types import BaseEmbeddingLookup, BaseGroupedFeatureProcessor
from flambeau.rec.distributed.sharding._one_process import OneProcess
from flambeau.rec.distributed.sharding.tw_sharding import (
    BaseTwEmbeddingSharding,
    InferTwPooledEmbeddingDist,
    TwPooledEmbeddingSharding,
)
from flambeau.rec.distributed.types import NullShardingContext, QuantizedCommCodecs, ShardingEnv, ShardingType

__all__ = [
    "BaseCwEmbeddingSharding",
    "CwPooledEmbeddingSharding",
    "InferCwPooledEmbeddingDist",
    "InferCwPooledEmbeddingDistWithPermute",
    "InferCwPooledEmbeddingSharding",
    "JoinedColumns",
]


class JoinedColumns:
    """Parts of results, and the results that they are joined to.

    A result has as its columns those of its parts, by where they lie in the table; results come in the order of their
    tables.

    Args:
        names: of the result that each part belongs to.
        widths: of each part.
        offsets: where each part lies in its table.
        order: all names, in the order wanted.
    """

    def __init__(self, names: list[str], widths: list[int], offsets: list[int], order: list[str]) -> None:
        self.part_names, self.part_widths = names, widths
        places: dict[str, list[int]] = {name: [] for name in dict.fromkeys(order) if name in set(names)}
        for at, name in enumerate(names):
            places[name].append(at)
        for parts in places.values():
            parts.sort(key=lambda at: offsets[at])
        self.places = places
        self.names = list(places)
        self.widths = [sum(widths[at] for at in parts) for parts in places.values()]
        self._order = [at for parts in places.values() for at in parts]
        self._in_order = self._order == list(range(len(names)))

    def join(self, embeddings: Tensor) -> Tensor:
        """(examples, columns of all parts) with the columns of each result side by side."""
        if self._in_order:
            return embeddings
        parts = embeddings.split(self.part_widths, dim=1)
        return torch.cat([parts[at] for at in self._order], dim=1)


class BaseCwEmbeddingSharding(BaseTwEmbeddingSharding):
    """Tables whose columns are on several processes, each part like a table of its own.

    Args:
        sharding_infos: the tables, and where their columns go.
        env: the processes.
        device: of this one.
        permute_embeddings: whether the columns of each table are joined.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    sharding_type = ShardingType.COLUMN_WISE

    def __init__(
        self,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        permute_embeddings: bool = False,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(sharding_infos, env, device, qcomm_codecs_registry)
        self._permute_embeddings = permute_embeddings
        order = self.uncombined_embedding_names()
        offsets = [place.shard_offsets[1] if place is not None else 0 for place in self.embedding_shard_metadata()]
        self.joined = JoinedColumns(self.uncombined_embedding_names(), self.uncombined_embedding_dims(), offsets, order)

    def embedding_dims(self) -> list[int]:
        """Of each of `embedding_names`, its columns."""
        return self.joined.widths if self._permute_embeddings else self.uncombined_embedding_dims()

    def embedding_names(self) -> list[str]:
        """What results are called, in the order in which they come."""
        return self.joined.names if self._permute_embeddings else self.uncombined_embedding_names()

    def uncombined_embedding_dims(self) -> list[int]:
        """Columns of each part of a result."""
        return super().embedding_dims()

    def uncombined_embedding_names(self) -> list[str]:
        """The result that each part belongs to."""
        return super().embedding_names()


class CwPooledEmbeddingSharding(BaseCwEmbeddingSharding, TwPooledEmbeddingSharding):
    """Tables whose columns are on several processes, their rows pooled."""

    def _callbacks(self) -> list[Callable[[Tensor], Tensor]] | None:
        return [self.joined.join] if self._permute_embeddings else None


# ----- one process with several devices -------------------------------------------------------------------------------


class InferCwPooledEmbeddingDist(InferTwPooledEmbeddingDist):
    """Joins the columns of all devices on one, device by device.

    Args:
        device: which.
        world_size: devices with tables.
    """


class InferCwPooledEmbeddingDistWithPermute(InferCwPooledEmbeddingDist):
    """Joins the columns of all devices on one, table by table.

    Args:
        device: which.
        world_size: devices with tables.
        embedding_dims: columns of each part, device by device.
        permute: the parts in the order wanted.
    """

    def __init__(self, device: torch.device, world_size: int, embedding_dims: list[int], permute: list[int]) -> None:
        super().__init__(device, world_size)
        self._widths, self._order = embedding_dims, permute

    def forward(self, local_embs: list[Tensor], sharding_ctx: NullShardingContext | None = None) -> Tensor:
        """(examples, columns of all tables), of each device's (examples, columns)."""
        joined = super().forward(local_embs)
        if self._order == list(range(len(self._order))):
            return joined
        parts = joined.split(self._widths, dim=1)
        return torch.cat([parts[at] for at in self._order], dim=1)


class InferCwPooledEmbeddingSharding(OneProcess, BaseCwEmbeddingSharding):
    """Quantized tables whose columns are on several devices, their rows pooled."""

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[Any, Any]:
        """What looks up on all devices."""
        return self._pooled_lookups(device, fused_params)  # type: ignore[no-any-return]

    def create_output_dist(self, device: torch.device | None = None) -> BaseEmbeddingDist[Any, Any, Any]:
        """What joins results."""
        home, ranks = self._home(device), self._ranks_with_tables()
        if not self._permute_embeddings:
            return InferCwPooledEmbeddingDist(home, ranks)
        order = [at for parts in self.joined.places.values() for at in parts]
        return InferCwPooledEmbeddingDistWithPermute(home, ranks, self.uncombined_embedding_dims(), order)

"""Tables whose columns are on several processes, their rows pooled."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.rec.distributed.embedding_sharding import EmbeddingShardingInfo
from flambeau.rec.distributed.sharding.tw_sharding import BaseTwEmbeddingSharding, TwPooledEmbeddingSharding
from flambeau.rec.distributed.types import QuantizedCommCodecs, ShardingEnv, ShardingType

__all__ = ["BaseCwEmbeddingSharding", "CwPooledEmbeddingSharding", "JoinedColumns"]


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

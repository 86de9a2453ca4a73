"""Tables over several processes, a row for each id, whose collisions are managed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.embedding import EmbeddingCollectionContext, EmbeddingCollectionSharder
from flambeau.rec.distributed.embedding_types import KJTList
from flambeau.rec.distributed.mc_embedding_modules import (
    BaseManagedCollisionEmbeddingCollectionSharder,
    BaseShardedManagedCollisionEmbeddingCollection,
)
from flambeau.rec.distributed.mc_modules import ManagedCollisionCollectionSharder
from flambeau.rec.distributed.types import ParameterSharding, QuantizedCommCodecs, ShardingEnv
from flambeau.rec.modules.mc_embedding_modules import ManagedCollisionEmbeddingCollection

__all__ = [
    "ManagedCollisionEmbeddingCollectionContext",
    "ManagedCollisionEmbeddingCollectionSharder",
    "ShardedManagedCollisionEmbeddingCollection",
]


@dataclass
class ManagedCollisionEmbeddingCollectionContext(EmbeddingCollectionContext):
    """What the stages of one batch share; see `EmbeddingCollectionContext`.

    Args:
        evictions_per_table: rows of each table that changed hands.
        remapped_kjt: of each sharding, features with rows in place of ids.
        inverse_indices: keys, and (keys, full batch), where features have batches of their own.
        variable_batch_per_feature: whether they have.
    """

    evictions_per_table: dict[str, Tensor | None] | None = None
    remapped_kjt: KJTList | None = None
    inverse_indices: tuple[list[str], Tensor] | None = None
    variable_batch_per_feature: bool = False

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        super().record_stream(stream)
        record_mapping(self, stream)


def record_mapping(ctx: Any, stream: torch.Stream) -> None:
    """Keep the memory of what a batch's ids were mapped to until a stream is done with it."""
    for rows in (ctx.evictions_per_table or {}).values():
        if rows is not None:
            rows.record_stream(stream)
    if ctx.remapped_kjt is not None:
        ctx.remapped_kjt.record_stream(stream)


class ShardedManagedCollisionEmbeddingCollection(BaseShardedManagedCollisionEmbeddingCollection):
    """A `ManagedCollisionEmbeddingCollection` whose tables are spread over processes.

    Args:
        module: the collection; where its tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes: "row_wise".
        ec_sharder: spreads the tables.
        mc_sharder: spreads what maps.
        env: the processes.
        device: of this one.
    """

    def __init__(
        self,
        module: ManagedCollisionEmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        ec_sharder: EmbeddingCollectionSharder,
        mc_sharder: ManagedCollisionCollectionSharder,
        env: ShardingEnv,
        device: torch.device,
    ) -> None:
        super().__init__(module, table_name_to_parameter_sharding, ec_sharder, mc_sharder, env, device)

    def create_context(self) -> ManagedCollisionEmbeddingCollectionContext:
        """What the stages of one batch share."""
        return ManagedCollisionEmbeddingCollectionContext()

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`ManagedCollisionEmbeddingCollection`."""
        return ManagedCollisionEmbeddingCollection


class ManagedCollisionEmbeddingCollectionSharder(
    BaseManagedCollisionEmbeddingCollectionSharder[ManagedCollisionEmbeddingCollection]
):
    """Spreads `ManagedCollisionEmbeddingCollection` over processes.

    Args:
        ec_sharder: spreads the tables; an `EmbeddingCollectionSharder` by default.
        mc_sharder: spreads what maps; a `ManagedCollisionCollectionSharder` by default.
        fused_params: options of the kernels, where `ec_sharder` is not given.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        ec_sharder: EmbeddingCollectionSharder | None = None,
        mc_sharder: ManagedCollisionCollectionSharder | None = None,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(
            ec_sharder or EmbeddingCollectionSharder(fused_params, qcomm_codecs_registry),
            mc_sharder or ManagedCollisionCollectionSharder(qcomm_codecs_registry),
            qcomm_codecs_registry,
        )

    def shard(
        self,
        module: ManagedCollisionEmbeddingCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedManagedCollisionEmbeddingCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        here = torch.device("cpu") if device is None else device
        assert isinstance(self._e_sharder, EmbeddingCollectionSharder)
        return ShardedManagedCollisionEmbeddingCollection(module, params, self._e_sharder, self._mc_sharder, env, here)

    @property
    def module_type(self) -> type[ManagedCollisionEmbeddingCollection]:
        """`ManagedCollisionEmbeddingCollection`."""
        return ManagedCollisionEmbeddingCollection

    @property
    def sharded_module_type(self) -> type[ShardedManagedCollisionEmbeddingCollection]:
        """The class of what it makes."""
        return ShardedManagedCollisionEmbeddingCollection

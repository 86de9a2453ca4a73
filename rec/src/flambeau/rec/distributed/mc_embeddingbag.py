"""Tables over several processes, rows pooled over bags, whose collisions are managed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.embedding_types import KJTList
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionContext, EmbeddingBagCollectionSharder
from flambeau.rec.distributed.mc_embedding import record_mapping
from flambeau.rec.distributed.mc_embedding_modules import (
    BaseManagedCollisionEmbeddingCollectionSharder,
    BaseShardedManagedCollisionEmbeddingCollection,
)
from flambeau.rec.distributed.mc_modules import ManagedCollisionCollectionSharder
from flambeau.rec.distributed.types import Awaitable, ParameterSharding, QuantizedCommCodecs, ShardingEnv
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
from flambeau.rec.modules.utils import SequenceVBEContext
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "ManagedCollisionEmbeddingBagCollectionContext",
    "ManagedCollisionEmbeddingBagCollectionSharder",
    "ShardedManagedCollisionEmbeddingBagCollection",
]


@dataclass
class ManagedCollisionEmbeddingBagCollectionContext(EmbeddingBagCollectionContext):
    """What the stages of one batch share; see `EmbeddingBagCollectionContext`.

    Args:
        evictions_per_table: rows of each table that changed hands.
        remapped_kjt: of each sharding, features with rows in place of ids.
        seq_vbe_ctx: of each sharding, how rows become those of the full batch.
        input_features: of each sharding, the features before each id was left once.
        reverse_indices: of each sharding, which of the ids left each one is.
    """

    evictions_per_table: dict[str, Tensor | None] | None = None
    remapped_kjt: KJTList | None = None
    seq_vbe_ctx: list[SequenceVBEContext] = field(default_factory=list)
    input_features: list[KeyedJaggedTensor] = field(default_factory=list)
    reverse_indices: list[Tensor] = field(default_factory=list)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        super().record_stream(stream)
        record_mapping(self, stream)
        for held in (*self.seq_vbe_ctx, *self.input_features):
            held.record_stream(stream)


class ShardedManagedCollisionEmbeddingBagCollection(BaseShardedManagedCollisionEmbeddingCollection):
    """A `ManagedCollisionEmbeddingBagCollection` whose tables are spread over processes.

    Args:
        module: the collection; where its tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes: "row_wise".
        ebc_sharder: spreads the tables.
        mc_sharder: spreads what maps.
        env: the processes.
        device: of this one.
    """

    def __init__(
        self,
        module: ManagedCollisionEmbeddingBagCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        ebc_sharder: EmbeddingBagCollectionSharder,
        mc_sharder: ManagedCollisionCollectionSharder,
        env: ShardingEnv,
        device: torch.device,
    ) -> None:
        super().__init__(module, table_name_to_parameter_sharding, ebc_sharder, mc_sharder, env, device)

    def create_context(self) -> ManagedCollisionEmbeddingBagCollectionContext:
        """What the stages of one batch share."""
        return ManagedCollisionEmbeddingBagCollectionContext()

    def input_dist(self, ctx: Any, features: KeyedJaggedTensor) -> Awaitable[Awaitable[KJTList]]:
        """Start to send ids.

        Args:
            ctx: of the batch.
            features: of the local batch; those of no table are left out.

        Raises:
            IdOutOfBoundsError: an id that belongs to no process, with the feature's name.
            OptionError: a feature is missing, or batches of features' own come without inverse indices.
        """
        sent = super().input_dist(ctx, features)
        if ctx.variable_batch_per_feature and ctx.inverse_indices is None:
            raise OptionError(
                "features have batches of their own, and no inverse_indices say which of a feature's examples each "
                "example of the full batch has."
            )
        return sent

    def _describe(self, ctx: Any) -> None:
        module = self._embedding_module
        for one, kind, means in zip(ctx.sharding_contexts, module._sharding_types, module._means, strict=True):
            ctx.factors.append(module._factor(module.shardings[kind], one.features_before_input_dist, means))

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`ManagedCollisionEmbeddingBagCollection`."""
        return ManagedCollisionEmbeddingBagCollection


class ManagedCollisionEmbeddingBagCollectionSharder(
    BaseManagedCollisionEmbeddingCollectionSharder[ManagedCollisionEmbeddingBagCollection]
):
    """Spreads `ManagedCollisionEmbeddingBagCollection` over processes.

    Args:
        ebc_sharder: spreads the tables; an `EmbeddingBagCollectionSharder` by default.
        mc_sharder: spreads what maps; a `ManagedCollisionCollectionSharder` by default.
        fused_params: options of the kernels, where `ebc_sharder` is not given.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        ebc_sharder: EmbeddingBagCollectionSharder | None = None,
        mc_sharder: ManagedCollisionCollectionSharder | None = None,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(
            ebc_sharder or EmbeddingBagCollectionSharder(fused_params, qcomm_codecs_registry),
            mc_sharder or ManagedCollisionCollectionSharder(qcomm_codecs_registry),
            qcomm_codecs_registry,
        )

    def shard(
        self,
        module: ManagedCollisionEmbeddingBagCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedManagedCollisionEmbeddingBagCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        here = torch.device("cpu") if device is None else device
        assert isinstance(self._e_sharder, EmbeddingBagCollectionSharder)
        return ShardedManagedCollisionEmbeddingBagCollection(
            module, params, self._e_sharder, self._mc_sharder, env, here
        )

    @property
    def module_type(self) -> type[ManagedCollisionEmbeddingBagCollection]:
        """`ManagedCollisionEmbeddingBagCollection`."""
        return ManagedCollisionEmbeddingBagCollection

    @property
    def sharded_module_type(self) -> type[ShardedManagedCollisionEmbeddingBagCollection]:
        """The class of what it makes."""
        return ShardedManagedCollisionEmbeddingBagCollection

"""What sharders of tables of embeddings say and do; each is public beside the module that it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flambeau.rec.distributed.embedding_types import BaseEmbeddingSharder, EmbeddingComputeKernel
from flambeau.rec.distributed.types import (
    EmbeddingModuleShardingPlan,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

if TYPE_CHECKING:
    from flambeau.rec.distributed.embedding import ShardedEmbeddingCollection
    from flambeau.rec.distributed.embeddingbag import ShardedEmbeddingBag, ShardedEmbeddingBagCollection
    from flambeau.rec.distributed.fused_embedding import ShardedFusedEmbeddingCollection
    from flambeau.rec.modules.fused_embedding_modules import FusedEmbeddingBagCollection, FusedEmbeddingCollection

__all__ = [
    "EmbeddingBagCollectionSharder",
    "EmbeddingBagSharder",
    "EmbeddingCollectionSharder",
    "FusedEmbeddingBagCollectionSharder",
    "FusedEmbeddingCollectionSharder",
]


def _tables(tables: Any) -> dict[str, nn.Parameter]:
    """The weight of each table in a dictionary of modules, by the table's name."""
    return {name.partition(".")[0]: weight for name, weight in tables.named_parameters()}


class EmbeddingBagCollectionSharder(BaseEmbeddingSharder[EmbeddingBagCollection]):
    """Spreads `EmbeddingBagCollection` over processes."""

    def shard(
        self,
        module: EmbeddingBagCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedEmbeddingBagCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        return self.sharded_module_type(
            module,
            params,
            env,
            self.fused_params,
            device,
            qcomm_codecs_registry=self.qcomm_codecs_registry,
            module_fqn=module_fqn,
            sharded_module_order_overwrite=self._sharded_module_order_overwrite,
        )

    def reshard(
        self,
        sharded_module: ShardedEmbeddingBagCollection,
        changed_shard_to_params: EmbeddingModuleShardingPlan,
        env: ShardingEnv,
        device: torch.device | None = None,
    ) -> ShardedEmbeddingBagCollection:
        """Move tables of a sharded collection to where a new plan wants them; in place, and returned.

        Args:
            sharded_module: the collection.
            changed_shard_to_params: where tables go that are not there yet; the others stay.
            env: the processes, all of which have to call this.
            device: of this process.
        """
        if changed_shard_to_params:
            sharded_module.update_shards(changed_shard_to_params, env, device)
        return sharded_module

    @property
    def sharded_module_type(self) -> type[ShardedEmbeddingBagCollection]:
        """The class of what it makes."""
        from flambeau.rec.distributed.embeddingbag import ShardedEmbeddingBagCollection

        return ShardedEmbeddingBagCollection

    def shardable_parameters(self, module: EmbeddingBagCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return _tables(module.embedding_bags)

    @property
    def module_type(self) -> type[EmbeddingBagCollection]:
        """`EmbeddingBagCollection`."""
        return EmbeddingBagCollection


class EmbeddingBagSharder(BaseEmbeddingSharder[nn.EmbeddingBag]):
    """Spreads `torch.nn.EmbeddingBag` over processes."""

    def shard(
        self,
        module: nn.EmbeddingBag,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedEmbeddingBag:
        """The sharded table; see `ModuleSharder.shard`."""
        from flambeau.rec.distributed.embeddingbag import ShardedEmbeddingBag

        return ShardedEmbeddingBag(module, params, env, self.fused_params, device)

    def shardable_parameters(self, module: nn.EmbeddingBag) -> dict[str, nn.Parameter]:
        """The table, under the name "weight"."""
        return dict(module.named_parameters())

    @property
    def module_type(self) -> type[nn.EmbeddingBag]:
        """`torch.nn.EmbeddingBag`."""
        return nn.EmbeddingBag


class EmbeddingCollectionSharder(BaseEmbeddingSharder[EmbeddingCollection]):
    """Spreads `EmbeddingCollection` over processes.

    Args:
        fused_params: options of the kernels.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        use_index_dedup: whether each id is sent and looked up once for each batch.
    """

    def __init__(
        self,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        use_index_dedup: bool = False,
    ) -> None:
        super().__init__(fused_params, qcomm_codecs_registry)
        self._use_index_dedup = use_index_dedup

    def shard(
        self,
        module: EmbeddingCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedEmbeddingCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        return self.sharded_module_type(
            module,
            params,
            env,
            self.fused_params,
            device,
            qcomm_codecs_registry=self.qcomm_codecs_registry,
            use_index_dedup=self._use_index_dedup,
            module_fqn=module_fqn,
        )

    def shardable_parameters(self, module: EmbeddingCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return _tables(module.embeddings)

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread whose rows are not pooled."""
        return [
            ShardingType.DATA_PARALLEL.value,
            ShardingType.TABLE_WISE.value,
            ShardingType.COLUMN_WISE.value,
            ShardingType.ROW_WISE.value,
        ]

    @property
    def module_type(self) -> type[EmbeddingCollection]:
        """`EmbeddingCollection`."""
        return EmbeddingCollection

    @property
    def sharded_module_type(self) -> type[ShardedEmbeddingCollection]:
        """The class of what it makes."""
        from flambeau.rec.distributed.embedding import ShardedEmbeddingCollection

        return ShardedEmbeddingCollection


def _fused_kernels(sharding_type: str, compute_device_type: str) -> list[str]:
    """Kernels of modules that brought an optimizer along."""
    if sharding_type == ShardingType.DATA_PARALLEL.value:
        return [EmbeddingComputeKernel.DENSE.value]
    kernels = [EmbeddingComputeKernel.FUSED.value]
    if compute_device_type == "cuda":
        kernels += [EmbeddingComputeKernel.FUSED_UVM.value, EmbeddingComputeKernel.FUSED_UVM_CACHING.value]
    return kernels


class FusedEmbeddingBagCollectionSharder(BaseEmbeddingSharder["FusedEmbeddingBagCollection"]):
    """Spreads `FusedEmbeddingBagCollection` over processes."""

    def shard(
        self,
        module: FusedEmbeddingBagCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedEmbeddingBagCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        from flambeau.rec.distributed.fused_embeddingbag import ShardedFusedEmbeddingBagCollection

        return ShardedFusedEmbeddingBagCollection(
            module, params, env, device, qcomm_codecs_registry=self.qcomm_codecs_registry
        )

    def shardable_parameters(self, module: FusedEmbeddingBagCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return _tables(module.embedding_bags)

    @property
    def module_type(self) -> type[FusedEmbeddingBagCollection]:
        """`FusedEmbeddingBagCollection`."""
        from flambeau.rec.modules.fused_embedding_modules import FusedEmbeddingBagCollection

        return FusedEmbeddingBagCollection

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread whose optimizer came with the module."""
        return [
            ShardingType.DATA_PARALLEL.value,
            ShardingType.TABLE_WISE.value,
            ShardingType.COLUMN_WISE.value,
            ShardingType.TABLE_COLUMN_WISE.value,
            ShardingType.ROW_WISE.value,
            ShardingType.TABLE_ROW_WISE.value,
        ]

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """The kernels for tables spread in this way."""
        return _fused_kernels(sharding_type, compute_device_type)


class FusedEmbeddingCollectionSharder(BaseEmbeddingSharder["FusedEmbeddingCollection"]):
    """Spreads `FusedEmbeddingCollection` over processes."""

    def shard(
        self,
        module: FusedEmbeddingCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedFusedEmbeddingCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        from flambeau.rec.distributed.fused_embedding import ShardedFusedEmbeddingCollection

        return ShardedFusedEmbeddingCollection(module, params, env, device)

    def shardable_parameters(self, module: FusedEmbeddingCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return _tables(module.embeddings)

    @property
    def module_type(self) -> type[FusedEmbeddingCollection]:
        """`FusedEmbeddingCollection`."""
        from flambeau.rec.modules.fused_embedding_modules import FusedEmbeddingCollection

        return FusedEmbeddingCollection

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread whose optimizer came with the module."""
        return [
            ShardingType.DATA_PARALLEL.value,
            ShardingType.TABLE_WISE.value,
            ShardingType.COLUMN_WISE.value,
            ShardingType.ROW_WISE.value,
        ]

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """The kernels for tables spread in this way."""
        return _fused_kernels(sharding_type, compute_device_type)

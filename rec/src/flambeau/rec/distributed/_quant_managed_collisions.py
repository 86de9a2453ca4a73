"""Quantized collections whose ids are mapped to rows first, over the devices of one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed._infer_mc_modules import InferManagedCollisionCollectionSharder
from flambeau.rec.distributed.embedding_types import BaseQuantEmbeddingSharder, KJTList, ListOfKJTList
from flambeau.rec.distributed.mc_modules import ShardedMCCRemapper
from flambeau.rec.distributed.quant_embedding import (
    EmbeddingCollectionContext,
    QuantEmbeddingCollectionSharder,
    ShardedQuantEmbeddingCollection,
)
from flambeau.rec.distributed.quant_embeddingbag import (
    Env,
    QuantEmbeddingBagCollectionSharder,
    ShardedQuantEmbeddingBagCollection,
    with_output_type,
)
from flambeau.rec.distributed.types import EmbeddingModuleShardingPlan, ParameterSharding, ShardingType
from flambeau.rec.quant.embedding_modules import (
    QuantManagedCollisionEmbeddingBagCollection,
    QuantManagedCollisionEmbeddingCollection,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "ManagedCollisionEmbeddingCollectionContext",
    "QuantManagedCollisionEmbeddingBagCollectionSharder",
    "QuantManagedCollisionEmbeddingCollectionSharder",
    "ShardedMCEBCLookup",
    "ShardedMCECLookup",
    "ShardedQuantManagedCollisionEmbeddingBagCollection",
    "ShardedQuantManagedCollisionEmbeddingCollection",
]


@dataclass
class ManagedCollisionEmbeddingCollectionContext(EmbeddingCollectionContext):
    """What the stages of one batch share.

    Args:
        sharding_contexts: of each sharding.
        input_features: of each sharding, the features before they were cut.
        reverse_indices: of each sharding, which of ids left once each one is.
        evictions_per_table: rows that were given to other ids.
        remapped_kjt: of each sharding and device, features with rows of the device in place of ids.
    """

    input_features: list[KeyedJaggedTensor] = field(default_factory=list)
    reverse_indices: list[Tensor] = field(default_factory=list)
    evictions_per_table: dict[str, Tensor | None] | None = None
    remapped_kjt: Any = None

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        super().record_stream(stream)
        for features in self.input_features:
            features.record_stream(stream)
        for tensor in (*self.reverse_indices, *(self.evictions_per_table or {}).values()):
            if tensor is not None:
                tensor.record_stream(stream)


class ShardedMCECLookup(nn.Module):
    """Maps ids to the rows of one device, and looks them up.

    Args:
        sharding: which one.
        rank: of the device.
        mcc_remapper: maps.
        ec_lookup: looks up.
    """

    def __init__(self, sharding: int, rank: int, mcc_remapper: ShardedMCCRemapper, ec_lookup: nn.Module) -> None:
        super().__init__()
        self._sharding, self._rank = sharding, rank
        self._mcc_remapper = mcc_remapper
        # A list: its tables are those of the collection, which has them in its state already.
        self._lookup = [ec_lookup]

    def forward(
        self, features: KeyedJaggedTensor, return_remapped_features: bool = False
    ) -> tuple[Tensor, KeyedJaggedTensor | None]:
        """What is found, and the features with rows of the device in place of ids, where they are wanted."""
        with torch.no_grad():
            mapped = self._mcc_remapper(features)
        return self._lookup[0](mapped), mapped if return_remapped_features else None


class ShardedMCEBCLookup(ShardedMCECLookup):
    """Maps ids to the rows of one device, looks them up, and pools them.

    Args:
        sharding: which one.
        rank: of the device.
        mcc_remapper: maps.
        ebc_lookup: looks up and pools.
    """

    def __init__(self, sharding: int, rank: int, mcc_remapper: ShardedMCCRemapper, ebc_lookup: nn.Module) -> None:
        super().__init__(sharding, rank, mcc_remapper, ebc_lookup)

    def forward(  # type: ignore[override]
        self, features: KeyedJaggedTensor
    ) -> tuple[Tensor, KeyedJaggedTensor | None]:
        """What is found, and the features with rows of the device in place of ids."""
        return super().forward(features, return_remapped_features=True)


def _joined(shardings: list[Any], contexts: list[Any], remapped: list[list[KeyedJaggedTensor]]) -> KeyedJaggedTensor:
    """Features with rows of whole tables in place of ids, in the order in which ids were."""
    found = []
    for sharding, context, parts in zip(shardings, contexts, remapped, strict=True):
        places = context.unbucketize_permute_tensor
        home = places.device
        ids = []
        for of_rank, part in zip(sharding._grouped_embedding_configs_per_rank, parts, strict=True):
            tables = [table for config in of_rank for table in config.embedding_tables]
            starts = [table.local_metadata.shard_offsets[0] for table in tables for _ in table.feature_names]
            values = part.values().to(home)
            begin = torch.repeat_interleave(
                torch.tensor(starts, device=home, dtype=values.dtype),
                part.lengths().view(len(starts), -1).sum(1).to(home),
            )
            ids.append(torch.where(values >= 0, values + begin, values))
        before = context.features_before_input_dist
        rows = torch.cat(ids).index_select(0, places.long())
        found.append(KeyedJaggedTensor(before.keys(), rows, before.weights_or_none(), lengths=before.lengths()))
    return found[0] if len(found) == 1 else KeyedJaggedTensor.concat(found)


class ShardedQuantManagedCollisionEmbeddingCollection(ShardedQuantEmbeddingCollection):
    """A `QuantManagedCollisionEmbeddingCollection` over the devices of one process.

    Args:
        module: the quantized collection.
        table_name_to_parameter_sharding: where rows of each table go: row-wise.
        mc_sharder: of the mapping.
        env: the devices, or those of each kind.
        fused_params: options of kernels.
        device: where results come together.

    Raises:
        AssertionError: tables that are not cut by rows; it is a ValueError too.
    """

    def __init__(
        self,
        module: QuantManagedCollisionEmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        mc_sharder: InferManagedCollisionCollectionSharder,
        env: Env,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(module, table_name_to_parameter_sharding, env, fused_params, device)
        self._return_remapped_features: bool = module._return_remapped_features
        shardings = list(self._sharding_type_device_group_to_sharding.values())
        collection: Any = module._managed_collision_collection
        self._managed_collision_collection = mc_sharder.shard(
            collection, table_name_to_parameter_sharding, env, shardings, self._device
        )
        del self._input_dist  # ids are cut by their values, not by rows
        self._mcec_lookup = nn.ModuleList(
            nn.ModuleList(
                ShardedMCECLookup(at, rank, remapper, lookup._embedding_lookups_per_rank[rank])  # type: ignore[arg-type, index]
                for rank, remapper in enumerate(remappers)
            )
            for at, (remappers, lookup) in enumerate(
                zip(self._managed_collision_collection.create_mcc_remappers(), self._lookups, strict=True)
            )
        )

    def create_context(self) -> ManagedCollisionEmbeddingCollectionContext:
        """What the stages of one batch share."""
        return ManagedCollisionEmbeddingCollectionContext(sharding_contexts=[])

    def input_dist(self, ctx: EmbeddingCollectionContext, features: KeyedJaggedTensor) -> ListOfKJTList:  # type: ignore[override]
        """Ids of each device, there, by sharding; notes in `ctx` what puts rows into order again.

        Args:
            ctx: of the batch.
            features: with all features of the tables, in any order; others are left out.

        Raises:
            ValueError: a feature is missing.
        """
        return self._managed_collision_collection.input_dist(ctx, features)  # type: ignore[arg-type]

    def compute(self, ctx: Any, dist_input: ListOfKJTList) -> list[list[Tensor]]:
        """What each device finds, by sharding: (ids, columns)."""
        found, ctx.remapped_kjt = [], []
        for lookups, given in zip(self._mcec_lookup, dist_input, strict=True):
            pairs = [
                lookup(part, self._return_remapped_features)
                for lookup, part in zip(lookups, given, strict=True)  # type: ignore[call-overload]
            ]
            found.append([rows for rows, _ in pairs])
            ctx.remapped_kjt.append([mapped for _, mapped in pairs])
        return found

    def output_dist(self, ctx: Any, output: list[list[Tensor]]) -> Any:
        """All results in one place, and the features with their rows where they were asked for."""
        found = super().output_dist(ctx, output)
        if not self._return_remapped_features:
            return found, None
        shardings = list(self._sharding_type_device_group_to_sharding.values())
        return found, _joined(shardings, ctx.sharding_contexts, ctx.remapped_kjt)


class ShardedQuantManagedCollisionEmbeddingBagCollection(ShardedQuantEmbeddingBagCollection):
    """A `QuantManagedCollisionEmbeddingBagCollection` over the devices of one process.

    Args:
        module: the quantized collection.
        table_name_to_parameter_sharding: where rows of each table go: row-wise.
        mc_sharder: of the mapping.
        env: the devices, or those of each kind.
        fused_params: options of kernels.
        device: where results come together.

    Raises:
        AssertionError: tables that are not cut by rows; it is a ValueError too.
    """

    def __init__(
        self,
        module: QuantManagedCollisionEmbeddingBagCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        mc_sharder: InferManagedCollisionCollectionSharder,
        env: Env,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(module, table_name_to_parameter_sharding, env, fused_params, device)
        self._return_remapped_features: bool = module._return_remapped_features
        shardings = list(self._sharding_type_device_group_to_sharding.values())
        collection: Any = module._managed_collision_collection
        self._managed_collision_collection = mc_sharder.shard(
            collection, table_name_to_parameter_sharding, env, shardings, self._device
        )
        del self._input_dist_module  # ids are cut by their values, not by rows
        self._mcebc_remappers = nn.ModuleList(
            nn.ModuleList(of_sharding) for of_sharding in self._managed_collision_collection.create_mcc_remappers()
        )

    def create_context(self) -> Any:
        """What the stages of one batch share."""
        return ManagedCollisionEmbeddingCollectionContext(sharding_contexts=[])

    def input_dist(self, ctx: Any, features: KeyedJaggedTensor) -> ListOfKJTList:  # type: ignore[override]
        """Ids of each device, there, by sharding.

        Args:
            ctx: of the batch.
            features: with all features of the tables, in any order; others are left out.

        Raises:
            ValueError: a feature is missing.
        """
        return self._managed_collision_collection.input_dist(ctx, features)

    def compute(self, ctx: Any, dist_input: ListOfKJTList) -> list[list[Tensor]]:
        """Map ids, then look up and pool; see `ShardedQuantEmbeddingBagCollection.compute`."""
        with torch.no_grad():
            ctx.remapped_kjt = [
                [remapper(part) for remapper, part in zip(remappers, given, strict=True)]  # type: ignore[call-overload]
                for remappers, given in zip(self._mcebc_remappers, dist_input, strict=True)
            ]
        return super().compute(ctx, ListOfKJTList([KJTList(parts) for parts in ctx.remapped_kjt]))

    def output_dist(self, ctx: Any, output: list[list[Tensor]]) -> Any:
        """All results in one place, and the features with their rows where they were asked for."""
        found = super().output_dist(ctx, output)
        if not self._return_remapped_features:
            return found, None
        shardings = list(self._sharding_type_device_group_to_sharding.values())
        return found, _joined(shardings, ctx.sharding_contexts, ctx.remapped_kjt)


# ----- sharders -------------------------------------------------------------------------------------------------------


class _Sharder(BaseQuantEmbeddingSharder[Any]):
    """Spreads quantized collections whose ids are mapped to rows first.

    Args:
        e_sharder: of the tables.
        mc_sharder: of the mapping.
    """

    _kind: type[Any]
    _sharded: type[Any]

    def __init__(
        self, e_sharder: BaseQuantEmbeddingSharder[Any], mc_sharder: InferManagedCollisionCollectionSharder
    ) -> None:
        super().__init__()
        self._e_sharder, self._mc_sharder = e_sharder, mc_sharder

    def shard(
        self,
        module: Any,
        params: EmbeddingModuleShardingPlan | dict[str, ParameterSharding],
        env: Env,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> Any:
        """The sharded collection; see `ModuleSharder.shard`."""
        options = with_output_type(self.fused_params, module.output_dtype())
        return self._sharded(module, dict(params), self._mc_sharder, env, options, device)

    @property
    def module_type(self) -> type[Any]:
        """The class of collections it spreads."""
        return self._kind

    @property
    def fused_params(self) -> dict[str, Any] | None:
        """Options of the kernels."""
        return self._e_sharder.fused_params

    def shardable_parameters(self, module: Any) -> dict[str, nn.Parameter]:
        """The tables that can be spread, by name."""
        return self._e_sharder.shardable_parameters(module)

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """Tables are on the devices themselves."""
        return ["quant"]

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """By rows alone: an id is mapped where its row is."""
        return [ShardingType.ROW_WISE.value]


class QuantManagedCollisionEmbeddingCollectionSharder(_Sharder):
    """Spreads `QuantManagedCollisionEmbeddingCollection`s over the devices of one process.

    Args:
        e_sharder: of the tables.
        mc_sharder: of the mapping.
    """

    _kind = QuantManagedCollisionEmbeddingCollection
    _sharded = ShardedQuantManagedCollisionEmbeddingCollection

    def __init__(
        self, e_sharder: QuantEmbeddingCollectionSharder, mc_sharder: InferManagedCollisionCollectionSharder
    ) -> None:
        super().__init__(e_sharder, mc_sharder)


class QuantManagedCollisionEmbeddingBagCollectionSharder(_Sharder):
    """Spreads `QuantManagedCollisionEmbeddingBagCollection`s over the devices of one process.

    Args:
        e_sharder: of the tables.
        mc_sharder: of the mapping.
    """

    _kind = QuantManagedCollisionEmbeddingBagCollection
    _sharded = ShardedQuantManagedCollisionEmbeddingBagCollection

    def __init__(
        self, e_sharder: QuantEmbeddingBagCollectionSharder, mc_sharder: InferManagedCollisionCollectionSharder
    ) -> None:
        super().__init__(e_sharder, mc_sharder)

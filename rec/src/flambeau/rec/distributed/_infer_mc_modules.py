"""Mapping of ids to rows, on the devices of one process that hold the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from flambeau.rec.distributed.embedding_sharding import EmbeddingSharding
from flambeau.rec.distributed.embedding_types import KJTList, ListOfKJTList
from flambeau.rec.distributed.mc_modules import (
    ManagedCollisionCollectionContext,
    ManagedCollisionCollectionSharder,
    ShardedMCCRemapper,
)
from flambeau.rec.distributed.sharding._one_process import one_to_all
from flambeau.rec.distributed.sharding._rw_inference import InferRwSparseFeaturesDist
from flambeau.rec.distributed.sharding.sequence_sharding import InferSequenceShardingContext
from flambeau.rec.distributed.types import (
    EmbeddingModuleShardingPlan,
    NullShardedModuleContext,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardedModule,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.mc_modules import ManagedCollisionCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["InferManagedCollisionCollectionSharder", "ShardedQuantManagedCollisionCollection"]

Env = ShardingEnv | Mapping[str, ShardingEnv]


class ShardedQuantManagedCollisionCollection(ShardedModule[Any, Any, Any, Any]):
    """A `ManagedCollisionCollection` whose ids are mapped on the devices of one process that hold their rows.

    An id belongs to a device by its value, as in training over as many processes; its row is one of the device's. The
    parts begin anew: load the state of a model that was trained in as many parts. On one device the mapping goes on.

    Args:
        module: the collection.
        table_name_to_parameter_sharding: where rows of each table go: row-wise.
        env: the devices, or those of each kind.
        device: where results come together.
        embedding_shardings: of the tables.
        qcomm_codecs_registry: has no meaning here: nothing is exchanged between processes.

    Raises:
        AssertionError: tables that are not cut by rows; it is a ValueError too.
    """

    def __init__(
        self,
        module: ManagedCollisionCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: Env,
        device: torch.device | None,
        embedding_shardings: list[EmbeddingSharding[Any, Any, Any, Any]],
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry=qcomm_codecs_registry)
        wrong = [
            name
            for name, one in table_name_to_parameter_sharding.items()
            if one.sharding_type != ShardingType.ROW_WISE.value
        ]
        if wrong:
            raise OptionError(f"tables {wrong} are not cut by rows, by which ids are managed; spread them row-wise.")
        self._device = device
        self._embedding_shardings: list[Any] = list(embedding_shardings)
        self._managed_collision_modules: nn.ModuleDict = module._managed_collision_modules
        self._input_dists: Any = nn.ModuleList()
        self._names: list[list[str]] = []
        for sharding in self._embedding_shardings:
            self._names.append(sharding.feature_names())
            self._input_dists.append(self._dist_of(sharding))

    def _tables(self, sharding: Any, rank: int) -> list[Any]:
        groups = sharding._grouped_embedding_configs_per_rank[rank]
        return [table for config in groups for table in config.embedding_tables]

    def _dist_of(self, sharding: Any) -> InferRwSparseFeaturesDist:
        tables, world = self._tables(sharding, 0), sharding._world_size
        modules: list[Any] = [self._managed_collision_modules[one.name] for one in tables for _ in one.feature_names]
        # Modules of their own blocks of ids for each part; else a block for each device.
        buckets = [one.buckets() if one.buckets() % world == 0 else world for one in modules]
        made = InferRwSparseFeaturesDist(
            world_size=world,
            num_features=len(modules),
            feature_hash_sizes=[one.input_size() for one in modules],
            feature_total_num_buckets=buckets,
            device=self._device,
            is_sequence=True,
            keep_original_indices=True,
        )
        made._dist = one_to_all([len(modules)] * world, sharding._kinds(), self._device)
        return made

    def create_mcc_remappers(self) -> list[list[ShardedMCCRemapper]]:
        """Of each sharding and device, what maps ids to the rows there."""
        return [
            [self._remapper(sharding, rank) for rank in range(sharding._world_size)]
            for sharding in self._embedding_shardings
        ]

    def _remapper(self, sharding: Any, rank: int) -> ShardedMCCRemapper:
        tables = self._tables(sharding, rank)
        home = sharding._devices()[rank]
        parts = nn.ModuleDict()
        for table in tables:
            whole: Any = self._managed_collision_modules[table.name]
            places = [
                next(one.local_metadata for one in self._tables(sharding, at) if one.name == table.name)
                for at in range(sharding._world_size)
            ]
            bounds = [place.shard_offsets[0] for place in places]
            bounds.append(bounds[-1] + places[-1].shard_sizes[0])
            segments = getattr(whole, "_output_segments", None) or bounds
            part = whole.rebuild_with_output_id_range((bounds[rank], bounds[rank + 1]), segments, home)
            state = whole.state_dict()
            if {name: one.shape for name, one in state.items()} == {k: v.shape for k, v in part.state_dict().items()}:
                part.load_state_dict(state)
            parts[table.name] = part.eval()
        return ShardedMCCRemapper(
            [len(table.feature_names) for table in tables],
            [name for table in tables for name in table.feature_names],
            parts,
            {table.name: [table.local_metadata.shard_offsets[0], table.local_rows] for table in tables},
        )

    def create_context(self) -> ManagedCollisionCollectionContext:
        """What the stages of one batch share."""
        return ManagedCollisionCollectionContext(sharding_contexts=[])

    def input_dist(  # type: ignore[override]
        self,
        ctx: ManagedCollisionCollectionContext | NullShardedModuleContext,
        features: KeyedJaggedTensor,
        is_sequence_embedding: bool = True,
    ) -> ListOfKJTList:
        """Ids of each device, there, by sharding.

        Args:
            ctx: of the batch; of sequences it is told what puts rows into order again.
            features: with all features, in any order; others are left out.
            is_sequence_embedding: whether rows are not pooled.

        Raises:
            ValueError: a feature is missing.
        """
        from flambeau.rec.distributed.quant_embeddingbag import in_order

        found = []
        for sharding, names, dist in zip(self._embedding_shardings, self._names, self._input_dists, strict=True):
            before = in_order(features, names)
            given = dist(before)
            if is_sequence_embedding:
                assert not isinstance(ctx, NullShardedModuleContext)
                ctx.sharding_contexts.append(
                    InferSequenceShardingContext(
                        given.features, before, given.unbucketize_permute_tensor, given.bucket_mapping_tensor,
                        given.bucketized_length, sharding.embedding_names_per_rank(),
                    )
                )  # fmt: skip
            found.append(given.features)
        return ListOfKJTList(found)

    def compute(self, ctx: ManagedCollisionCollectionContext, rank: int, dist_input: KJTList) -> KJTList:  # type: ignore[override]
        """Map the ids of one device, by sharding.

        Args:
            ctx: of the batch.
            rank: of the device.
            dist_input: of each sharding, ids of the device.
        """
        remappers = self.create_mcc_remappers()
        return KJTList([remappers[at][rank](features) for at, features in enumerate(dist_input)])

    def output_dist(self, ctx: ManagedCollisionCollectionContext, output: KJTList) -> KeyedJaggedTensor:  # type: ignore[override]
        """The features of all shardings as one."""
        return KeyedJaggedTensor.concat(list(output))

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`ManagedCollisionCollection`."""
        return ManagedCollisionCollection


class InferManagedCollisionCollectionSharder(ManagedCollisionCollectionSharder):
    """Has ids mapped on the devices of one process that hold their rows.

    Args:
        qcomm_codecs_registry: has no meaning here.
    """

    def shard(  # type: ignore[override]
        self,
        module: ManagedCollisionCollection,
        params: EmbeddingModuleShardingPlan | dict[str, ParameterSharding],
        env: Env,
        embedding_shardings: list[EmbeddingSharding[Any, Any, Any, Any]],
        device: torch.device | None = None,
    ) -> ShardedQuantManagedCollisionCollection:
        """The sharded collection.

        Args:
            module: the collection.
            params: where rows of each table go.
            env: the devices.
            embedding_shardings: of the tables.
            device: where results come together.
        """
        return ShardedQuantManagedCollisionCollection(module, dict(params), env, device, embedding_shardings)

"""What shardings by tables, columns, rows and hosts share: tables by process, and names and widths of results."""

from __future__ import annotations

import abc
from dataclasses import fields
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties
from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec
from torch.distributed.tensor import Replicate, Shard

from flambeau.rec.distributed.embedding_lookup import GroupedEmbeddingsLookup, GroupedPooledEmbeddingsLookup
from flambeau.rec.distributed.embedding_sharding import EmbeddingSharding, EmbeddingShardingInfo, group_tables
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseGroupedFeatureProcessor,
    DTensorMetadata,
    EmbeddingComputeKernel,
    GroupedEmbeddingConfig,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.types import CommOp, QuantizedCommCodecs, ShardingEnv, ShardingEnv2D, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import EmbeddingTableConfig, PoolingType
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["Spread", "codecs_of"]


def codecs_of(registry: dict[str, QuantizedCommCodecs] | None, op: CommOp) -> QuantizedCommCodecs | None:
    """The codecs of an exchange, or None."""
    return registry.get(op.name) if registry else None


class Spread(EmbeddingSharding[Any, KeyedJaggedTensor, torch.Tensor, torch.Tensor]):
    """Tables of which each process has some parts.

    Args:
        sharding_infos: the tables, and where they go.
        env: the processes.
        device: of this one.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    sharding_type = ShardingType.TABLE_WISE
    # Sums of rows on several processes are added up; what a bag is divided by is known where it came from.
    sums_partial_bags = False

    def __init__(
        self,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry)
        self._env, self._device, self._sharding_infos = env, device, sharding_infos
        pg = env.sharding_pg if isinstance(env, ShardingEnv2D) else env.process_group
        self._pg: dist.ProcessGroup | None = pg
        self._world_size: int = env.world_size
        self._rank: int = dist.get_rank(pg) if pg is not None else env.rank
        self._grouped_embedding_configs_per_rank = group_tables(self._shard(sharding_infos))
        self._grouped_embedding_configs: list[GroupedEmbeddingConfig] = self._grouped_embedding_configs_per_rank[
            self._rank
        ]

    @abc.abstractmethod
    def _shard(self, sharding_infos: list[EmbeddingShardingInfo]) -> list[list[ShardedEmbeddingTable]]:
        """Of each process, its parts of tables."""

    def _group(self) -> dist.ProcessGroup:
        if self._pg is None:
            raise OptionError("tables go to several processes, but the environment has none; give it a process group.")
        return self._pg

    # ----- parts of tables --------------------------------------------------------------------------------------------

    def _spec(self, info: EmbeddingShardingInfo) -> EnumerableShardingSpec:
        spec = info.param_sharding.sharding_spec
        if not isinstance(spec, EnumerableShardingSpec):
            raise OptionError(
                f"the sharding of table {info.embedding_config.name!r} does not say which rows and columns go where; "
                "give it an EnumerableShardingSpec, as construct_module_sharding_plan does."
            )
        return spec

    def _process(self, global_rank: int) -> int:
        """The process of a rank in a plan."""
        if isinstance(self._env, ShardingEnv2D):
            global_rank = self._env.remap_rank(global_rank, self.sharding_type)
        if not 0 <= global_rank < self._world_size:
            raise OptionError(f"the plan names process {global_rank}, expected 0 to {self._world_size - 1}.")
        return global_rank

    def _part(self, info: EmbeddingShardingInfo, shard: ShardMetadata, whole: ShardedTensorMetadata) -> Any:
        """The part of a table that a shard is."""
        config = info.embedding_config
        given = {one.name: getattr(config, one.name) for one in fields(EmbeddingTableConfig)}
        if self.sums_partial_bags and config.pooling == PoolingType.MEAN:
            given["pooling"] = PoolingType.SUM
        dtensor = None
        if self._env.output_dtensor:
            dtensor = DTensorMetadata(self._mesh(), self._placements(), tuple(whole.size), (whole.size[1], 1))
        made = ShardedEmbeddingTable(
            **given,
            local_rows=shard.shard_sizes[0],
            local_cols=shard.shard_sizes[1],
            compute_kernel=EmbeddingComputeKernel(info.param_sharding.compute_kernel),
            local_metadata=shard,
            global_metadata=whole,
            dtensor_metadata=dtensor,
            fused_params=info.fused_params,
        )
        made.averaged_later = given["pooling"] != config.pooling  # type: ignore[attr-defined]
        return made

    def _mesh(self) -> Any:
        mesh = self._env.device_mesh
        return mesh["shard"] if isinstance(self._env, ShardingEnv2D) and mesh is not None else mesh

    def _placements(self) -> tuple[Any, ...]:
        by = {
            ShardingType.ROW_WISE: Shard(0),
            ShardingType.TABLE_ROW_WISE: Shard(0),
            ShardingType.COLUMN_WISE: Shard(1),
            ShardingType.TABLE_COLUMN_WISE: Shard(1),
            ShardingType.GRID_SHARD: Shard(1),
        }
        return (by.get(self.sharding_type, Replicate()),)

    def _whole(self, info: EmbeddingShardingInfo) -> ShardedTensorMetadata:
        param = info.param
        return ShardedTensorMetadata(
            shards_metadata=self._spec(info).shards,
            size=torch.Size([info.embedding_config.num_embeddings, info.embedding_config.embedding_dim]),
            tensor_properties=TensorProperties(
                dtype=param.dtype, layout=torch.strided, requires_grad=False, memory_format=torch.contiguous_format,
                pin_memory=False,
            ),
        )  # fmt: skip

    def _parts_by_placement(self, sharding_infos: list[EmbeddingShardingInfo]) -> list[list[ShardedEmbeddingTable]]:
        """Each shard on the process that its placement, or the plan's list of ranks, names."""
        per_rank: list[list[ShardedEmbeddingTable]] = [[] for _ in range(self._world_size)]
        for info in sharding_infos:
            shards, ranks = self._spec(info).shards, info.param_sharding.ranks
            whole = self._whole(info)
            if ranks is None or len(ranks) != len(shards):
                placed = [shard.placement.rank() for shard in shards if shard.placement is not None]
                ranks = [rank for rank in placed if rank is not None]
            if len(ranks) != len(shards):
                raise OptionError(
                    f"table {info.embedding_config.name!r} has {len(shards)} shards for the processes {ranks}; name a "
                    "process for each."
                )
            for shard, rank in zip(shards, ranks, strict=True):
                per_rank[self._process(rank)].append(self._part(info, shard, whole))
        return per_rank

    # ----- what there is ----------------------------------------------------------------------------------------------

    def embedding_dims(self) -> list[int]:
        """Of each of `embedding_names`, its columns."""
        return [width for of_rank in self._grouped_embedding_configs_per_rank for width in _dims(of_rank)]

    def embedding_names(self) -> list[str]:
        """What results are called, in the order in which they come."""
        return list(chain.from_iterable(self.embedding_names_per_rank()))

    def embedding_names_per_rank(self) -> list[list[str]]:
        """What the results of each process are called."""
        return [
            [name for config in of_rank for name in config.embedding_names()]
            for of_rank in self._grouped_embedding_configs_per_rank
        ]

    def embedding_shard_metadata(self) -> list[ShardMetadata | None]:
        """Of each feature on each process, the part of its table."""
        return [
            place
            for of_rank in self._grouped_embedding_configs_per_rank
            for config in of_rank
            for place in config.embedding_shard_metadata()
        ]

    def embedding_tables(self) -> list[ShardedEmbeddingTable]:
        """The parts of tables on this process."""
        return [table for config in self._grouped_embedding_configs for table in config.embedding_tables]

    def feature_names(self) -> list[str]:
        """All features, in the order in which they are sent."""
        return list(chain.from_iterable(self.feature_names_per_rank()))

    def feature_names_per_rank(self) -> list[list[str]]:
        """Features that each process looks up."""
        return [
            [name for config in of_rank for name in config.feature_names()]
            for of_rank in self._grouped_embedding_configs_per_rank
        ]

    def features_per_rank(self) -> list[int]:
        """How many features each process looks up."""
        return [len(names) for names in self.feature_names_per_rank()]

    def _dims_per_rank(self) -> list[list[int]]:
        return [_dims(of_rank) for of_rank in self._grouped_embedding_configs_per_rank]

    def _codecs(self, op: CommOp) -> QuantizedCommCodecs | None:
        return codecs_of(self.qcomm_codecs_registry, op)

    # ----- looking up -------------------------------------------------------------------------------------------------

    def _pooled_lookup(
        self, device: torch.device | None, feature_processor: BaseGroupedFeatureProcessor | None
    ) -> BaseEmbeddingLookup[KeyedJaggedTensor, torch.Tensor]:
        return GroupedPooledEmbeddingsLookup(
            grouped_configs=self._grouped_embedding_configs,
            pg=self._pg,
            device=device if device is not None else self._device,
            feature_processor=feature_processor,
            sharding_type=self.sharding_type,
            env=self._env,
        )

    def _sequence_lookup(self, device: torch.device | None) -> BaseEmbeddingLookup[KeyedJaggedTensor, torch.Tensor]:
        return GroupedEmbeddingsLookup(
            grouped_configs=self._grouped_embedding_configs,
            pg=self._pg,
            device=device if device is not None else self._device,
            env=self._env,
        )


def _dims(configs: list[GroupedEmbeddingConfig]) -> list[int]:
    return [width for config in configs for width in config.embedding_dims()]

"""Tables whose rows are on the processes of one host, and pooled there in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed.comm import (
    get_local_size,
    intra_and_cross_node_pg,
    intra_and_cross_node_pg_2D,
)
from flambeau.rec.distributed.dist_data import (
    KJTAllToAll,
    PooledEmbeddingsAllToAll,
    PooledEmbeddingsAwaitable,
    PooledEmbeddingsReduceScatter,
    VariableBatchPooledEmbeddingsAllToAll,
    VariableBatchPooledEmbeddingsReduceScatter,
)
from flambeau.rec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    BaseSparseFeaturesDist,
    EmbeddingShardingContext,
    EmbeddingShardingInfo,
    bucketize_kjt_before_all2all,
)
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseGroupedFeatureProcessor,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.sharding._spread import Spread, codecs_of
from flambeau.rec.distributed.sharding.rw_sharding import convert_tensor, get_embedding_shard_metadata
from flambeau.rec.distributed.types import (
    Awaitable,
    CommOp,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingEnv2D,
    ShardingType,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "BaseTwRwEmbeddingSharding",
    "TwRwPooledEmbeddingDist",
    "TwRwPooledEmbeddingSharding",
    "TwRwSparseFeaturesDist",
]


class BaseTwRwEmbeddingSharding(Spread):
    """Tables whose rows are on the processes of one host.

    Args:
        sharding_infos: the tables, and where their rows go.
        env: the processes.
        device: of this one.
        need_pos: whether the place of each id in its bag is sent along.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    sharding_type = ShardingType.TABLE_ROW_WISE
    sums_partial_bags = True

    def __init__(
        self,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        need_pos: bool = False,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        self._need_pos = need_pos
        if isinstance(env, ShardingEnv2D):
            self._intra_pg, self._cross_pg = intra_and_cross_node_pg_2D(env, device)
            self._local_size = env.node_group_size or env.world_size
        else:
            self._intra_pg, self._cross_pg = intra_and_cross_node_pg(device)
            self._local_size = min(get_local_size(env.world_size), env.world_size)
        if env.world_size % self._local_size:
            raise OptionError(
                f"sharding by hosts takes as many processes on each, got {env.world_size} of which a host has "
                f"{self._local_size}."
            )
        super().__init__(sharding_infos, env, device, qcomm_codecs_registry)

    def _shard(self, sharding_infos: list[EmbeddingShardingInfo]) -> list[list[ShardedEmbeddingTable]]:
        per_rank = self._parts_by_placement(sharding_infos)
        for begin in range(0, self._world_size, self._local_size):
            names = [[table.name for table in tables] for tables in per_rank[begin : begin + self._local_size]]
            if any(of_rank != names[0] for of_rank in names):
                raise OptionError(
                    f"processes {begin} to {begin + self._local_size - 1} share a host, and have parts of different "
                    f"tables, {names}; give each process of a host a part, which may be empty."
                )
        return per_rank

    def _first_of_hosts(self, per_rank: list[Any]) -> list[Any]:
        """Of each host, what its first process says, as all of them do."""
        return per_rank[:: self._local_size]

    def embedding_dims(self) -> list[int]:
        """Of each of `embedding_names`, its columns."""
        return [width for of_host in self._first_of_hosts(self._dims_per_rank()) for width in of_host]

    def embedding_names(self) -> list[str]:
        """What results are called, in the order in which they come."""
        return [name for of_host in self._first_of_hosts(self.embedding_names_per_rank()) for name in of_host]

    def feature_names(self) -> list[str]:
        """All features, in the order in which they are sent."""
        return [name for of_host in self._first_of_hosts(self.feature_names_per_rank()) for name in of_host]

    def embedding_shard_metadata(self) -> list[Any]:
        """Of each feature on each host, the part of its table on the host's first process."""
        return [
            place
            for of_host in self._first_of_hosts(self._grouped_embedding_configs_per_rank)
            for config in of_host
            for place in config.embedding_shard_metadata()
        ]

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[KeyedJaggedTensor]:
        """What sends ids."""
        hosts = self._first_of_hosts(self._grouped_embedding_configs_per_rank)
        tables = [table for of_host in hosts for config in of_host for table in config.embedding_tables]
        made = TwRwSparseFeaturesDist(
            self._group(),
            self._local_size,
            self.features_per_rank(),
            [table.num_embeddings for table in tables for _ in table.feature_names],
            device if device is not None else self._device,
            has_feature_processor=any(config.has_feature_processor for of_host in hosts for config in of_host),
            need_pos=self._need_pos,
        )
        bounds, regular = [], True
        for begin in range(0, self._world_size, self._local_size):
            found, even = get_embedding_shard_metadata(
                self._grouped_embedding_configs_per_rank[begin : begin + self._local_size]
            )
            bounds += found
            regular &= even
        if not regular:
            made.use_bounds(bounds)
        return made

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[KeyedJaggedTensor, Tensor]:
        """What looks up."""
        return self._pooled_lookup(device, feature_processor)

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[EmbeddingShardingContext, Tensor, Tensor]:
        """What adds up within hosts, and sends results between them."""
        dims = self._first_of_hosts(self._dims_per_rank())
        assert self._cross_pg is not None and self._intra_pg is not None
        return TwRwPooledEmbeddingDist(
            self._rank,
            self._cross_pg,
            self._intra_pg,
            [sum(of_host) for of_host in dims],
            dims,
            device if device is not None else self._device,
            self.qcomm_codecs_registry,
            self._callbacks(),
        )

    def _callbacks(self) -> list[Callable[[Tensor], Tensor]] | None:
        return None


class TwRwSparseFeaturesDist(BaseSparseFeaturesDist[KeyedJaggedTensor]):
    """Sends ids to the processes of their rows.

    Args:
        pg: who takes part.
        local_size: processes of a host.
        features_per_rank: features of each process; those of a host have the same.
        feature_hash_sizes: rows of each one's table.
        device: of this process.
        has_feature_processor: whether weights become the place of each id in its bag.
        need_pos: likewise.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        local_size: int,
        features_per_rank: list[int],
        feature_hash_sizes: list[int],
        device: torch.device | None = None,
        has_feature_processor: bool = False,
        need_pos: bool = False,
    ) -> None:
        super().__init__()
        world_size = dist.get_world_size(pg)
        if world_size % local_size:
            raise OptionError(f"local_size is {local_size}, which does not divide {world_size} processes.")
        self._local_size = local_size
        self._bucketize_pos = has_feature_processor or need_pos
        blocks = [-(-rows // local_size) for rows in feature_hash_sizes]
        self.register_buffer(
            "_feature_block_sizes_tensor", torch.tensor(blocks, device=device, dtype=torch.int64), persistent=False
        )
        self._bounds: list[Tensor] | None = None
        # Ids come sorted by bucket, then by feature; they are sent to each process of each host by bucket.
        counts = features_per_rank[::local_size]
        total, order, begin = sum(counts), [], 0
        for count in counts:
            for bucket in range(local_size):
                order += [bucket * total + begin + at for at in range(count)]
            begin += count
        self._order = order
        self._in_order = order == list(range(len(order)))
        # Examples come sorted by the place of their processes on hosts, as sums within hosts are shared out by it.
        self._dist = KJTAllToAll(pg=pg, splits=features_per_rank, stagger=world_size // local_size)

    def use_bounds(self, bounds: list[list[int]]) -> None:
        """Sort by where the rows of each process begin, of each feature, where these are no blocks of one size."""
        device = self._feature_block_sizes_tensor.device
        self._bounds = [torch.tensor(of_feature, device=device) for of_feature in bounds]  # type: ignore[arg-type]

    def forward(self, sparse_features: KeyedJaggedTensor) -> Awaitable[Awaitable[KeyedJaggedTensor]]:
        """Start to send features, those of the first host first."""
        sizes = convert_tensor(self._feature_block_sizes_tensor, sparse_features)  # type: ignore[arg-type]
        assert sizes is not None
        with_positions = self._bucketize_pos and sparse_features.weights_or_none() is None
        bounds = self._bounds
        if bounds is not None:
            bounds = [bound.to(sparse_features.values().dtype) for bound in bounds]
        sorted_ids, _ = bucketize_kjt_before_all2all(
            sparse_features, self._local_size, sizes, None, False, with_positions, bounds
        )
        if not self._in_order:
            sorted_ids = sorted_ids.permute(self._order)
        return self._dist(sorted_ids)  # type: ignore[no-any-return]


class TwRwPooledEmbeddingDist(BaseEmbeddingDist[EmbeddingShardingContext, Tensor, Tensor]):
    """Adds up within hosts what their processes have of each bag, then sends results between hosts.

    Args:
        rank: of this process.
        cross_pg: processes at the same place of each host.
        intra_pg: processes of this host.
        dim_sum_per_node: columns of each host.
        emb_dim_per_node_per_feature: columns of each feature of each host.
        device: of this process.
        qcomm_codecs_registry: codecs, by the name of a `CommOp`.
        callbacks: what is done to the result.
    """

    def __init__(
        self,
        rank: int,
        cross_pg: dist.ProcessGroup,
        intra_pg: dist.ProcessGroup,
        dim_sum_per_node: list[int],
        emb_dim_per_node_per_feature: list[list[int]],
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        callbacks: list[Callable[[Tensor], Tensor]] | None = None,
    ) -> None:
        super().__init__()
        sums = codecs_of(qcomm_codecs_registry, CommOp.POOLED_EMBEDDINGS_REDUCE_SCATTER)
        sent = codecs_of(qcomm_codecs_registry, CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL)
        self._local_size = dist.get_world_size(intra_pg)
        self._hosts = dist.get_world_size(cross_pg)
        self._place, self._host = dist.get_rank(intra_pg), dist.get_rank(cross_pg)
        self._dims = emb_dim_per_node_per_feature
        self._intra_dist = PooledEmbeddingsReduceScatter(intra_pg, sums)
        self._cross_dist = PooledEmbeddingsAllToAll(cross_pg, dim_sum_per_node, device, None, sent)
        self._variable_intra_dist = VariableBatchPooledEmbeddingsReduceScatter(intra_pg, sums)
        self._variable_cross_dist = VariableBatchPooledEmbeddingsAllToAll(
            cross_pg, emb_dim_per_node_per_feature, device, None, sent
        )
        self._callbacks = callbacks or []

    def forward(self, local_embs: Tensor, sharding_ctx: EmbeddingShardingContext | None = None) -> Awaitable[Tensor]:
        """Start to send (examples of all processes sorted by their place on hosts, columns of this host)."""
        if sharding_ctx is not None and sharding_ctx.variable_batch_per_feature:
            return self._variable(local_embs, sharding_ctx)
        if sharding_ctx is None or not sharding_ctx.batch_size_per_rank:
            summed = self._intra_dist(local_embs).wait()
            awaitable = self._cross_dist(summed)
        else:
            # Of each place on hosts, examples of its process on each host.
            sizes = [sharding_ctx.batch_size_per_rank[place :: self._local_size] for place in range(self._local_size)]
            summed = self._intra_dist(local_embs, [sum(of_place) for of_place in sizes]).wait()
            awaitable = self._cross_dist(summed, sizes[self._place])
        awaitable.callbacks.extend(self._callbacks)
        return awaitable  # type: ignore[no-any-return]

    def _variable(self, local_embs: Tensor, ctx: EmbeddingShardingContext) -> PooledEmbeddingsAwaitable:
        # Processes are sorted by their place on hosts here, too: see `KeyedJaggedTensor.dist_init`.
        by_process, dims = ctx.batch_size_per_rank_per_feature, self._dims[self._host]
        if not by_process:
            by_process = [[] for _ in range(self._local_size * self._hosts)]
        places = [by_process[at * self._hosts : (at + 1) * self._hosts] for at in range(self._local_size)]
        # A place is like a process with the features of all hosts, whose processes come one after another within it.
        joined = [[size for of_process in of_place for size in of_process] for of_place in places]
        summed = self._variable_intra_dist(local_embs, joined, dims * self._hosts).wait()
        return self._variable_cross_dist(  # type: ignore[no-any-return]
            summed, places[self._place], ctx.batch_size_per_feature_pre_a2a
        )


class TwRwPooledEmbeddingSharding(BaseTwRwEmbeddingSharding):
    """Tables whose rows are on the processes of one host, and pooled there in part."""

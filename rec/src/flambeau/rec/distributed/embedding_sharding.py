"""What all ways of spreading tables have in common: groups of tables, buckets of ids, and waiting for features."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata

from flambeau.rec.distributed.dist_data import KJTAllToAllTensorsAwaitable, SplitsAllToAllAwaitable
from flambeau.rec.distributed.embedding_dim_bucketer import EmbDimBucketer, EmbDimBucketerPolicy
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseEmbeddingUpdate,
    BaseGroupedFeatureProcessor,
    EmbeddingComputeKernel,
    FeatureShardingMixIn,
    GroupedEmbeddingConfig,
    KJTList,
    ListOfKJTList,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.fused_params import FUSED_PARAM_IS_SSD_TABLE, FUSED_PARAM_SSD_TABLE_LIST
from flambeau.rec.distributed.types import Awaitable, ParameterSharding, QuantizedCommCodecs
from flambeau.rec.modules.embedding_configs import EmbeddingTableConfig
from flambeau.rec.ops.bucketize import block_bucketize_sparse_features, block_bucketize_sparse_features_inference
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable
from flambeau.rec.types import DataType

__all__ = [
    "CACHE_LOAD_FACTOR_STR",
    "FUSED_PARAM_SSD_TABLE_LIST",
    "USE_ONE_TBE_PER_TABLE",
    "BaseEmbeddingDist",
    "BaseSparseFeaturesDist",
    "BaseSparseFeaturesWriteDist",
    "EmbeddingSharding",
    "EmbeddingShardingContext",
    "EmbeddingShardingInfo",
    "FusedKJTListSplitsAwaitable",
    "KJTListAwaitable",
    "KJTListSplitsAwaitable",
    "KJTSplitsAllToAllMeta",
    "ListOfKJTListAwaitable",
    "ListOfKJTListSplitsAwaitable",
    "bucketize_embeddings_before_all2all_write",
    "bucketize_kjt_before_all2all",
    "bucketize_kjt_inference",
    "group_tables",
]

CACHE_LOAD_FACTOR_STR: str = "cache_load_factor"
USE_ONE_TBE_PER_TABLE: str = "use_one_tbe_per_table"

C = TypeVar("C", bound=Multistreamable)
F = TypeVar("F", bound=Multistreamable)
T = TypeVar("T")
W = TypeVar("W")


# ----- ids by bucket --------------------------------------------------------------------------------------------------


def bucketize_kjt_before_all2all(
    kjt: KeyedJaggedTensor,
    num_buckets: int,
    block_sizes: Tensor,
    total_num_blocks: Tensor | None = None,
    output_permute: bool = False,
    bucketize_pos: bool = False,
    block_bucketize_row_pos: list[Tensor] | None = None,
    keep_original_indices: bool = False,
) -> tuple[KeyedJaggedTensor, Tensor | None]:
    """Sort ids by the process that has their rows.

    Args:
        kjt: sparse features.
        num_buckets: processes.
        block_sizes: (keys,): rows of each process, of the dtype of ids.
        total_num_blocks: (keys,): where a process has several blocks of each table, how many there are.
        output_permute: whether the place of each id is wanted.
        bucketize_pos: whether weights become the place of each id in its bag.
        block_bucketize_row_pos: of each key, (num_buckets + 1,): the first row of each process, where they differ.
        keep_original_indices: whether ids stay as they are, and do not count from the process's first row.

    Returns:
        Features whose keys come once for each bucket, bucket by bucket, and the place of each id.
    """
    variable = kjt.variable_stride_per_key()
    sizes = torch.tensor(kjt.stride_per_key(), dtype=torch.int64, device=kjt.device()) if variable else None
    lengths, ids, weights, positions, places = block_bucketize_sparse_features(
        kjt.lengths().view(-1),
        kjt.values(),
        bucketize_pos,
        output_permute,
        block_sizes.to(kjt.values().dtype),
        num_buckets,
        kjt.weights_or_none(),
        sizes,
        max(kjt.stride_per_key(), default=0) if variable else -1,
        block_bucketize_row_pos,
        keep_original_indices,
        total_num_blocks,
    )
    return (
        KeyedJaggedTensor(
            kjt.keys() * num_buckets,
            ids,
            positions if bucketize_pos else weights,
            lengths=lengths.view(-1),
            stride=None if variable else kjt.stride(),
            stride_per_key_per_rank=kjt.stride_per_key_per_rank() * num_buckets if variable else None,
        ),
        places,
    )


def bucketize_kjt_inference(
    kjt: KeyedJaggedTensor,
    num_buckets: int,
    block_sizes: Tensor,
    total_num_buckets: Tensor | None = None,
    bucketize_pos: bool = False,
    block_bucketize_row_pos: list[Tensor] | None = None,
    is_sequence: bool = False,
    keep_original_indices: bool = False,
) -> tuple[KeyedJaggedTensor, Tensor | None, Tensor | None]:
    """The same for serving; also gives the bucket of each id of a sequence."""
    lengths, ids, weights, positions, places, buckets = block_bucketize_sparse_features_inference(
        kjt.lengths().view(-1),
        kjt.values(),
        bucketize_pos,
        is_sequence,
        block_sizes.to(kjt.values().dtype),
        num_buckets,
        kjt.weights_or_none(),
        None,
        -1,
        block_bucketize_row_pos,
        is_sequence,
        keep_original_indices,
        total_num_buckets,
    )
    made = KeyedJaggedTensor(
        kjt.keys() * num_buckets,
        ids,
        positions if bucketize_pos else weights,
        lengths=lengths.view(-1),
        stride=kjt.stride(),
    )
    return made, places, buckets


def bucketize_embeddings_before_all2all_write(
    kjt: KeyedJaggedTensor,
    num_buckets: int,
    block_sizes: Tensor,
    total_num_blocks: Tensor | None = None,
    output_permute: bool = False,
    bucketize_pos: bool = False,
    block_bucketize_row_pos: list[Tensor] | None = None,
    keep_original_indices: bool = False,
) -> tuple[KeyedJaggedTensor, Tensor | None]:
    """`bucketize_kjt_before_all2all` of ids whose weights are rows, (L, columns), to be written."""
    rows = kjt.weights()
    bare = KeyedJaggedTensor(kjt.keys(), kjt.values(), lengths=kjt.lengths(), stride=kjt.stride())
    sorted_ids, places = bucketize_kjt_before_all2all(
        bare, num_buckets, block_sizes, total_num_blocks, True, bucketize_pos, block_bucketize_row_pos,
        keep_original_indices,
    )  # fmt: skip
    assert places is not None
    sorted_ids._weights = torch.empty_like(rows).index_copy_(0, places.long(), rows)
    return sorted_ids, places if output_permute else None


# ----- groups of tables -----------------------------------------------------------------------------------------------


def _cached_and_prefetched(table: ShardedEmbeddingTable) -> bool:
    options = table.fused_params or {}
    return table.compute_kernel in (
        EmbeddingComputeKernel.FUSED_UVM_CACHING,
        EmbeddingComputeKernel.KEY_VALUE,
    ) and bool(options.get("prefetch_pipeline"))


def _grouping_options(table: ShardedEmbeddingTable) -> dict[str, Any]:
    """Options that tables of one kernel share, which the share of rows in a cache is not one of."""
    options = dict(table.fused_params or {})
    options.pop(CACHE_LOAD_FACTOR_STR, None)
    if options.get(FUSED_PARAM_IS_SSD_TABLE):
        options[FUSED_PARAM_SSD_TABLE_LIST] = [table.name]
    if options.get(USE_ONE_TBE_PER_TABLE):
        options["__one_table"] = table.name
    return options


def _kernel_kind(kernel: EmbeddingComputeKernel) -> EmbeddingComputeKernel:
    """Tables of these kernels are looked up together, wherever each of them lies."""
    managed = {
        EmbeddingComputeKernel.FUSED_UVM: EmbeddingComputeKernel.FUSED,
        EmbeddingComputeKernel.FUSED_UVM_CACHING: EmbeddingComputeKernel.FUSED,
        EmbeddingComputeKernel.QUANT_UVM: EmbeddingComputeKernel.QUANT,
        EmbeddingComputeKernel.QUANT_UVM_CACHING: EmbeddingComputeKernel.QUANT,
    }
    return managed.get(kernel, kernel)


def _common_data_type(table: ShardedEmbeddingTable) -> DataType | None:
    """The elements that all tables of its kernel have; those of quantized ones may differ."""
    return None if _kernel_kind(table.compute_kernel) is EmbeddingComputeKernel.QUANT else table.data_type


def group_tables(tables_per_rank: list[list[ShardedEmbeddingTable]]) -> list[list[GroupedEmbeddingConfig]]:
    """Of each process, the tables that one kernel looks up together: those that are alike but for their size.

    Args:
        tables_per_rank: of each process, its tables.
    """
    return [_grouped(tables) for tables in tables_per_rank]


def _grouped(tables: list[ShardedEmbeddingTable]) -> list[GroupedEmbeddingConfig]:
    cached = [table for table in tables if _cached_and_prefetched(table)]
    policy = EmbDimBucketerPolicy.ALL_BUCKETS if cached else EmbDimBucketerPolicy.SINGLE_BUCKET
    bucketer = EmbDimBucketer(tables, policy)
    groups: dict[Any, list[ShardedEmbeddingTable]] = {}
    for table in tables:
        key = (
            _common_data_type(table),
            table.pooling,
            # Bags of parts of a table are summed; those averaged later stay apart, as upstream orders results.
            getattr(table, "averaged_later", False),
            table.is_weighted,
            table.has_feature_processor,
            _kernel_kind(table.compute_kernel),
            table.enable_embedding_update,
            bucketer.get_bucket(table.local_cols, table.data_type),
            _cached_and_prefetched(table),
            repr(sorted(_grouping_options(table).items(), key=lambda item: item[0])),
        )
        groups.setdefault(key, []).append(table)
    return [_group(together) for together in groups.values()]


def _group(tables: list[ShardedEmbeddingTable]) -> GroupedEmbeddingConfig:
    first = tables[0]
    options = _grouping_options(first)
    options.pop("__one_table", None)
    factors = [(table.fused_params or {}).get(CACHE_LOAD_FACTOR_STR) for table in tables]
    given = [(factor, table.local_rows) for factor, table in zip(factors, tables, strict=True) if factor is not None]
    if given:
        # Tables share one cache: as many rows of it as each would have had alone.
        rows = sum(count for _, count in given)
        options[CACHE_LOAD_FACTOR_STR] = sum(factor * count for factor, count in given) / max(rows, 1)
    return GroupedEmbeddingConfig(
        data_type=_common_data_type(first),  # type: ignore[arg-type]
        pooling=first.pooling,
        is_weighted=first.is_weighted,
        has_feature_processor=first.has_feature_processor,
        compute_kernel=_kernel_kind(first.compute_kernel),
        embedding_tables=tables,
        fused_params=options,
        enable_embedding_update=first.enable_embedding_update,
    )


# ----- waiting for sparse features ------------------------------------------------------------------------------------


class KJTListAwaitable(Awaitable[KJTList]):
    """The features of several shardings, on their way.

    Args:
        awaitables: of each.
        ctx: of the batch, where what later stages need is noted.
    """

    def __init__(self, awaitables: list[Awaitable[KeyedJaggedTensor]], ctx: Any) -> None:
        super().__init__()
        self.awaitables, self.ctx = awaitables, ctx

    def _wait_impl(self) -> KJTList:
        features = [one.wait() for one in self.awaitables]
        _note_arrival(features, self.ctx)
        return KJTList(features)


def _note_departure(awaitables: Sequence[Awaitable[Any]], ctx: Any) -> None:
    """Note how many examples and ids come from each process, which results are sent back by."""
    for awaitable, sharding_ctx in zip(awaitables, getattr(ctx, "sharding_contexts", []), strict=True):
        if not isinstance(awaitable, KJTAllToAllTensorsAwaitable):
            continue
        if hasattr(sharding_ctx, "input_splits"):
            at = awaitable._labels.index("values")
            sharding_ctx.input_splits = awaitable._input_splits[at]
            sharding_ctx.output_splits = awaitable._output_splits[at]
            sharding_ctx.sparse_features_recat = awaitable._recat
        if hasattr(sharding_ctx, "batch_size_per_rank") and awaitable._stride_per_rank is not None:
            sharding_ctx.batch_size_per_rank = awaitable._stride_per_rank


def _note_arrival(features: Sequence[KeyedJaggedTensor], ctx: Any) -> None:
    for kjt, sharding_ctx in zip(features, getattr(ctx, "sharding_contexts", []), strict=True):
        if hasattr(sharding_ctx, "batch_size_per_rank_per_feature") and kjt.variable_stride_per_key():
            by_feature = kjt.stride_per_key_per_rank()
            sharding_ctx.batch_size_per_rank_per_feature = [list(sizes) for sizes in zip(*by_feature, strict=True)]
        if hasattr(sharding_ctx, "lengths_after_input_dist"):
            lengths = kjt.lengths()
            variable = kjt.variable_stride_per_key()
            sharding_ctx.lengths_after_input_dist = lengths if variable else lengths.view(-1, kjt.stride())


class KJTListSplitsAwaitable(Awaitable[Awaitable[KJTList]]):
    """How many features of several shardings there will be; the features when it is waited for.

    Args:
        awaitables: of each.
        ctx: of the batch, where what later stages need is noted.
        module_fqn: path of the module, for profiles.
        sharding_types: of the shardings, for profiles.
    """

    def __init__(
        self,
        awaitables: list[Awaitable[Awaitable[KeyedJaggedTensor]]],
        ctx: Any,
        module_fqn: str | None = None,
        sharding_types: list[str] | None = None,
    ) -> None:
        super().__init__()
        self.awaitables, self.ctx = awaitables, ctx
        self._module_fqn, self._sharding_types = module_fqn, sharding_types

    def _wait_impl(self) -> KJTListAwaitable:
        started = [one.wait() for one in self.awaitables]
        _note_departure(started, self.ctx)
        return KJTListAwaitable(started, self.ctx)


@dataclass
class KJTSplitsAllToAllMeta:
    """Features whose sizes are to be sent together with those of other modules; see `KJTAllToAll`."""

    pg: dist.ProcessGroup
    _input: KeyedJaggedTensor
    splits: list[int]
    splits_tensors: list[Tensor]
    input_splits: list[list[int]]
    input_tensors: list[Tensor]
    labels: list[str]
    keys: list[str]
    device: torch.device
    stagger: int


class FusedKJTListSplitsAwaitable(Awaitable[list[KJTListAwaitable]]):
    """How many features of several modules there will be, by one exchange for all of them.

    Args:
        requests: of each module; what their shardings wait for may be a `KJTSplitsAllToAllMeta`.
        contexts: of each module.
        pg: who takes part.
    """

    def __init__(
        self, requests: list[KJTListSplitsAwaitable], contexts: list[Any], pg: dist.ProcessGroup | None
    ) -> None:
        super().__init__()
        self._contexts = contexts
        self._awaitables: list[Any] = [one for request in requests for one in request.awaitables]
        self._counts = [len(request.awaitables) for request in requests]
        sizes = [
            tensor
            for one in self._awaitables
            if isinstance(one, KJTSplitsAllToAllMeta)
            for tensor in one.splits_tensors
        ]
        self._sizes = SplitsAllToAllAwaitable(sizes, pg) if sizes and pg is not None else None

    def _wait_impl(self) -> list[KJTListAwaitable]:
        found = iter(self._sizes.wait()) if self._sizes is not None else iter([])
        started: list[Any] = []
        for one in self._awaitables:
            if not isinstance(one, KJTSplitsAllToAllMeta):
                started.append(one.wait())
                continue
            received = [next(found) for _ in one.splits_tensors]
            stride_per_rank = None if one._input.variable_stride_per_key() else received.pop()
            started.append(
                KJTAllToAllTensorsAwaitable(
                    one.pg,
                    one._input,
                    one.splits,
                    one.input_splits,
                    received,
                    one.input_tensors,
                    one.labels,
                    one.keys,
                    one.device,
                    one.stagger,
                    stride_per_rank,
                )
            )
        lists, begin = [], 0
        for count, ctx in zip(self._counts, self._contexts, strict=True):
            mine = started[begin : begin + count]
            _note_departure(mine, ctx)
            lists.append(KJTListAwaitable(mine, ctx))
            begin += count
        return lists


class ListOfKJTListAwaitable(Awaitable[ListOfKJTList]):
    """The features of several shardings and devices.

    Args:
        awaitables: of each sharding.
    """

    def __init__(self, awaitables: list[Awaitable[KJTList]]) -> None:
        super().__init__()
        self.awaitables = awaitables

    def _wait_impl(self) -> ListOfKJTList:
        return ListOfKJTList([one.wait() for one in self.awaitables])


class ListOfKJTListSplitsAwaitable(Awaitable[Awaitable[ListOfKJTList]]):
    """How many features of several shardings and devices there will be; the features when it is waited for.

    Args:
        awaitables: of each sharding.
    """

    def __init__(self, awaitables: list[Awaitable[Awaitable[KJTList]]]) -> None:
        super().__init__()
        self.awaitables = awaitables

    def _wait_impl(self) -> ListOfKJTListAwaitable:
        return ListOfKJTListAwaitable([one.wait() for one in self.awaitables])


# ----- what a sharding is made of -------------------------------------------------------------------------------------


@dataclass
class EmbeddingShardingContext(Multistreamable):
    """What the stages of one batch share.

    Args:
        batch_size_per_rank: examples of each process.
        batch_size_per_rank_per_feature: of each process, examples of each feature that is looked up here.
        batch_size_per_feature_pre_a2a: of each feature that is sent, examples of this process.
        variable_batch_per_feature: whether features have batches of their own.
    """

    batch_size_per_rank: list[int] = field(default_factory=list)
    batch_size_per_rank_per_feature: list[list[int]] = field(default_factory=list)
    batch_size_per_feature_pre_a2a: list[int] = field(default_factory=list)
    variable_batch_per_feature: bool = False

    def record_stream(self, stream: torch.Stream) -> None:
        """There are only numbers to keep."""


class BaseSparseFeaturesDist(abc.ABC, nn.Module, Generic[F]):
    """Sends sparse features to the processes that look them up."""

    @abc.abstractmethod
    def forward(self, sparse_features: KeyedJaggedTensor) -> Awaitable[Awaitable[F]] | F:
        """Start to send."""


class BaseSparseFeaturesWriteDist(abc.ABC, nn.Module, Generic[F]):
    """Sends rows to the processes that hold them."""

    @abc.abstractmethod
    def forward(self, embeddings: F) -> Awaitable[Awaitable[F]] | F:
        """Start to send."""


class BaseEmbeddingDist(abc.ABC, nn.Module, Generic[C, T, W]):
    """Sends embeddings back to the processes that asked for them."""

    @abc.abstractmethod
    def forward(self, local_embs: T, sharding_ctx: C | None = None) -> Awaitable[W] | W:
        """Start to send."""


class EmbeddingSharding(abc.ABC, FeatureShardingMixIn, Generic[C, F, T, W]):
    """Tables that are spread in one way.

    Args:
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(self, qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None) -> None:
        self._qcomm_codecs_registry = qcomm_codecs_registry

    @property
    def qcomm_codecs_registry(self) -> dict[str, QuantizedCommCodecs] | None:
        """Codecs of what is exchanged, by the name of a `CommOp`."""
        return self._qcomm_codecs_registry

    @abc.abstractmethod
    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[F]:
        """What sends features."""

    def create_write_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesWriteDist[F]:
        """What sends rows."""
        raise NotImplementedError(f"{type(self).__name__} does not write rows; row-wise sequences do.")

    @abc.abstractmethod
    def create_output_dist(self, device: torch.device | None = None) -> BaseEmbeddingDist[C, T, W]:
        """What sends embeddings back."""

    @abc.abstractmethod
    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[F, T]:
        """What looks up."""

    def create_update(self, grouped_embeddings_lookup: BaseEmbeddingLookup[F, T]) -> BaseEmbeddingUpdate[F]:
        """What overwrites rows."""
        raise NotImplementedError(f"{type(self).__name__} does not write rows; row-wise sequences do.")

    @abc.abstractmethod
    def embedding_dims(self) -> list[int]:
        """Of each of `embedding_names`, its columns."""

    @abc.abstractmethod
    def embedding_shard_metadata(self) -> list[ShardMetadata | None]:
        """Of each feature on each process, the part of its table."""

    @abc.abstractmethod
    def embedding_names(self) -> list[str]:
        """What results are called, in the order in which they come."""

    @abc.abstractmethod
    def embedding_names_per_rank(self) -> list[list[str]]:
        """What the results of each process are called."""

    def embedding_tables(self) -> list[ShardedEmbeddingTable]:
        """The tables on this process."""
        raise NotImplementedError(f"{type(self).__name__} does not list its tables.")

    def uncombined_embedding_dims(self) -> list[int]:
        """Columns of each part of a result, before parts are joined."""
        return self.embedding_dims()

    def uncombined_embedding_names(self) -> list[str]:
        """What each part of a result is called, before parts are joined."""
        return self.embedding_names()


@dataclass
class EmbeddingShardingInfo:
    """A table, and where it goes.

    Args:
        embedding_config: the table.
        param_sharding: where it goes.
        param: its weight.
        fused_params: options of its kernel.
    """

    embedding_config: EmbeddingTableConfig
    param_sharding: ParameterSharding
    param: Tensor
    fused_params: dict[str, Any] | None = None

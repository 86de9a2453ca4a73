"""What is said about a table of embeddings: its size, who reads it, how its rows begin, are pooled and leave."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, unique
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import PoolingMode
from flambeau.rec.types import DataType

__all__ = [
    "DATA_TYPE_NUM_BITS",
    "BaseEmbeddingConfig",
    "CountBasedEvictionPolicy",
    "CountTimestampMixedEvictionPolicy",
    "DataType",
    "EmbeddingBagConfig",
    "EmbeddingConfig",
    "EmbeddingTableConfig",
    "FeatureL2NormBasedEvictionPolicy",
    "FeatureScoreBasedEvictionPolicy",
    "FeatureScoreMapping",
    "NoEvictionPolicy",
    "PoolingType",
    "QuantConfig",
    "ShardingType",
    "TimestampBasedEvictionPolicy",
    "VirtualTableEvictionPolicy",
    "data_type_to_dtype",
    "data_type_to_sparse_type",
    "dtype_to_data_type",
    "pooling_type_to_pooling_mode",
    "pooling_type_to_str",
]


@unique
class PoolingType(Enum):
    """What becomes of the rows of a bag."""

    SUM = "SUM"
    MEAN = "MEAN"
    NONE = "NONE"


@unique
class ShardingType(Enum):
    """How a table is divided among processes."""

    DATA_PARALLEL = "data_parallel"
    TABLE_WISE = "table_wise"
    COLUMN_WISE = "column_wise"
    ROW_WISE = "row_wise"
    TABLE_ROW_WISE = "table_row_wise"
    TABLE_COLUMN_WISE = "table_column_wise"


DATA_TYPE_NUM_BITS: dict[DataType, int] = {
    DataType.FP32: 32,
    DataType.FP16: 16,
    DataType.BF16: 16,
    DataType.INT8: 8,
    DataType.UINT8: 8,
    DataType.INT4: 4,
    DataType.INT2: 2,
    DataType.NFP8: 8,
}
"""Bits of an element."""

_DTYPES = {
    DataType.FP32: torch.float32,
    DataType.FP16: torch.float16,
    DataType.BF16: torch.bfloat16,
    DataType.INT64: torch.int64,
    DataType.INT32: torch.int32,
    DataType.INT8: torch.int8,
    DataType.UINT8: torch.uint8,
    DataType.INT4: torch.quint4x2,
    DataType.INT2: torch.quint2x4,
    DataType.NFP8: torch.float8_e4m3fn,
}
_DATA_TYPES = {
    torch.float32: DataType.FP32,
    torch.float16: DataType.FP16,
    torch.bfloat16: DataType.BF16,
    torch.int64: DataType.INT64,
    torch.int32: DataType.INT32,
    torch.int8: DataType.INT8,
    torch.qint8: DataType.INT8,
    torch.uint8: DataType.UINT8,
    torch.quint8: DataType.UINT8,
    torch.quint4x2: DataType.INT4,
    torch.quint2x4: DataType.INT2,
    torch.float8_e4m3fn: DataType.NFP8,
}
_SPARSE_TYPES = {
    DataType.FP32: SparseType.FP32,
    DataType.FP16: SparseType.FP16,
    DataType.BF16: SparseType.BF16,
    DataType.INT8: SparseType.INT8,
    DataType.UINT8: SparseType.INT8,
    DataType.INT4: SparseType.INT4,
    DataType.INT2: SparseType.INT2,
    DataType.NFP8: SparseType.NFP8,
}


def dtype_to_data_type(dtype: torch.dtype) -> DataType:
    """The element type that tensors of a dtype hold.

    Raises:
        ValueError: none does.
    """
    if dtype not in _DATA_TYPES:
        raise ValueError(f"no DataType is held in tensors of {dtype}; expected one of {list(_DATA_TYPES)}.")
    return _DATA_TYPES[dtype]


def data_type_to_dtype(data_type: DataType) -> torch.dtype:
    """The dtype of tensors that hold an element type.

    Raises:
        ValueError: it is none.
    """
    if data_type not in _DTYPES:
        raise ValueError(f"data_type is {data_type!r}, expected one of {[str(one) for one in _DTYPES]}.")
    return _DTYPES[data_type]


def data_type_to_sparse_type(data_type: DataType) -> SparseType:
    """The element type under FBGEMM's name.

    Raises:
        ValueError: tables have no elements of that type.
    """
    if data_type not in _SPARSE_TYPES:
        raise ValueError(f"data_type is {data_type!r}, expected one of {[str(one) for one in _SPARSE_TYPES]}.")
    return _SPARSE_TYPES[data_type]


def pooling_type_to_pooling_mode(pooling_type: PoolingType, sharding_type: ShardingType | None = None) -> PoolingMode:
    """The way of pooling under FBGEMM's name.

    Args:
        pooling_type: what becomes of the rows of a bag.
        sharding_type: how the table is divided. Where its rows are, a process sees but a part of each bag: means are
            then made of sums afterwards.
    """
    if pooling_type == PoolingType.SUM:
        return PoolingMode.SUM
    if pooling_type == PoolingType.MEAN:
        by_rows = sharding_type is not None and sharding_type.value in ("row_wise", "table_row_wise", "grid_shard")
        return PoolingMode.SUM if by_rows else PoolingMode.MEAN
    if pooling_type == PoolingType.NONE:
        return PoolingMode.NONE
    raise ValueError(f"pooling_type is {pooling_type!r}, expected a PoolingType.")


def pooling_type_to_str(pooling_type: PoolingType) -> str:
    """The way of pooling under torch's name, as `nn.EmbeddingBag` takes it.

    Raises:
        ValueError: torch has no name for it.
    """
    if pooling_type not in (PoolingType.SUM, PoolingType.MEAN):
        raise ValueError(f"pooling_type is {pooling_type!r}, expected PoolingType.SUM or PoolingType.MEAN.")
    return "sum" if pooling_type == PoolingType.SUM else "mean"


class QuantConfig(NamedTuple):
    """How a module of embeddings is quantized.

    Args:
        activation: observes the result.
        weight: observes the tables; its dtype is theirs.
        per_table_weight_dtype: dtypes of single tables by name.
    """

    activation: PlaceholderObserver
    weight: PlaceholderObserver
    per_table_weight_dtype: dict[str, torch.dtype] | None = None


_HEADER_BYTES = 16  # of a row that lives in a store of keys and values: its id, and 8 bytes for the policy


@dataclass
class VirtualTableEvictionPolicy:
    """What decides which rows of a virtual table leave when there is no room.

    A virtual table has no place for every id; its rows come with a header that says which id they are of, and what
    the policy needs to know.

    Args:
        meta_header_len: elements that the header takes in front of a row.
        embedding_dim: columns of the table.
        initialized: whether both were found out.
    """

    meta_header_len: int = 0
    embedding_dim: int = 0
    initialized: bool = False

    def init_metaheader_config(self, data_type: DataType, embedding_dim: int) -> None:
        """Find out how many elements the header takes.

        Args:
            data_type: of the table.
            embedding_dim: columns of the table.
        """
        if not self.initialized:
            self.meta_header_len = _HEADER_BYTES // data_type_to_dtype(data_type).itemsize
            self.embedding_dim = embedding_dim
            self.initialized = True

    def get_meta_header_len(self) -> int:
        """Elements of the header; 0 as long as `init_metaheader_config` was not called."""
        return self.meta_header_len

    def get_embedding_dim(self) -> int:
        """Columns of the table; 0 as long as `init_metaheader_config` was not called."""
        return self.embedding_dim


@dataclass
class NoEvictionPolicy(VirtualTableEvictionPolicy):
    """No row leaves by itself."""


@dataclass
class CountBasedEvictionPolicy(VirtualTableEvictionPolicy):
    """Rows leave that were looked up rarely.

    Args:
        training_id_eviction_trigger_count: rows of the table from which eviction starts in training.
        eviction_threshold: counts below it leave.
        decay_rate: what counts are multiplied by when rows leave.
        inference_eviction_threshold: the threshold of tables that are published; the same where not given.
    """

    training_id_eviction_trigger_count: int = 0
    eviction_threshold: int = 15
    decay_rate: float = 0.99
    inference_eviction_threshold: int | None = None

    def __post_init__(self) -> None:
        if self.inference_eviction_threshold is None:
            self.inference_eviction_threshold = self.eviction_threshold


@dataclass
class TimestampBasedEvictionPolicy(VirtualTableEvictionPolicy):
    """Rows leave that were not looked up for long.

    Args:
        training_id_eviction_trigger_count: rows of the table from which eviction starts in training.
        eviction_ttl_mins: minutes after which a row leaves.
        inference_eviction_ttl_mins: the same for tables that are published.
        max_inference_id_num_per_rank: rows that each process publishes at most; 0 for no limit.
    """

    training_id_eviction_trigger_count: int = 0
    eviction_ttl_mins: int = 24 * 60
    inference_eviction_ttl_mins: int | None = None
    max_inference_id_num_per_rank: int = 0

    def __post_init__(self) -> None:
        if self.inference_eviction_ttl_mins is None:
            self.inference_eviction_ttl_mins = self.eviction_ttl_mins


@dataclass
class FeatureScoreMapping:
    """The scores of features.

    Args:
        feature_score_mapping: score of each feature.
        eviction_enabled: whether rows leave by them.
    """

    feature_score_mapping: dict[str, float] = field(default_factory=dict)
    eviction_enabled: bool = False


@dataclass
class FeatureScoreBasedEvictionPolicy(VirtualTableEvictionPolicy):
    """Rows leave whose features have low scores.

    Args:
        decay_rate: what scores are multiplied by when rows leave.
        training_id_eviction_trigger_count: rows of the table from which eviction starts in training.
        training_id_keep_count: rows that stay.
        eviction_ttl_mins: minutes after which a row leaves whatever its score; 0 for never.
        max_inference_id_num_per_rank: rows that each process publishes at most; 0 for no limit.
        inference_eviction_feature_score_threshold: scores below it are not published.
        inference_eviction_ttl_mins: minutes after which a row is not published.
        feature_score_mapping: score of each feature.
        feature_score_default_value: score of features that are not named there.
        enable_auto_feature_score_collection: whether scores are collected from what is looked up.
        enable_eviction: whether rows leave at all.
    """

    decay_rate: float = 0.99
    training_id_eviction_trigger_count: int = 0
    training_id_keep_count: int = 0
    eviction_ttl_mins: int = 0
    max_inference_id_num_per_rank: int = 0
    inference_eviction_feature_score_threshold: float | None = None
    inference_eviction_ttl_mins: int | None = None
    feature_score_mapping: dict[str, float] | None = None
    feature_score_default_value: float | None = None
    enable_auto_feature_score_collection: bool = False
    enable_eviction: bool = True

    def __post_init__(self) -> None:
        if self.inference_eviction_feature_score_threshold is None:
            self.inference_eviction_feature_score_threshold = 0
        if self.inference_eviction_ttl_mins is None:
            self.inference_eviction_ttl_mins = self.eviction_ttl_mins


@dataclass
class CountTimestampMixedEvictionPolicy(VirtualTableEvictionPolicy):
    """Rows leave that were looked up rarely, or not for long; see the policies for either."""

    training_id_eviction_trigger_count: int = 0
    eviction_threshold: int = 15
    decay_rate: float = 0.99
    eviction_ttl_mins: int = 24 * 60
    inference_eviction_threshold: int | None = None
    inference_eviction_ttl_mins: int | None = None

    def __post_init__(self) -> None:
        if self.inference_eviction_threshold is None:
            self.inference_eviction_threshold = self.eviction_threshold
        if self.inference_eviction_ttl_mins is None:
            self.inference_eviction_ttl_mins = self.eviction_ttl_mins


@dataclass
class FeatureL2NormBasedEvictionPolicy(VirtualTableEvictionPolicy):
    """Rows leave that are short.

    Args:
        training_id_eviction_trigger_count: rows of the table from which eviction starts in training.
        eviction_threshold: Euclidean norms below it leave.
        inference_eviction_threshold: the same for tables that are published.
    """

    training_id_eviction_trigger_count: int = 0
    eviction_threshold: float = 0.0
    inference_eviction_threshold: float | None = None

    def __post_init__(self) -> None:
        if self.inference_eviction_threshold is None:
            self.inference_eviction_threshold = self.eviction_threshold


@dataclass
class BaseEmbeddingConfig:
    """A table of embeddings.

    Args:
        num_embeddings: rows.
        embedding_dim: columns.
        name: of the table, unique within a collection.
        data_type: of its elements.
        feature_names: which features of a batch are looked up in it.
        weight_init_max: rows begin as uniform random numbers below it; sqrt(1 / num_embeddings) where not given.
        weight_init_min: and above it; the same, negative, where not given.
        num_embeddings_post_pruning: rows that are left when the table is pruned for inference.
        init_fn: fills the table instead.
        need_pos: whether the places of ids within their bags are wanted, too.
        input_dim: how many different ids there are, where they are mapped to rows.
        total_num_buckets: parts that rows are divided into, for tables whose ids are mapped to rows by hashing.
        use_virtual_table: whether rows live in a store of keys and values.
        virtual_table_eviction_policy: which rows leave that store.
        enable_embedding_update: whether rows may be written from outside during training.
        stash_weights: whether rows are kept on the host while they are not needed.
    """

    num_embeddings: int
    embedding_dim: int
    name: str = ""
    data_type: DataType = DataType.FP32
    feature_names: list[str] = field(default_factory=list)
    weight_init_max: float | None = None
    weight_init_min: float | None = None
    num_embeddings_post_pruning: int | None = None
    init_fn: Callable[[Tensor], Tensor | None] | None = None
    need_pos: bool = False
    input_dim: int | None = None
    total_num_buckets: int | None = None
    use_virtual_table: bool = False
    virtual_table_eviction_policy: VirtualTableEvictionPolicy | None = None
    enable_embedding_update: bool = False
    stash_weights: bool = False

    def __post_init__(self) -> None:
        if self.init_fn is None:
            self.init_fn = partial(torch.nn.init.uniform_, a=self.get_weight_init_min(), b=self.get_weight_init_max())

    def get_weight_init_max(self) -> float:
        """What rows begin below."""
        return math.sqrt(1 / self.num_embeddings) if self.weight_init_max is None else self.weight_init_max

    def get_weight_init_min(self) -> float:
        """What rows begin above."""
        return -math.sqrt(1 / self.num_embeddings) if self.weight_init_min is None else self.weight_init_min

    def num_features(self) -> int:
        """How many features are looked up in it."""
        return len(self.feature_names)


@dataclass
class EmbeddingTableConfig(BaseEmbeddingConfig):
    """A table as sharding sees it; see `BaseEmbeddingConfig`.

    Args:
        pooling: what becomes of the rows of a bag.
        is_weighted: whether bags have weights.
        has_feature_processor: whether those weights come from a feature processor.
        embedding_names: of the results, one for each feature.
    """

    pooling: PoolingType = PoolingType.SUM
    is_weighted: bool = False
    has_feature_processor: bool = False
    embedding_names: list[str] = field(default_factory=list)


@dataclass
class EmbeddingBagConfig(BaseEmbeddingConfig):
    """A table of an `EmbeddingBagCollection`; see `BaseEmbeddingConfig`.

    Args:
        pooling: what becomes of the rows of a bag.
    """

    pooling: PoolingType = PoolingType.SUM


@dataclass
class EmbeddingConfig(BaseEmbeddingConfig):
    """A table of an `EmbeddingCollection`; see `BaseEmbeddingConfig`."""

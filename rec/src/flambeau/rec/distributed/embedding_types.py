"""Sharded tables of embeddings, groups of them that one kernel looks up, and sharders of modules that hold them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata

from flambeau.rec.distributed.types import (
    ModuleSharder,
    QuantizedCommCodecs,
    ShardedModule,
    ShardingType,
    StorageUsageType,
    compute_storage_usage,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation
from flambeau.rec.modules.embedding_configs import EmbeddingTableConfig, PoolingType
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable
from flambeau.rec.types import DataType

if TYPE_CHECKING:
    from typing import Self

    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.placement_types import Placement

__all__ = [
    "BaseEmbeddingLookup",
    "BaseEmbeddingSharder",
    "BaseEmbeddingUpdate",
    "BaseGroupedFeatureProcessor",
    "BaseQuantEmbeddingSharder",
    "DTensorMetadata",
    "EmbeddingAttributes",
    "EmbeddingComputeKernel",
    "FeatureShardingMixIn",
    "GroupedEmbeddingConfig",
    "InputDistOutputs",
    "KJTList",
    "ListOfKJTList",
    "ModuleShardingMixIn",
    "OptimType",
    "ShardedConfig",
    "ShardedEmbeddingModule",
    "ShardedEmbeddingTable",
    "ShardedMetaConfig",
    "compute_kernel_to_embedding_location",
]

F = TypeVar("F", bound=Multistreamable)
T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)
CompIn = TypeVar("CompIn", KeyedJaggedTensor, "ListOfKJTList", "KJTList")
DistOut = TypeVar("DistOut")
Out = TypeVar("Out")
ShrdCtx = TypeVar("ShrdCtx", bound=Multistreamable)


@unique
class OptimType(Enum):
    """Optimizers by the names that configurations use."""

    SGD = "SGD"
    LARS_SGD = "LARS_SGD"
    LAMB = "LAMB"
    PARTIAL_ROWWISE_LAMB = "PARTIAL_ROWWISE_LAMB"
    ADAM = "ADAM"
    PARTIAL_ROWWISE_ADAM = "PARTIAL_ROWWISE_ADAM"
    ADAGRAD = "ADAGRAD"
    ROWWISE_ADAGRAD = "ROWWISE_ADAGRAD"
    SHAMPOO = "SHAMPOO"
    SHAMPOO_V2 = "SHAMPOO_V2"
    LION = "LION"
    ADAMW = "ADAMW"
    SHAMPOO_V2_MRS = "SHAMPOO_V2_MRS"
    SHAMPOO_MRS = "SHAMPOO_MRS"
    MUON = "MUON"
    SHAMPOO_V3_MRS = "SHAMPOO_V3_MRS"


@unique
class EmbeddingComputeKernel(Enum):
    """What looks rows up and trains them: where the table lies, and whether an optimizer runs in the backward pass."""

    DENSE = "dense"
    FUSED = "fused"
    FUSED_UVM = "fused_uvm"
    FUSED_UVM_CACHING = "fused_uvm_caching"
    QUANT = "quant"
    QUANT_UVM = "quant_uvm"
    QUANT_UVM_CACHING = "quant_uvm_caching"
    KEY_VALUE = "key_value"
    CUSTOMIZED_KERNEL = "customized_kernel"
    SSD_VIRTUAL_TABLE = "ssd_virtual_table"
    DRAM_VIRTUAL_TABLE = "dram_virtual_table"
    DRAM_SSD_VIRTUAL_TABLE = "dram_ssd_virtual_table"
    FUSED_TRITON = "fused_triton"


_LOCATIONS = {
    EmbeddingComputeKernel.DENSE: EmbeddingLocation.DEVICE,
    EmbeddingComputeKernel.FUSED: EmbeddingLocation.DEVICE,
    EmbeddingComputeKernel.FUSED_TRITON: EmbeddingLocation.DEVICE,
    EmbeddingComputeKernel.QUANT: EmbeddingLocation.DEVICE,
    EmbeddingComputeKernel.KEY_VALUE: EmbeddingLocation.DEVICE,
    EmbeddingComputeKernel.FUSED_UVM: EmbeddingLocation.MANAGED,
    EmbeddingComputeKernel.QUANT_UVM: EmbeddingLocation.MANAGED,
    EmbeddingComputeKernel.FUSED_UVM_CACHING: EmbeddingLocation.MANAGED_CACHING,
    EmbeddingComputeKernel.QUANT_UVM_CACHING: EmbeddingLocation.MANAGED_CACHING,
}
_VIRTUAL = (
    EmbeddingComputeKernel.SSD_VIRTUAL_TABLE,
    EmbeddingComputeKernel.DRAM_VIRTUAL_TABLE,
    EmbeddingComputeKernel.DRAM_SSD_VIRTUAL_TABLE,
)


def compute_kernel_to_embedding_location(compute_kernel: EmbeddingComputeKernel) -> EmbeddingLocation:
    """Where the tables of a kernel lie.

    Raises:
        ValueError: the kernel has no tables of its own.
    """
    if compute_kernel in _LOCATIONS:
        return _LOCATIONS[compute_kernel]
    raise OptionError(f"the kernel {compute_kernel.value} does not say where its tables lie.")


class KJTList(Multistreamable):
    """Sparse features for several kernels.

    Args:
        features: of each.
    """

    def __init__(self, features: list[KeyedJaggedTensor]) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def __setitem__(self, key: int, item: KeyedJaggedTensor) -> None:
        self.features[key] = item

    def __getitem__(self, key: int) -> KeyedJaggedTensor:
        return self.features[key]

    def __iter__(self) -> Iterator[KeyedJaggedTensor]:
        return iter(self.features)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for features in self.features:
            features.record_stream(stream)


class ListOfKJTList(Multistreamable):
    """Sparse features for several kernels on several devices.

    Args:
        features: of each kernel.
    """

    def __init__(self, features: list[KJTList]) -> None:
        self.features_list = features

    def __len__(self) -> int:
        return len(self.features_list)

    def __setitem__(self, key: int, item: KJTList) -> None:
        self.features_list[key] = item

    def __getitem__(self, key: int) -> KJTList:
        return self.features_list[key]

    def __iter__(self) -> Iterator[KJTList]:
        return iter(self.features_list)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for features in self.features_list:
            features.record_stream(stream)


@dataclass
class InputDistOutputs(Multistreamable):
    """Sparse features on the devices that have the tables for them.

    Args:
        features: of each device.
        unbucketize_permute_tensor: place of each id that was sent, for rows to come back in order.
        bucket_mapping_tensor: device of each id that was sent.
        bucketized_length: ids in each bag and bucket.
    """

    features: KJTList
    unbucketize_permute_tensor: Tensor | None = None
    bucket_mapping_tensor: Tensor | None = None
    bucketized_length: Tensor | None = None

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for features in self.features:
            features.record_stream(stream)
        for tensor in (self.unbucketize_permute_tensor, self.bucket_mapping_tensor, self.bucketized_length):
            if tensor is not None:
                tensor.record_stream(stream)


@dataclass
class ShardedConfig:
    """Rows and columns of a table that one process has."""

    local_rows: int = 0
    local_cols: int = 0


@dataclass
class DTensorMetadata:
    """How the shards of a table make up a DTensor: over which processes, in which way, of which size and strides."""

    mesh: DeviceMesh | None = None
    placements: tuple[Placement, ...] | None = None
    size: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None


@dataclass
class ShardedMetaConfig(ShardedConfig):
    """The part of a table that one process has, and the whole that it is a part of."""

    local_metadata: ShardMetadata | None = None
    global_metadata: ShardedTensorMetadata | None = None
    dtensor_metadata: DTensorMetadata | None = None


@dataclass
class EmbeddingAttributes:
    """What looks a table up."""

    compute_kernel: EmbeddingComputeKernel = EmbeddingComputeKernel.DENSE


@dataclass
class ShardedEmbeddingTable(ShardedMetaConfig, EmbeddingAttributes, EmbeddingTableConfig):
    """A table of which one process has a part.

    Args:
        fused_params: options of the kernel that looks it up.
    """

    fused_params: dict[str, Any] | None = None


@dataclass
class GroupedEmbeddingConfig:
    """Tables, or parts of tables, that one kernel looks up.

    Args:
        data_type: of all of them.
        pooling: of all of them.
        is_weighted: whether ids have weights.
        has_feature_processor: whether the weights are computed from positions.
        compute_kernel: which kernel.
        embedding_tables: they.
        fused_params: options of the kernel.
        enable_embedding_update: whether rows can be overwritten by id.
    """

    data_type: DataType
    pooling: PoolingType
    is_weighted: bool
    has_feature_processor: bool
    compute_kernel: EmbeddingComputeKernel
    embedding_tables: list[ShardedEmbeddingTable]
    fused_params: dict[str, Any] | None = None
    enable_embedding_update: bool = False

    def feature_hash_sizes(self) -> list[int]:
        """Of each feature, the rows of its table that are here."""
        return [table.local_rows for table in self.embedding_tables for _ in table.feature_names]

    def num_features(self) -> int:
        """How many features all tables have."""
        return sum(table.num_features() for table in self.embedding_tables)

    def dim_sum(self) -> int:
        """Columns that a look-up of all features gives."""
        return sum(table.num_features() * table.local_cols for table in self.embedding_tables)

    def table_names(self) -> list[str]:
        """Of each table, its name."""
        return [table.name for table in self.embedding_tables]

    def feature_names(self) -> list[str]:
        """Of each table, its features."""
        return [name for table in self.embedding_tables for name in table.feature_names]

    def embedding_dims(self) -> list[int]:
        """Of each feature, the columns of its table that are here."""
        return [table.local_cols for table in self.embedding_tables for _ in table.feature_names]

    def embedding_names(self) -> list[str]:
        """Of each feature, what its embeddings are called."""
        return [name for table in self.embedding_tables for name in table.embedding_names]

    def embedding_shard_metadata(self) -> list[ShardMetadata | None]:
        """Of each feature, which part of its table is here."""
        return [table.local_metadata for table in self.embedding_tables for _ in table.feature_names]

    def is_using_virtual_table(self) -> bool:
        """Whether the tables are in a key-value store and have no fixed rows."""
        return self.compute_kernel in _VIRTUAL


class BaseEmbeddingLookup(abc.ABC, nn.Module, Generic[F, T]):
    """Looks up what other processes asked for."""

    @abc.abstractmethod
    def forward(self, sparse_features: F) -> T:
        """Rows, or pooled ones, of the features."""


class BaseEmbeddingUpdate(abc.ABC, nn.Module, Generic[F]):
    """Overwrites rows by what other processes sent."""

    @abc.abstractmethod
    def forward(self, embeddings: F) -> None:
        """Take them over."""


class FeatureShardingMixIn:
    """What a sharding says of its features."""

    def feature_names(self) -> list[str]:
        """All features, in the order in which they are sent."""
        raise NotImplementedError(f"{type(self).__name__} does not name its features.")

    def feature_names_per_rank(self) -> list[list[str]]:
        """Features that each process looks up."""
        raise NotImplementedError(f"{type(self).__name__} does not name its features by process.")

    def features_per_rank(self) -> list[int]:
        """How many features each process looks up."""
        raise NotImplementedError(f"{type(self).__name__} does not count its features by process.")


class ModuleShardingMixIn:
    """What a sharded module says of its shardings."""

    @property
    def shardings(self) -> dict[str, FeatureShardingMixIn]:
        """Each sharding, by its type."""
        raise NotImplementedError(f"{type(self).__name__} does not list its shardings.")


class ShardedEmbeddingModule(ShardedModule[CompIn, DistOut, Out, ShrdCtx], ModuleShardingMixIn):
    """A sharded module whose parameters are tables of embeddings.

    Args:
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(self, qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None) -> None:
        super().__init__(qcomm_codecs_registry)
        self.post_lookup_tracker_fn: Callable[..., None] | None = None
        self.post_odist_tracker_fn: Callable[..., None] | None = None

    def prefetch(self, dist_input: Any, forward_stream: torch.Stream | None = None, ctx: ShrdCtx | None = None) -> None:
        """Fetch rows of tables on the host that the batch will need.

        Args:
            dist_input: features of each sharding, as `input_dist` gave them.
            forward_stream: on which the batch will be computed.
            ctx: of the batch.
        """
        for features, lookup in zip(dist_input, self._lookups, strict=False):
            fetch = getattr(getattr(lookup, "module", lookup), "prefetch", None)
            if fetch is not None:
                fetch(sparse_features=features, forward_stream=forward_stream)

    def extra_repr(self) -> str:
        """The stages of each sharding, which are no submodules."""
        stages = []
        for number, lookup in enumerate(self._lookups):
            stages.append(f"({number}): {type(lookup).__name__}: " + repr(lookup).replace("\n", "\n  "))
        return "\n".join(stages)

    def register_post_lookup_tracker_fn(
        self, record_fn: Callable[[KeyedJaggedTensor, Tensor, nn.Module | None, Tensor | None], None]
    ) -> None:
        """Call a function with the features and embeddings of each look-up."""
        self.post_lookup_tracker_fn = record_fn

    def register_post_odist_tracker_fn(self, record_fn: Callable[..., None]) -> None:
        """Call a function once results are back."""
        self.post_odist_tracker_fn = record_fn

    def train(self, mode: bool = True) -> Self:
        """Train, or evaluate; also the kernels, which are no submodules."""
        super().train(mode)
        for lookup in self._lookups:
            lookup.train(mode)
        return self

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """The class of which this is the sharded form."""
        return nn.Module


class BaseGroupedFeatureProcessor(nn.Module):
    """Computes weights of ids before they are looked up, on the process that looks them up."""

    @abc.abstractmethod
    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The features with weights."""


class BaseEmbeddingSharder(ModuleSharder[M]):
    """Knows how modules of embeddings are spread over processes.

    Args:
        fused_params: options of the kernels, such as their optimizer; see `SplitTableBatchedEmbeddingBagsCodegen`.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        sharded_module_order_overwrite: the order in which groups of tables are looked up.
    """

    def __init__(
        self,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        sharded_module_order_overwrite: list[str] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry=qcomm_codecs_registry)
        self._fused_params = fused_params
        self._sharded_module_order_overwrite = sharded_module_order_overwrite

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread; by any backend, also on the CPU.

        Args:
            compute_device_type: "cuda", "cpu" or "mtia"; the last one has no data parallelism.
        """
        return [
            *([] if compute_device_type == "mtia" else [ShardingType.DATA_PARALLEL.value]),
            ShardingType.TABLE_WISE.value,
            ShardingType.COLUMN_WISE.value,
            ShardingType.TABLE_COLUMN_WISE.value,
            ShardingType.ROW_WISE.value,
            ShardingType.TABLE_ROW_WISE.value,
            ShardingType.GRID_SHARD.value,
        ]

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """The kernels for tables spread in this way.

        Args:
            sharding_type: a value of `ShardingType`.
            compute_device_type: "cuda" or "cpu".
        """
        if sharding_type == ShardingType.DATA_PARALLEL.value:
            return [EmbeddingComputeKernel.DENSE.value]
        kernels = [EmbeddingComputeKernel.FUSED.value]
        if compute_device_type == "cuda":
            kernels += [
                EmbeddingComputeKernel.FUSED_UVM.value,
                EmbeddingComputeKernel.FUSED_UVM_CACHING.value,
                EmbeddingComputeKernel.KEY_VALUE.value,
                EmbeddingComputeKernel.SSD_VIRTUAL_TABLE.value,
                EmbeddingComputeKernel.DRAM_VIRTUAL_TABLE.value,
                EmbeddingComputeKernel.DRAM_SSD_VIRTUAL_TABLE.value,
            ]
        return kernels

    @property
    def fused_params(self) -> dict[str, Any] | None:
        """Options of the kernels."""
        return self._fused_params

    def storage_usage(self, tensor: Tensor, compute_device_type: str, compute_kernel: str) -> dict[str, int]:
        """Bytes that a table takes, of each kind of memory."""
        return compute_storage_usage(tensor, compute_device_type, compute_kernel, StorageUsageType.BASE)


class BaseQuantEmbeddingSharder(ModuleSharder[M]):
    """Knows how modules of quantized embeddings are spread over devices.

    Args:
        fused_params: options of the kernels.
        shardable_params: the tables that may be spread, all or none of each collection; all by default.
    """

    def __init__(self, fused_params: dict[str, Any] | None = None, shardable_params: list[str] | None = None) -> None:
        super().__init__()
        self._fused_params = fused_params
        self._shardable_params = [] if shardable_params is None else shardable_params

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread."""
        return [ShardingType.TABLE_WISE.value, ShardingType.ROW_WISE.value, ShardingType.COLUMN_WISE.value]

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """The kernels for tables spread in this way."""
        kernels = [EmbeddingComputeKernel.QUANT.value]
        if compute_device_type == "cuda":
            kernels += [EmbeddingComputeKernel.QUANT_UVM.value, EmbeddingComputeKernel.QUANT_UVM_CACHING.value]
        return kernels

    def shardable_parameters(self, module: M) -> dict[str, nn.Parameter]:
        """The tables that can be spread, by name."""
        tables = {name.split(".")[-2]: table for name, table in module.state_dict().items() if name.endswith(".weight")}
        if not self._shardable_params:
            return tables
        named = [name for name in tables if name in self._shardable_params]
        if named and len(named) < len(tables):
            raise OptionError(
                f"shardable_params names {named} of the tables {sorted(tables)} of {type(module).__name__}; a "
                "collection is spread with all its tables or not at all. Name all or none of them."
            )
        return tables if named else {}

    @property
    def fused_params(self) -> dict[str, Any] | None:
        """Options of the kernels."""
        return self._fused_params

    def storage_usage(self, tensor: Tensor, compute_device_type: str, compute_kernel: str) -> dict[str, int]:
        """Bytes that a table takes, of each kind of memory, with scale and shift of each row."""
        return compute_storage_usage(tensor, compute_device_type, compute_kernel, StorageUsageType.BASE_QUANT)

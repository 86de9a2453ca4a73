"""Sharded modules, what makes them, and what they are described by."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from flambeau.rec.distributed._awaitables import (
    Awaitable,
    DeviceToHostTensorAwaitable,
    GenericMeta,
    GetItemLazyAwaitable,
    LazyAwaitable,
    LazyGetItemMixin,
    LazyNoWait,
    NoWait,
)
from flambeau.rec.distributed._codecs import (
    CommOp,
    NoOpQuantizedCommCodec,
    QuantizedCommCodec,
    QuantizedCommCodecs,
)
from flambeau.rec.distributed._environment import ShardingEnv, ShardingEnv2D
from flambeau.rec.distributed._plans import (
    CacheParams,
    CacheStatistics,
    ComputeDevice,
    ComputeKernel,
    EmbeddingModuleShardingPlan,
    KeyValueParams,
    ModuleShardingPlan,
    ObjectPoolShardingPlan,
    ObjectPoolShardingType,
    ParameterSharding,
    ParameterStorage,
    PipelineType,
    ShardingBucketMetadata,
    ShardingPlan,
    ShardingStrategy,
    ShardingType,
)
from flambeau.rec.streamable import Multistreamable
from flambeau.rec.tensor_types import UIntXTensor
from flambeau.rec.types import ModuleNoCopyMixin

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

__all__ = [
    "Awaitable",
    "CacheParams",
    "CacheStatistics",
    "CommOp",
    "ComputeDevice",
    "ComputeKernel",
    "DMPCollectionConfig",
    "DMPCollectionContext",
    "DeviceToHostTensorAwaitable",
    "EmbeddingEvent",
    "EmbeddingModuleShardingPlan",
    "GenericMeta",
    "GetItemLazyAwaitable",
    "KeyValueParams",
    "LazyAwaitable",
    "LazyGetItemMixin",
    "LazyNoWait",
    "ModuleSharder",
    "ModuleShardingPlan",
    "NoOpQuantizedCommCodec",
    "NoWait",
    "NullShardedModuleContext",
    "NullShardingContext",
    "ObjectPoolShardingPlan",
    "ObjectPoolShardingType",
    "ParameterSharding",
    "ParameterStorage",
    "PipelineType",
    "QuantizedCommCodec",
    "QuantizedCommCodecs",
    "ShardedModule",
    "ShardingBucketMetadata",
    "ShardingEnv",
    "ShardingEnv2D",
    "ShardingPlan",
    "ShardingPlanner",
    "ShardingStrategy",
    "ShardingType",
    "StorageUsageType",
    "compute_storage_usage",
    "get_tensor_size_bytes",
    "rank_device",
    "scope",
]

M = TypeVar("M", bound=nn.Module)
CompIn = TypeVar("CompIn", bound=Multistreamable)
DistOut = TypeVar("DistOut")
Out = TypeVar("Out")
ShrdCtx = TypeVar("ShrdCtx", bound=Multistreamable)


@unique
class EmbeddingEvent(Enum):
    """Stages of a look-up in sharded embeddings, as profiles show them."""

    KJT_SPLITS_DIST = "splits_dist"
    KJT_TENSORS_DIST = "tensors_dist"
    LOOKUP = "lookup"
    OUTPUT_DIST = "output_dist"
    OUTPUT_DIST_WAIT = "output_dist_wait"


class StorageUsageType(Enum):
    """How sharders count the memory of a parameter."""

    BASE_QUANT = "BaseQuantEmbeddingSharder"
    BASE = "BaseEmbeddingSharder"
    DEFAULT = "ModuleSharder"


class NullShardingContext(Multistreamable):
    """Stands where a sharding hands nothing from one of its stages to the next."""

    def record_stream(self, stream: torch.Stream) -> None:
        """There is nothing to keep."""


class NullShardedModuleContext(Multistreamable):
    """Stands where a sharded module hands nothing from one of its stages to the next."""

    def record_stream(self, stream: torch.Stream | None) -> None:
        """There is nothing to keep."""

    def __setattr__(self, key: str, value: object) -> None:
        raise NotImplementedError(
            f"{key} cannot be kept in a NullShardedModuleContext; let create_context give one of its own."
        )


class ShardedModule(abc.ABC, nn.Module, ModuleNoCopyMixin, Generic[CompIn, DistOut, Out, ShrdCtx]):
    """A module whose parameters are spread over processes.

    A look-up has three stages, which pipelines run for different batches at the same time: `input_dist` sends inputs to
    the processes that have the parameters for them, `compute` looks up there, `output_dist` sends the results back.

    Args:
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(self, qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None) -> None:
        super().__init__()
        self._qcomm_codecs_registry = {} if qcomm_codecs_registry is None else qcomm_codecs_registry
        self._input_dists: list[nn.Module] = []
        self._lookups: list[nn.Module] = []
        self._output_dists: list[nn.Module] = []

    @abc.abstractmethod
    def create_context(self) -> ShrdCtx:
        """What the stages of one batch share."""

    @property
    def qcomm_codecs_registry(self) -> dict[str, QuantizedCommCodecs] | None:
        """Codecs of what is exchanged, by the name of a `CommOp`."""
        return self._qcomm_codecs_registry

    @abc.abstractmethod
    def input_dist(self, ctx: ShrdCtx, *input: Any, **kwargs: Any) -> Awaitable[Awaitable[CompIn]]:
        """Start to send inputs: the first wait is for how much there is, the second for the content."""

    @abc.abstractmethod
    def compute(self, ctx: ShrdCtx, dist_input: CompIn) -> DistOut:
        """Look up what all processes asked this one for."""

    @abc.abstractmethod
    def output_dist(self, ctx: ShrdCtx, output: DistOut) -> LazyAwaitable[Out]:
        """Start to send the results back."""

    def compute_and_output_dist(self, ctx: ShrdCtx, input: CompIn) -> LazyAwaitable[Out]:
        """`compute`, then `output_dist`; to be overridden where the two can overlap."""
        return self.output_dist(ctx, self.compute(ctx, input))

    def forward(self, *input: Any, **kwargs: Any) -> LazyAwaitable[Out]:
        """All stages, one after another; the result is waited for when it is first used."""
        ctx = self.create_context()
        dist_input = self.input_dist(ctx, *input, **kwargs).wait().wait()
        return self.compute_and_output_dist(ctx, dist_input)

    def prefetch(
        self, dist_input: CompIn, forward_stream: torch.Stream | None = None, ctx: ShrdCtx | None = None
    ) -> None:
        """Fetch rows of tables on the host that the batch will need; without such tables, nothing."""

    def preprocess_input(self, args: list[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """What `input_dist` is given in place of these arguments."""
        return args, kwargs

    def write_dist(self, ctx: ShrdCtx, *input: Any, **kwargs: Any) -> Awaitable[Awaitable[CompIn]]:
        """Start to send rows to the processes that hold them."""
        raise self._not_written()

    def update(self, ctx: ShrdCtx, dist_input: CompIn) -> None:
        """Put rows that all processes sent into this one's part of the tables."""
        raise self._not_written()

    def write(self, *input: Any, **kwargs: Any) -> None:
        """Overwrite rows: `write_dist`, then `update`."""
        ctx = self.create_context()
        self.update(ctx, self.write_dist(ctx, *input, **kwargs).wait().wait())

    def _not_written(self) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no rows that can be overwritten by id.")

    def sharded_parameter_names(self, prefix: str = "") -> Iterator[str]:
        """Names of the parameters that no other process has in the same form."""
        for name, _ in self.named_parameters(prefix):
            yield name

    @property
    @abc.abstractmethod
    def unsharded_module_type(self) -> type[nn.Module]:
        """The class of which this is the sharded form."""


class ModuleSharder(abc.ABC, Generic[M]):
    """Knows how modules of one class can be spread over processes, and does it.

    Args:
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(self, qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None) -> None:
        torch._C._log_api_usage_once(f"flambeau.rec.distributed.{type(self).__name__}")
        self._qcomm_codecs_registry = qcomm_codecs_registry

    @abc.abstractmethod
    def shard(
        self,
        module: M,
        params: EmbeddingModuleShardingPlan,
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedModule[Any, Any, Any, Any]:
        """The sharded form of a module.

        Args:
            module: the module; where it is on the meta device, the sharded form is initialised anew.
            params: where each parameter goes.
            env: the processes.
            device: of this process.
            module_fqn: path of the module in the model.
        """

    @property
    @abc.abstractmethod
    def module_type(self) -> type[M]:
        """The class of modules it shards."""

    @property
    def qcomm_codecs_registry(self) -> dict[str, QuantizedCommCodecs] | None:
        """Codecs of what is exchanged, by the name of a `CommOp`."""
        return self._qcomm_codecs_registry

    def shardable_parameters(self, module: M) -> dict[str, nn.Parameter]:
        """The parameters that can be spread over processes, by name."""
        return dict(module.named_parameters())

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which they can be, best first as a tie-breaker.

        Args:
            compute_device_type: "cuda" or "cpu".
        """
        return [ShardingType.DATA_PARALLEL.value]

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """The kernels that can compute with them.

        Args:
            sharding_type: one of `sharding_types`.
            compute_device_type: "cuda" or "cpu".
        """
        return [ComputeKernel.DEFAULT.value]

    def storage_usage(self, tensor: Tensor, compute_device_type: str, compute_kernel: str) -> dict[str, int]:
        """Bytes that a parameter takes, of each kind of memory.

        Args:
            tensor: the parameter.
            compute_device_type: "cuda" or "cpu".
            compute_kernel: one of `compute_kernels`.
        """
        return compute_storage_usage(tensor, compute_device_type, compute_kernel, StorageUsageType.DEFAULT)


class ShardingPlanner(abc.ABC):
    """Makes plans."""

    @abc.abstractmethod
    def plan(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> ShardingPlan:
        """A plan for the modules in a model that the sharders know."""

    @abc.abstractmethod
    def collective_plan(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> ShardingPlan:
        """The same plan on all processes: made by one, and sent to the others."""


@dataclass
class DMPCollectionConfig:
    """How modules of one class are replicated, where others are replicated differently.

    Args:
        module: the class.
        plan: how such modules are spread over the processes of a group.
        sharding_group_size: processes of a group.
        node_group_size: of them, processes of one host.
        use_inter_host_allreduce: whether groups are of neighbouring processes.
        sharding_strategy: what the copies hold between steps.
    """

    module: type[nn.Module]
    plan: ShardingPlan
    sharding_group_size: int
    node_group_size: int | None = None
    use_inter_host_allreduce: bool = False
    sharding_strategy: ShardingStrategy = ShardingStrategy.DEFAULT


@dataclass
class DMPCollectionContext(DMPCollectionConfig):
    """The same, with what came of it: the sharded module, the groups, and what is kept equal among the copies."""

    modules_to_sync: list[tuple[nn.Module, nn.Module]] | None = None
    sharded_module: nn.Module | None = None
    device_mesh: DeviceMesh | None = None
    sharding_pg: dist.ProcessGroup | None = None
    replica_pg: dist.ProcessGroup | None = None
    weights_by_dtype: dict[torch.dtype, list[Tensor]] | None = None
    optimizer_tensors_by_dtype: dict[torch.dtype, list[Tensor]] | None = None
    hash_zch_modules: list[tuple[nn.Module, str]] | None = None


_OF_HOST = {
    StorageUsageType.BASE: ("fused_uvm", "fused_uvm_caching"),
    StorageUsageType.BASE_QUANT: ("quant_uvm", "quant_uvm_caching"),
    StorageUsageType.DEFAULT: (),
}


def get_tensor_size_bytes(t: Tensor) -> int:
    """Memory of a tensor's elements; several codes of less than a byte share one."""
    held = t.elem if isinstance(t, UIntXTensor) else t
    return held.element_size() * held.nelement()


def compute_storage_usage(
    tensor: Tensor, compute_device_type: str, compute_kernel: str, storage_usage_type: StorageUsageType
) -> dict[str, int]:
    """Bytes that a parameter takes, of each kind of memory.

    Args:
        tensor: the parameter.
        compute_device_type: "cuda", "cpu", "mtia" or another accelerator.
        compute_kernel: a value of `EmbeddingComputeKernel`; those for unified memory use the host's.
        storage_usage_type: which sharder counts: quantized tables also take 4 bytes a row, for scale and shift.
    """
    size = get_tensor_size_bytes(tensor)
    on_host = compute_device_type == "cpu" or compute_kernel in _OF_HOST[storage_usage_type]
    if storage_usage_type == StorageUsageType.BASE_QUANT:
        size += tensor.shape[0] * 4
        # Upstream: quantized tables of this accelerator count as the host's.
        on_host = on_host or compute_device_type == "mtia"
    return {(ParameterStorage.DDR if on_host else ParameterStorage.HBM).value: size}


def rank_device(device_type: str, rank: int) -> torch.device:
    """The device of a process, where each has one; the CPU has no number.

    Args:
        device_type: "cpu", "cuda" or another one.
        rank: of the process on its host.
    """
    return torch.device("cpu") if device_type == "cpu" else torch.device(f"{device_type}:{rank}")


def scope(method: Callable[..., Any]) -> Callable[..., Any]:
    """Leave a trace of a method's first use, as torch's usage logging collects them."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        torch._C._log_api_usage_once(f"flambeau.rec.distributed.{inspect.unwrap(method).__qualname__}")
        return method(*args, **kwargs)

    wrapped.__doc__, wrapped.__name__ = method.__doc__, method.__name__
    return wrapped

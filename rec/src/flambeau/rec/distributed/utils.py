"""Names of parameters, options of kernels, and modules on their devices."""

from __future__ import annotations

import contextlib
import copy
import os
import pdb  # noqa: T100, RUF100 - ForkedPdb is one
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec

from flambeau.rec.distributed._packed_tables import EmbeddingQuantizationUtils
from flambeau.rec.distributed.types import (
    EmbeddingEvent,
    ParameterSharding,
    ShardedModule,
    ShardingBucketMetadata,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.modules.embedding_configs import data_type_to_sparse_type
from flambeau.rec.types import CopyMixIn, DataType

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "CopyableMixin",
    "EmbeddingQuantizationUtils",
    "ForkedPdb",
    "add_params_from_parameter_sharding",
    "add_prefix_to_state_dict",
    "append_prefix",
    "assert_instance",
    "convert_to_fbgemm_types",
    "copy_to_device",
    "create_global_tensor_shape_stride_from_metadata",
    "emb_opt_type_to_optimizer_class",
    "filter_state_dict",
    "get_bucket_metadata_from_shard_metadata",
    "get_class_name",
    "get_device_type",
    "get_unsharded_module_names",
    "init_parameters",
    "maybe_annotate_embedding_event",
    "merge_fused_params",
    "modify_input_for_feature_processor",
    "none_throws",
    "optimizer_type_to_emb_opt_type",
    "sharded_model_copy",
    "weights_bytes_in_emb_kernel",
]

T = TypeVar("T")


# ----- names ----------------------------------------------------------------------------------------------------------


def append_prefix(prefix: str, name: str) -> str:
    """Both joined by a dot, or the one that is not empty."""
    return f"{prefix}.{name}" if prefix and name else prefix + name


def filter_state_dict(state_dict: OrderedDict[str, Tensor], name: str) -> OrderedDict[str, Tensor]:
    """The entries below a name, by what follows it."""
    below = name + "."
    return OrderedDict((key[len(below) :], value) for key, value in state_dict.items() if key.startswith(below))


def add_prefix_to_state_dict(state_dict: dict[str, Any], prefix: str) -> None:
    """Put a prefix before all names, in place, and before those of the metadata of an `nn.Module`'s dictionary."""
    for key in sorted(state_dict):
        state_dict[prefix + key] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata):
            # The module itself is called "", and a prefix ends in a dot.
            metadata[prefix + key if key else prefix[:-1]] = metadata.pop(key)


def get_class_name(obj: object) -> str:
    """The name of an object's class."""
    return type(obj).__name__


def get_unsharded_module_names(model: nn.Module) -> list[str]:
    """Paths of the topmost modules beside sharded ones in which nothing is sharded; none where nothing is at all."""
    found: list[str] = []

    def visit(module: nn.Module, path: str) -> bool:
        sharded, unsharded = isinstance(module, ShardedModule), []
        if not sharded:
            for name, child in module.named_children():
                below = append_prefix(path, name)
                if visit(child, below):
                    sharded = True
                else:
                    unsharded.append(below)
        if sharded:
            found.extend(unsharded)
        return sharded

    visit(model, "")
    return found


# ----- values ---------------------------------------------------------------------------------------------------------


def none_throws(optional: T | None, message: str = "Unexpected `None`") -> T:
    """The value.

    Raises:
        AssertionError: it is None.
    """
    if optional is None:
        raise AssertionError(message)
    return optional


def assert_instance(obj: object, t: type[T]) -> T:
    """The object.

    Raises:
        AssertionError: it is not of the class.
    """
    if not isinstance(obj, t):
        raise AssertionError(f"expected a {t}, got a {type(obj)}.")
    return obj


def get_device_type() -> str:
    """Return "cuda" where there is such an accelerator, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def weights_bytes_in_emb_kernel(emb: nn.Module) -> int:
    """Memory of the tables that kernels in a module look up."""
    return sum(
        weights.element_size() * weights.numel()
        for module in emb.modules()
        if hasattr(module, "split_embedding_weights") and not hasattr(module, "emb_module")
        for weights in module.split_embedding_weights()  # type: ignore[operator]
    )


# ----- options of kernels ---------------------------------------------------------------------------------------------


def optimizer_type_to_emb_opt_type(optimizer_class: type[Optimizer]) -> EmbOptimType | None:
    """The optimizer of kernels that does what a class of torch's or of `flambeau.rec.optim` does.

    Raises:
        ValueError: there is none.
    """
    from flambeau.rec.modules.fused_embedding_modules import convert_optimizer_type_and_kwargs

    found = convert_optimizer_type_and_kwargs(optimizer_class, {})
    if found is None:
        raise OptionError(
            f"{optimizer_class} has no counterpart in the kernels of embeddings; they have SGD, Adagrad, Adam, LAMB, "
            "LarsSGD, PartialRowWiseAdam, PartialRowWiseLAMB and RowWiseAdagrad."
        )
    return found[0]


def emb_opt_type_to_optimizer_class(emb_opt_type: EmbOptimType | None) -> type[Optimizer] | None:
    """The class that does what an optimizer of kernels does, or None for None.

    Raises:
        ValueError: there is none.
    """
    if emb_opt_type is None:
        return None
    from flambeau.rec.optim import optimizers
    from flambeau.rec.optim.rowwise_adagrad import RowWiseAdagrad

    classes: dict[EmbOptimType, type[Optimizer]] = {
        EmbOptimType.EXACT_SGD: torch.optim.SGD,
        EmbOptimType.EXACT_ADAGRAD: torch.optim.Adagrad,
        EmbOptimType.ADAM: torch.optim.Adam,
        EmbOptimType.LARS_SGD: optimizers.LarsSGD,
        EmbOptimType.LAMB: optimizers.LAMB,
        EmbOptimType.PARTIAL_ROWWISE_LAMB: optimizers.PartialRowWiseLAMB,
        EmbOptimType.PARTIAL_ROWWISE_ADAM: optimizers.PartialRowWiseAdam,
        EmbOptimType.EXACT_ROWWISE_ADAGRAD: RowWiseAdagrad,
    }
    if emb_opt_type not in classes:
        raise OptionError(f"no class does what the optimizer {emb_opt_type} of kernels does.")
    return classes[emb_opt_type]


def merge_fused_params(
    fused_params: dict[str, Any] | None = None, param_fused_params: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Options of kernels, and those of one table, which go before them."""
    return (fused_params or {}) | (param_fused_params or {})


def add_params_from_parameter_sharding(
    fused_params: dict[str, Any] | None, parameter_sharding: ParameterSharding
) -> dict[str, Any]:
    """Options of kernels, with those that a plan gives for one table."""
    options = dict(fused_params or {})
    cache = parameter_sharding.cache_params
    if cache is not None:
        for name, value in {
            "cache_algorithm": cache.algorithm,
            "cache_load_factor": cache.load_factor,
            "cache_reserved_memory": cache.reserved_memory,
            "cache_precision": cache.precision,
            "prefetch_pipeline": cache.prefetch_pipeline,
            "multipass_prefetch_config": cache.multipass_prefetch_config,
        }.items():
            if value is not None:
                options[name] = value
    for name in ("enforce_hbm", "stochastic_rounding", "bounds_check_mode", "output_dtype"):
        value = getattr(parameter_sharding, name)
        if value is not None:
            options[name] = value
    store = parameter_sharding.key_value_params
    if store is not None:
        options |= {name: value for name, value in vars(store).items() if value is not None}
    return options


def convert_to_fbgemm_types(fused_params: dict[str, Any]) -> dict[str, Any]:
    """Options of kernels with element types as kernels call them; in place, and returned."""
    for name in ("cache_precision", "weights_precision", "output_dtype"):
        if isinstance(fused_params.get(name), DataType):
            fused_params[name] = data_type_to_sparse_type(fused_params[name])
    return fused_params


# ----- shapes of what is sharded --------------------------------------------------------------------------------------


def create_global_tensor_shape_stride_from_metadata(
    parameter_sharding: ParameterSharding, devices_per_node: int | None = None
) -> tuple[torch.Size, tuple[int, int]]:
    """Size and strides of a table, found from its shards.

    Args:
        parameter_sharding: of the table.
        devices_per_node: processes of a host, for grid sharding.
    """
    spec = parameter_sharding.sharding_spec
    if not isinstance(spec, EnumerableShardingSpec):
        raise OptionError("the sharding names no shards, which size and strides of the table are found from.")
    rows = max(shard.shard_offsets[0] + shard.shard_sizes[0] for shard in spec.shards)
    columns = max(shard.shard_offsets[1] + shard.shard_sizes[1] for shard in spec.shards)
    return torch.Size([rows, columns]), (columns, 1)


def get_bucket_metadata_from_shard_metadata(shards: list[ShardMetadata], num_buckets: int) -> ShardingBucketMetadata:
    """Buckets of each shard of a table whose rows are spread by buckets.

    Args:
        shards: of the table, by rows.
        num_buckets: of the table; a divisor of its rows.

    Raises:
        AssertionError: buckets do not divide the table, or a shard ends within one.
    """
    if not shards:
        raise OptionError("shards is empty; expected those of a table.")
    if num_buckets <= 0:
        raise OptionError(f"num_buckets is {num_buckets}; expected 1 or more.")
    rows = sum(shard.shard_sizes[0] for shard in shards)
    if rows % num_buckets:
        raise OptionError(f"num_buckets is {num_buckets}, which does not divide the table's {rows} rows.")
    size = rows // num_buckets
    counts, offsets = [], []
    for shard in shards:
        if len(shard.shard_offsets) != 2:
            raise OptionError(f"a shard lies at {shard.shard_offsets}; expected a row and a column.")
        if shard.shard_offsets[0] % size or shard.shard_sizes[0] % size:
            raise OptionError(
                f"a shard of {shard.shard_sizes[0]} rows begins at row {shard.shard_offsets[0]}; expected multiples of "
                f"{size}, the rows of a bucket."
            )
        offsets.append(shard.shard_offsets[0] // size)
        counts.append(shard.shard_sizes[0] // size)
    return ShardingBucketMetadata(counts, offsets, size)


# ----- modules on their devices ---------------------------------------------------------------------------------------


def init_parameters(module: nn.Module, device: torch.device) -> None:
    """Put what a module has on the meta device on this one, and let `reset_parameters` of its modules fill it."""

    def fill(one: nn.Module) -> None:
        own = [*one.parameters(recurse=False), *one.buffers(recurse=False)]
        if not any(tensor.is_meta for tensor in own):
            return
        one.to_empty(device=device, recurse=False)
        reset = getattr(one, "reset_parameters", None)
        if callable(reset):
            reset()

    module.apply(fill)


_COPYING: list[torch.device | str | int | None] = []


class sharded_model_copy:
    """Within it, copies of models leave process groups out and put tensors on a device.

    Args:
        device: where to; None keeps tensors where they are.
    """

    def __init__(self, device: str | int | torch.device | None) -> None:
        self.device = device

    def __enter__(self) -> None:
        _COPYING.append(self.device)

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        _COPYING.pop()


class CopyableMixin(nn.Module):
    """A module that is copied to a device as a whole, the sharded modules in it excepted."""

    def copy(self, device: torch.device) -> nn.Module:
        """The module there."""
        return copy_to_device(self, current_device=torch.device("cpu"), to_device=device)


def copy_to_device(module: nn.Module, current_device: torch.device, to_device: torch.device) -> nn.Module:
    """A copy of a module on another device.

    Args:
        module: whose modules that say how they are copied (`CopyMixIn`) do it themselves.
        current_device: tensors elsewhere are left as they are.
        to_device: where the others go.
    """
    copied: dict[int, Any] = {}
    for one in module.modules():
        if isinstance(one, CopyMixIn) and one is not module:
            copied[id(one)] = one.copy(to_device)

    def moved(tensor: Tensor) -> Tensor:
        return tensor.to(to_device) if tensor.device == current_device else tensor

    made = copy.deepcopy(module, copied)
    kept = {id(below) for one in copied.values() for below in one.modules()}
    for one in made.modules():
        if id(one) not in kept:
            one._apply(moved, recurse=False)
    return made


def modify_input_for_feature_processor(
    features: KeyedJaggedTensor, feature_processors: nn.ModuleDict | nn.Module, is_collection: bool
) -> None:
    """Give features the weights that their processors start from: positions in their bags for a collection, else one.

    In place. Positions must be found before ids are spread over processes, as no process sees whole bags afterwards.

    Args:
        features: to be sent.
        feature_processors: of each feature, or one for all.
        is_collection: whether it is one for all.
    """
    from flambeau.rec.ops.ranges import offsets_range

    if is_collection:
        pre_process = getattr(feature_processors, "pre_process_pipeline_input", None)
        if pre_process is not None:
            pre_process(features)
            return
    elif not any(key in feature_processors for key in features.keys()):  # type: ignore[operator]  # noqa: SIM118
        return
    if features.weights_or_none() is None:
        features._weights = offsets_range(features.offsets().long(), features.values().numel()).float()
        features._jt_dict = None


@contextlib.contextmanager
def maybe_annotate_embedding_event(event: EmbeddingEvent, module_fqn: str | None, sharding_type: str | None) -> Any:
    """Show a stage of a look-up in profiles, where module and sharding are known."""
    if module_fqn and sharding_type:
        with torch.profiler.record_function(f"[{event.value}]_[{module_fqn}]_[{sharding_type}]"):
            yield
    else:
        yield


class ForkedPdb(pdb.Pdb):
    """A debugger for processes that were started by another one, and have no terminal of their own."""

    def interaction(self, *args: Any, **kwargs: Any) -> None:
        """Talk through the terminal of the process that started this one."""
        before = sys.stdin
        try:
            with open(os.devnull if not os.path.exists("/dev/stdin") else "/dev/stdin") as terminal:  # noqa: PTH110, PTH123
                sys.stdin = terminal
                super().interaction(*args, **kwargs)
        finally:
            sys.stdin = before

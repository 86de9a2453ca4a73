"""Models made ready for inference: quantized, given weights, and wrapped so that a server can ask them."""

from __future__ import annotations

import abc
import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.rec.distributed.fused_params import (
    FUSED_PARAM_BOUNDS_CHECK_MODE,
    FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP,
    FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
    FUSED_PARAM_REGISTER_TBE_BOOL,
)
from flambeau.rec.distributed.planner import EmbeddingShardingPlanner, Topology
from flambeau.rec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from flambeau.rec.distributed.planner.types import ParameterConstraints
from flambeau.rec.distributed.quant_embedding import QuantEmbeddingCollectionSharder
from flambeau.rec.distributed.quant_embeddingbag import (
    QuantEmbeddingBagCollectionSharder,
    QuantFeatureProcessedEmbeddingBagCollectionSharder,
)
from flambeau.rec.distributed.types import ModuleSharder, ShardingEnv, ShardingPlan, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode
from flambeau.rec.modules.embedding_configs import QuantConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from flambeau.rec.quant.embedding_modules import (
    MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT,
    quant_prep_enable_register_tbes,
)
from flambeau.rec.quant.embedding_modules import (
    EmbeddingBagCollection as QuantEmbeddingBagCollection,
)
from flambeau.rec.quant.embedding_modules import (
    EmbeddingCollection as QuantEmbeddingCollection,
)
from flambeau.rec.quant.embedding_modules import (
    FeatureProcessedEmbeddingBagCollection as QuantFeatureProcessedEmbeddingBagCollection,
)

__all__ = [
    "FEATURE_PROCESSED_EBC_TYPE",
    "FUSED_PARAM_BOUNDS_CHECK_MODE",
    "FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP",
    "FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS",
    "FUSED_PARAM_REGISTER_TBE_BOOL",
    "MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT",
    "BatchingMetadata",
    "PredictFactory",
    "PredictModule",
    "QualNameMetadata",
    "assign_weights_to_tbe",
    "get_table_to_weights_from_tbe",
    "quantize_dense",
    "quantize_embeddings",
    "quantize_feature",
    "quantize_inference_model",
    "set_pruning_data",
    "shard_quant_model",
    "trim_torch_package_prefix_from_typename",
]

FEATURE_PROCESSED_EBC_TYPE = "flambeau.rec.modules.fp_embedding_modules.FeatureProcessedEmbeddingBagCollection"
DEFAULT_QUANTIZATION_DTYPE = torch.int8
DEFAULT_QUANT_MAPPING: dict[str, type[nn.Module]] = {
    "flambeau.rec.modules.embedding_modules.EmbeddingBagCollection": QuantEmbeddingBagCollection,
    "flambeau.rec.modules.embedding_modules.EmbeddingCollection": QuantEmbeddingCollection,
}
"""What each floating module becomes, by its type's name."""
DEFAULT_FUSED_PARAMS: dict[str, Any] = {
    FUSED_PARAM_REGISTER_TBE_BOOL: True,
    FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS: True,
    FUSED_PARAM_BOUNDS_CHECK_MODE: BoundsCheckMode.NONE,
    FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP: False,
}
"""Options of kernels: a look-up that meets an id outside of its table fails, so that ids are not checked before."""
DEFAULT_SHARDERS: list[ModuleSharder[Any]] = [
    QuantEmbeddingBagCollectionSharder(fused_params=DEFAULT_FUSED_PARAMS),
    QuantEmbeddingCollectionSharder(fused_params=DEFAULT_FUSED_PARAMS),
    QuantFeatureProcessedEmbeddingBagCollectionSharder(fused_params=DEFAULT_FUSED_PARAMS),
]
"""Sharders of quantized collections."""


def trim_torch_package_prefix_from_typename(typename: str) -> str:
    """A type's name without what `torch.package` puts in front of it."""
    return typename.partition(".")[2] if typename.startswith("<torch_package_") else typename


def _qconfig(
    dtype: torch.dtype, output_dtype: torch.dtype, per_table_weight_dtype: dict[str, torch.dtype] | None
) -> QuantConfig:
    return QuantConfig(
        activation=PlaceholderObserver.with_args(dtype=output_dtype),
        weight=PlaceholderObserver.with_args(dtype=dtype),
        per_table_weight_dtype=per_table_weight_dtype,
    )


def _swap(module: nn.Module, mapping: Mapping[type[nn.Module], tuple[type[nn.Module], QuantConfig]]) -> nn.Module:
    """The module with each of some types below it replaced by its quantized one; a module by itself stays."""
    for name, child in module.named_children():
        found = mapping.get(type(child))
        if found is None:
            _swap(child, mapping)
            continue
        quantized, child.qconfig = found  # type: ignore[assignment]
        setattr(module, name, quantized.from_float(child))  # type: ignore[attr-defined]
    return module


def quantize_embeddings(
    module: nn.Module,
    dtype: torch.dtype,
    inplace: bool,
    additional_qconfig_spec_keys: list[type[nn.Module]] | None = None,
    additional_mapping: dict[type[nn.Module], type[nn.Module]] | None = None,
    output_dtype: torch.dtype = torch.float32,
    per_table_weight_dtype: dict[str, torch.dtype] | None = None,
) -> nn.Module:
    """Quantize the embedding bag collections of a model.

    Args:
        module: the model; collections are looked for below it.
        dtype: what tables become: qint8, quint4x2, quint2x4, float16, bfloat16, float32 or float8_e4m3fn.
        inplace: whether the model itself is changed, not a copy.
        additional_qconfig_spec_keys: further types of modules to quantize.
        additional_mapping: what they become; each has `from_float`.
        output_dtype: of what collections return.
        per_table_weight_dtype: what single tables become, by name.

    Returns:
        The model with quantized collections. A collection by itself stays as it is: it is below nothing.

    Raises:
        KeyError: a type to quantize without what it becomes.
    """
    into: dict[type[nn.Module], type[nn.Module]] = {
        EmbeddingBagCollection: QuantEmbeddingBagCollection,
        EmbeddingCollection: QuantEmbeddingCollection,
        **(additional_mapping or {}),
    }
    qconfig = _qconfig(dtype, output_dtype, per_table_weight_dtype)
    wanted: list[type[nn.Module]] = [EmbeddingBagCollection, *(additional_qconfig_spec_keys or [])]
    if unknown := [kind.__name__ for kind in wanted if kind not in into]:
        raise KeyError(f"nothing is said about what {', '.join(unknown)} becomes; name it in additional_mapping.")
    model = module if inplace else copy.deepcopy(module)
    return _swap(model, {kind: (into[kind], qconfig) for kind in wanted})


def quantize_inference_model(
    model: nn.Module,
    quantization_mapping: dict[str, type[nn.Module]] | None = None,
    per_table_weight_dtype: dict[str, torch.dtype] | None = None,
    fp_weight_dtype: torch.dtype = DEFAULT_QUANTIZATION_DTYPE,
    quantization_dtype: torch.dtype = DEFAULT_QUANTIZATION_DTYPE,
    output_dtype: torch.dtype = torch.float32,
) -> nn.Module:
    """Quantize all embedding modules of a model in place, with their tables as submodules.

    Args:
        model: the model.
        quantization_mapping: what each module becomes, by its type's name; `DEFAULT_QUANT_MAPPING` where None.
        per_table_weight_dtype: what single tables become, by name.
        fp_weight_dtype: what the tables of collections with feature processors become.
        quantization_dtype: what other tables become.
        output_dtype: of what collections return.

    Returns:
        The model.
    """
    by_name = DEFAULT_QUANT_MAPPING if quantization_mapping is None else quantization_mapping
    kinds = {type(found) for found in model.modules()}
    mapping: dict[type[nn.Module], tuple[type[nn.Module], QuantConfig]] = {}
    for kind in kinds:
        name = trim_torch_package_prefix_from_typename(f"{kind.__module__}.{kind.__qualname__}")
        quantized = by_name.get(name)
        if quantized is not None:
            mapping[kind] = quantized, _qconfig(quantization_dtype, output_dtype, per_table_weight_dtype)
        elif name == FEATURE_PROCESSED_EBC_TYPE:
            own = _qconfig(fp_weight_dtype, output_dtype, per_table_weight_dtype)
            mapping[kind] = QuantFeatureProcessedEmbeddingBagCollection, own
    quant_prep_enable_register_tbes(model, list(mapping))
    return _swap(model, mapping)


def shard_quant_model(
    model: nn.Module,
    world_size: int = 1,
    compute_device: str = "cuda",
    sharding_device: str = "meta",
    sharders: list[ModuleSharder[nn.Module]] | None = None,
    device_memory_size: int | None = None,
    constraints: dict[str, ParameterConstraints] | None = None,
    ddr_cap: int | None = None,
    sharding_plan: ShardingPlan | None = None,
) -> tuple[nn.Module, ShardingPlan]:
    """Spread the tables of a quantized model over the devices of one process.

    Tables are taken over where the model has values and `sharding_device` is not "meta".

    Args:
        model: with quantized collections; they are replaced in place.
        world_size: devices.
        compute_device: of which kind they are: "cuda", "cpu" or "mtia"; several "cpu"s are one, whose tables are apart.
        sharding_device: where results come together, such as "cuda:0" or "cpu"; "meta" keeps shapes alone.
        sharders: of collections; `DEFAULT_SHARDERS` where None.
        device_memory_size: bytes of a device's memory that tables may take.
        constraints: what may become of tables, by name. Where None, pooled ones stay whole.
        ddr_cap: bytes of the host's memory that tables may take.
        sharding_plan: where tables go; planned where None.

    Returns:
        The model, or what it became where it is a collection itself, and the plan.

    Raises:
        PlannerError: tables do not fit.
        AssertionError: another kind of device; it is a ValueError too.
    """
    if world_size < 1:
        raise OptionError(f"world_size is {world_size}, expected at least one device.")
    chosen: list[ModuleSharder[Any]] = list(DEFAULT_SHARDERS if sharders is None else sharders)
    device = torch.device(sharding_device)
    if sharding_plan is None:
        topology = Topology(
            world_size=world_size,
            compute_device=compute_device,
            local_world_size=world_size,
            hbm_cap=device_memory_size,
            ddr_cap=ddr_cap,
        )
        planner = EmbeddingShardingPlanner(
            topology=topology,
            batch_size=1,
            constraints=_whole_tables(model) if constraints is None else constraints,
            storage_reservation=FixedPercentageStorageReservation(percentage=0.0),
        )
        sharding_plan = planner.plan(model, chosen)
    env = ShardingEnv.from_local(world_size, 0)
    return _sharded(model, "", sharding_plan, {one.module_type: one for one in chosen}, env, device), sharding_plan


def _whole_tables(model: nn.Module) -> dict[str, ParameterConstraints]:
    """That pooled tables are not cut."""
    return {
        table.name: ParameterConstraints(sharding_types=[ShardingType.TABLE_WISE.value])
        for found in model.modules()
        if isinstance(found, QuantEmbeddingBagCollection)
        for table in found.embedding_bag_configs()
    }


def _sharded(
    module: nn.Module,
    path: str,
    plan: ShardingPlan,
    sharders: Mapping[type[nn.Module], ModuleSharder[Any]],
    env: ShardingEnv,
    device: torch.device,
) -> nn.Module:
    """The module with all that the plan names replaced by their sharded forms."""
    tables = plan.get_plan_for_module(path)
    if tables is not None and type(module) in sharders:
        return sharders[type(module)].shard(module, tables, env, device, path)  # type: ignore[arg-type]
    for name, child in module.named_children():
        made = _sharded(child, f"{path}.{name}" if path else name, plan, sharders, env, device)
        if made is not child:
            setattr(module, name, made)
    return module


def quantize_feature(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Dense features in float16, if the model's first parameter is.

    Args:
        module: the model.
        inputs: of the model.

    Returns:
        The inputs; float32 ones as float16 where the model computes in it.
    """
    parameter = next(module.parameters(), None)
    if parameter is None or parameter.dtype != torch.float16:
        return inputs
    return tuple(one.half() if one.dtype == torch.float32 else one for one in inputs)


def quantize_dense(
    predict_module: PredictModule,
    dtype: torch.dtype,
    additional_embedding_module_type: list[type[nn.Module]] | None = None,
) -> nn.Module:
    """Compute all but embeddings in another dtype.

    Args:
        predict_module: the model.
        dtype: of its dense parameters, and of what its embeddings are turned to.
        additional_embedding_module_type: further modules that stay as they are.

    Returns:
        The same module.
    """
    stay = (
        EmbeddingBagCollection, EmbeddingCollection, QuantEmbeddingBagCollection, QuantEmbeddingCollection,
        FeatureProcessedEmbeddingBagCollection, *(additional_embedding_module_type or []),
    )  # fmt: skip

    def convert(module: nn.Module) -> None:
        if isinstance(module, stay):
            return
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_floating_point():
                setattr(module, name, nn.Parameter(parameter.detach().to(dtype), parameter.requires_grad))
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point():
                setattr(module, name, buffer.to(dtype))
        for child in module.children():
            convert(child)

    convert(predict_module)
    return predict_module


def set_pruning_data(
    model: nn.Module, tables_to_rows_post_pruning: dict[str, int], module_types: list[type[nn.Module]] | None = None
) -> nn.Module:
    """Say how many rows of tables are left when they are quantized.

    Args:
        model: the model; it is changed in place.
        tables_to_rows_post_pruning: rows by table.
        module_types: modules that it is said to; embedding bag collections, with feature processors and without, where
            None.

    Returns:
        The model.
    """
    kinds = tuple(module_types or (EmbeddingBagCollection, FeatureProcessedEmbeddingBagCollection))
    for found in model.modules():
        if type(found) in kinds:
            setattr(found, MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT, tables_to_rows_post_pruning)
    return model


def _registered_tables(model: nn.Module) -> list[IntNBitTableBatchedEmbeddingBagsCodegen]:
    return [found for found in model.modules() if isinstance(found, IntNBitTableBatchedEmbeddingBagsCodegen)]


def get_table_to_weights_from_tbe(model: nn.Module) -> dict[str, list[tuple[Tensor, Tensor | None]]]:
    """Views of the bytes of all tables of a quantized model.

    Args:
        model: whose tables are submodules (`quantize_inference_model`, or `quant_prep_enable_register_tbes`).

    Returns:
        By table (rows, bytes), and (rows, 4) of scales and biases or None.
    """
    found: dict[str, Any] = {}
    for tables in _registered_tables(model):
        found |= dict(zip(tables.feature_names, tables.split_embedding_weights(), strict=True))
    return found


def assign_weights_to_tbe(model: nn.Module, table_to_weight: dict[str, Any]) -> None:
    """Overwrite all tables of a quantized model.

    Args:
        model: whose tables are submodules.
        table_to_weight: by table (rows, bytes), and (rows, 4) of scales and biases or None.

    Raises:
        AssertionError: a table is missing.
    """
    for tables in _registered_tables(model):
        if missing := [name for name in tables.feature_names if name not in table_to_weight]:
            raise OptionError(f"table_to_weight has no {', '.join(missing)}; the model has {tables.feature_names}.")
        tables.assign_embedding_weights([table_to_weight[name] for name in tables.feature_names])


@dataclass
class BatchingMetadata:
    """How requests become a batch.

    Args:
        type: "dense", "sparse", "weighted_sparse" or "embedding".
        device: where the batch is wanted: "cpu", "cuda", "cuda:0", ...
        pinned: which of its tensors are wanted in pinned memory, by the ends of their names.
    """

    type: str
    device: str
    pinned: list[str]


@dataclass
class QualNameMetadata:
    """What is known of a part of the model.

    Args:
        need_preproc: whether its input is prepared before.
    """

    need_preproc: bool


class PredictFactory(abc.ABC):
    """Makes a model that a server can ask, and says how."""

    @abc.abstractmethod
    def create_predict_module(self) -> nn.Module:
        """The model, sharded and with weights."""

    @abc.abstractmethod
    def batching_metadata(self) -> dict[str, BatchingMetadata]:
        """By name of a feature how requests become a batch."""

    def batching_metadata_json(self) -> str:
        """`batching_metadata` as JSON."""
        return json.dumps({name: asdict(one) for name, one in self.batching_metadata().items()})

    @abc.abstractmethod
    def result_metadata(self) -> str:
        """What the model's result is, such as "dict_of_tensor": a server divides it among requests."""

    @abc.abstractmethod
    def run_weights_independent_tranformations(self, predict_module: nn.Module) -> nn.Module:
        """Changes of the model before it has weights."""

    @abc.abstractmethod
    def run_weights_dependent_transformations(self, predict_module: nn.Module) -> nn.Module:
        """Changes of the model that need its weights."""

    def qualname_metadata(self) -> dict[str, QualNameMetadata]:
        """What is known of parts of the model, by their names; nothing by default."""
        return {}

    def qualname_metadata_json(self) -> str:
        """`qualname_metadata` as JSON."""
        return json.dumps({name: asdict(one) for name, one in self.qualname_metadata().items()})

    def model_inputs_data(self) -> dict[str, Any]:
        """Whatever else about its inputs whoever prepares the model should know; nothing by default."""
        return {}


class PredictModule(nn.Module):
    """A model that takes a batch by names and gives predictions.

    Args:
        module: the model; `predict_forward` asks it.
        device: where it computes; that of its first parameter or buffer where None.
    """

    def __init__(self, module: nn.Module, device: str | None = None) -> None:
        super().__init__()
        self._module = module
        first = next(iter([*module.parameters(), *module.buffers()]), None)
        self._device = torch.device(device) if device else torch.device("cpu") if first is None else first.device
        self._module.eval()

    @property
    def predict_module(self) -> nn.Module:
        """The model."""
        return self._module

    @abc.abstractmethod
    def predict_forward(self, batch: dict[str, Tensor]) -> Any:
        """Predictions for a batch; what programs write."""

    def forward(self, batch: dict[str, Tensor]) -> Any:
        """`predict_forward` on the module's device, without gradients."""
        if torch.compiler.is_compiling():
            return self.predict_forward(batch)
        if self._device.type == "cuda":
            with torch.cuda.device(self._device), torch.inference_mode():
                return self.predict_forward(batch)
        with torch.inference_mode():
            return self.predict_forward(batch)

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """The state dict of the model, without a prefix for the wrapping."""
        return self._module.state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)  # type: ignore[arg-type]

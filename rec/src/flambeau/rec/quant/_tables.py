"""Tables of quantized modules: how floating ones become bytes, and how state dicts show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._inference_layout import SCALED
from flambeau.rec.fbgemm_gpu.split_embedding_configs import FP8QuantizationConfig, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation, PoolingMode
from flambeau.rec.fbgemm_gpu.tbe.utils.quantize import quantize_embs
from flambeau.rec.modules.embedding_configs import (
    BaseEmbeddingConfig,
    data_type_to_sparse_type,
    dtype_to_data_type,
)
from flambeau.rec.ops import quantize_nbit
from flambeau.rec.tensor_types import UInt2Tensor, UInt4Tensor, UIntXTensor
from flambeau.rec.types import DataType

Quantized = dict[str, tuple[Tensor, Tensor | None]]
Config = TypeVar("Config", bound=BaseEmbeddingConfig)

FLOAT8 = FP8QuantizationConfig(4, 7)
"""The format of tables of eight-bit floats."""

_LISTED = {torch.uint8: SparseType.INT8, torch.quint8: SparseType.INT8}


def table_type(data_type: DataType) -> SparseType:
    """The elements of a table for inference."""
    kind = data_type_to_sparse_type(data_type)
    return SparseType.FP8 if kind is SparseType.NFP8 else kind


def output_type(dtype: torch.dtype) -> SparseType:
    """What results of a dtype are called."""
    return _LISTED.get(dtype) or SparseType.from_dtype(dtype)


def chosen_types(module: nn.Module, configs: Iterable[BaseEmbeddingConfig]) -> tuple[dict[str, DataType], torch.dtype]:
    """What a module's qconfig says: elements of each table by name, and the dtype of results.

    Raises:
        AssertionError: the module has no qconfig.
    """
    qconfig: Any = getattr(module, "qconfig", None)
    if qconfig is None:
        raise OptionError(
            f"{type(module).__name__} has no qconfig, expected one that says what its tables become; "
            "`inference.modules.quantize_embeddings` sets it."
        )
    by_table = getattr(qconfig, "per_table_weight_dtype", None) or {}
    default = qconfig.weight().dtype
    types = {config.name: dtype_to_data_type(by_table.get(config.name, default)) for config in configs}
    return types, qconfig.activation().dtype


def quantize_state_dict(
    module: nn.Module,
    table_name_to_quantized_weights: Quantized,
    table_name_to_data_type: Mapping[str, DataType],
    table_name_to_num_embeddings_post_pruning: Mapping[str, int] | None = None,
) -> torch.device:
    """Quantize the tables of a floating module.

    Args:
        module: whose state dict has `<collection>.<table>.weight`.
        table_name_to_quantized_weights: is told (rows, bytes) and (rows, 4) or None of each table by name.
        table_name_to_data_type: what each becomes.
        table_name_to_num_embeddings_post_pruning: how many of its first rows each keeps; all where nothing is said.

    Returns:
        The device of the tables.

    Raises:
        KeyError: nothing is said about the elements of a table.
    """
    device = torch.device("cpu")
    kept = table_name_to_num_embeddings_post_pruning or {}
    for key, weight in module.state_dict().items():
        if not key.endswith(".weight"):
            continue
        name = key.split(".")[-2]
        values = weight.local_tensor() if hasattr(weight, "local_tensor") else weight
        device = values.device
        rows = values[: kept.get(name, values.shape[0])]
        kind = table_type(table_name_to_data_type[name])
        if device.type == "meta":
            table_name_to_quantized_weights[name] = _meta_table(rows, kind)
        else:
            table_name_to_quantized_weights[name] = quantized_rows(rows, kind)
    return device


def quantized_rows(rows: Tensor, kind: SparseType) -> tuple[Tensor, Tensor | None]:
    """(rows, bytes) of a floating table, and (rows, 4) of scales and biases, by which codes were rounded, or None."""
    if kind not in SCALED:
        codes, parameters = quantize_embs(rows, kind, FLOAT8)
        # A table that has those elements already is given as it is; training it on must not change the quantized one.
        same = codes.untyped_storage().data_ptr() == rows.untyped_storage().data_ptr()
        return codes.clone() if same else codes, parameters
    coded = quantize_nbit.from_float(rows.float(), kind.bit_rate())
    return coded[:, :-4].contiguous(), coded[:, -4:].contiguous()


def _meta_table(rows: Tensor, kind: SparseType) -> tuple[Tensor, Tensor | None]:
    scaled = kind in SCALED
    size = (rows.shape[1] * kind.bit_rate() + 7) // 8
    codes = torch.empty((rows.shape[0], size), dtype=torch.uint8, device="meta")
    return codes, torch.empty((rows.shape[0], 4), dtype=torch.uint8, device="meta") if scaled else None


def quantized_configs(
    configs: Sequence[Config], types: Mapping[str, DataType], kept: Mapping[str, int]
) -> list[Config]:
    """What tables are after they were quantized and pruned."""
    return [
        replace(config, data_type=types[config.name], num_embeddings_post_pruning=kept.get(config.name))
        for config in configs
    ]


def kept_rows(config: BaseEmbeddingConfig) -> int:
    """Rows that are left of a table."""
    left = config.num_embeddings_post_pruning
    return config.num_embeddings if left is None else left


def make_tables(
    configs: Sequence[BaseEmbeddingConfig],
    pooling: PoolingMode,
    device: torch.device,
    output_dtype: torch.dtype,
    row_alignment: int,
    weights: Quantized | None,
) -> IntNBitTableBatchedEmbeddingBagsCodegen:
    """Tables that are looked up together.

    Args:
        configs: of the tables; features are read in their order.
        pooling: of all of them.
        device: where they are.
        output_dtype: of results.
        row_alignment: bytes that rows are a multiple of.
        weights: the tables' bytes by name; zeros where None.
    """
    location = EmbeddingLocation.HOST if device.type in ("cpu", "meta") else EmbeddingLocation.DEVICE
    specs = [
        ("", kept_rows(config), config.embedding_dim, table_type(config.data_type), location) for config in configs
    ]
    features = [at for at, config in enumerate(configs) for _ in config.feature_names]
    made = IntNBitTableBatchedEmbeddingBagsCodegen(
        [(config.name, *spec[1:]) for config, spec in zip(configs, specs, strict=True)],
        feature_table_map=features,
        pooling_mode=pooling,
        device=device,
        output_dtype=output_type(output_dtype),
        row_alignment=row_alignment,
        fp8_exponent_bits=FLOAT8.get("exponent_bits"),
        fp8_exponent_bias=FLOAT8.get("exponent_bias"),
        feature_names_per_table=[list(config.feature_names) for config in configs],
    )
    made.initialize_weights()
    if weights is not None and device.type != "meta":
        made.assign_embedding_weights([weights[config.name] for config in configs])
    return made


def as_codes(rows: Tensor, kind: SparseType) -> Tensor:
    """Bytes of a table as tensors that count its columns, where several are in a byte."""
    if kind is SparseType.INT4:
        return UInt4Tensor(rows)
    return UInt2Tensor(rows) if kind is SparseType.INT2 else rows


def bytes_of(rows: Tensor) -> Tensor:
    """What `as_codes` was given."""
    return rows.elem if isinstance(rows, UIntXTensor) else rows


class ShownTable(nn.Module):
    """A table in a state dict: codes of less than a byte are counted there, while the module computes with bytes.

    Args:
        kind: elements of the table.
        rows: its bytes; a view of where they are looked up.
    """

    def __init__(self, kind: SparseType, rows: Tensor) -> None:
        super().__init__()
        self._kind = kind
        self.register_buffer("weight", rows)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = as_codes(destination[f"{prefix}weight"], self._kind)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if f"{prefix}weight" in state_dict:
            state_dict[f"{prefix}weight"] = bytes_of(state_dict[f"{prefix}weight"])
        super()._load_from_state_dict(state_dict, prefix, *args)


def show_tables(
    holder: nn.ModuleDict,
    configs: Sequence[BaseEmbeddingConfig],
    tables: IntNBitTableBatchedEmbeddingBagsCodegen,
    *,
    split_scale_bias: bool,
) -> None:
    """Register views of tables as buffers: `<table>.weight`, and perhaps `weight_qscale` and `weight_qbias`."""
    parts = tables.split_embedding_weights_with_scale_bias(2 if split_scale_bias else 0)
    for config, (codes, scale, bias) in zip(configs, parts, strict=True):
        shown = ShownTable(table_type(config.data_type), codes)
        if scale is not None and bias is not None:
            shown.register_buffer("weight_qscale", scale)
            shown.register_buffer("weight_qbias", bias)
        holder[config.name] = shown

"""Options that travel among those of kernels, and are not for the kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode

if TYPE_CHECKING:
    from flambeau.rec.distributed.embedding_types import GroupedEmbeddingConfig
    from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
        IntNBitTableBatchedEmbeddingBagsCodegen,
    )

__all__ = [
    "FUSED_PARAM_BOUNDS_CHECK_MODE",
    "FUSED_PARAM_EMBEDDING_TABLE_INDEX_TYPE",
    "FUSED_PARAM_EMBEDDING_TABLE_OFFSET_TYPE",
    "FUSED_PARAM_IS_SSD_TABLE",
    "FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP",
    "FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS",
    "FUSED_PARAM_REGISTER_TBE_BOOL",
    "FUSED_PARAM_SSD_TABLE_LIST",
    "FUSED_PARAM_TBE_ROW_ALIGNMENT",
    "TBEToRegisterMixIn",
    "fused_param_bounds_check_mode",
    "fused_param_lengths_to_offsets_lookup",
    "get_embedding_table_index_type",
    "get_embedding_table_offset_type",
    "get_fused_param_tbe_row_alignment",
    "get_tbes_to_register_from_iterable",
    "is_fused_param_quant_state_dict_split_scale_bias",
    "is_fused_param_register_tbe",
    "tbe_fused_params",
]

FUSED_PARAM_REGISTER_TBE_BOOL = "__register_tbes_in_named_modules"
FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS = "__register_quant_state_dict_split_scale_bias"
FUSED_PARAM_TBE_ROW_ALIGNMENT = "__register_tbe_row_alignment"
FUSED_PARAM_BOUNDS_CHECK_MODE = "__register_tbe_bounds_check_mode"
FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP = "__register_lengths_to_offsets_lookup"
FUSED_PARAM_SSD_TABLE_LIST = "__register_ssd_table_list"
FUSED_PARAM_IS_SSD_TABLE = "__register_is_ssd_table"
FUSED_PARAM_EMBEDDING_TABLE_INDEX_TYPE = "embedding_table_index_type"
FUSED_PARAM_EMBEDDING_TABLE_OFFSET_TYPE = "embedding_table_offset_type"

_NOT_FOR_KERNELS = (
    FUSED_PARAM_REGISTER_TBE_BOOL,
    FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
    FUSED_PARAM_TBE_ROW_ALIGNMENT,
    FUSED_PARAM_BOUNDS_CHECK_MODE,
    FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP,
    FUSED_PARAM_SSD_TABLE_LIST,
    FUSED_PARAM_IS_SSD_TABLE,
)


class TBEToRegisterMixIn:
    """A module whose kernels appear among the submodules of the model."""

    @abstractmethod
    def get_tbes_to_register(self) -> dict[IntNBitTableBatchedEmbeddingBagsCodegen, GroupedEmbeddingConfig]:
        """The kernels, and the tables of each."""


def get_tbes_to_register_from_iterable(
    iterable: Iterable[nn.Module],
) -> dict[IntNBitTableBatchedEmbeddingBagsCodegen, GroupedEmbeddingConfig]:
    """The kernels of all modules that offer them, and the tables of each."""
    kernels: dict[IntNBitTableBatchedEmbeddingBagsCodegen, GroupedEmbeddingConfig] = {}
    for module in iterable:
        if isinstance(module, TBEToRegisterMixIn):
            kernels |= module.get_tbes_to_register()
    return kernels


def is_fused_param_register_tbe(fused_params: dict[str, Any] | None) -> bool:
    """Whether kernels appear among the submodules of the model."""
    return bool((fused_params or {}).get(FUSED_PARAM_REGISTER_TBE_BOOL, False))


def get_fused_param_tbe_row_alignment(fused_params: dict[str, Any] | None) -> int | None:
    """The number of bytes of which rows have a multiple, where it is given."""
    found: int | None = (fused_params or {}).get(FUSED_PARAM_TBE_ROW_ALIGNMENT)
    return found


def is_fused_param_quant_state_dict_split_scale_bias(fused_params: dict[str, Any] | None) -> bool:
    """Whether state dictionaries hold scale and shift of rows apart from the rows."""
    return bool((fused_params or {}).get(FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS, False))


def fused_param_bounds_check_mode(fused_params: dict[str, Any] | None) -> BoundsCheckMode | None:
    """What becomes of ids outside of their tables, where it is given."""
    found: BoundsCheckMode | None = (fused_params or {}).get(FUSED_PARAM_BOUNDS_CHECK_MODE)
    return found


def fused_param_lengths_to_offsets_lookup(fused_params: dict[str, Any] | None) -> bool:
    """Whether kernels are given lengths instead of offsets."""
    return bool((fused_params or {}).get(FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP, False))


def get_embedding_table_index_type(fused_params: dict[str, Any] | None) -> torch.dtype:
    """The integers that ids are; int64 unless given."""
    found: torch.dtype = (fused_params or {}).get(FUSED_PARAM_EMBEDDING_TABLE_INDEX_TYPE, torch.int64)
    return found


def get_embedding_table_offset_type(fused_params: dict[str, Any] | None) -> torch.dtype:
    """The integers that offsets are; int64 unless given."""
    found: torch.dtype = (fused_params or {}).get(FUSED_PARAM_EMBEDDING_TABLE_OFFSET_TYPE, torch.int64)
    return found


def tbe_fused_params(fused_params: dict[str, Any] | None) -> dict[str, Any] | None:
    """The options that are for the kernels."""
    if not fused_params:
        return None
    return {name: value for name, value in fused_params.items() if name not in _NOT_FOR_KERNELS}

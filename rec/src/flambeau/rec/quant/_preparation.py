"""What is said to floating modules before they are quantized: attributes that `from_float` reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

MODULE_ATTR_REGISTER_TBES_BOOL = "__register_tbes_in_named_modules"
MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS = "__quant_state_dict_split_scale_bias"
MODULE_ATTR_ROW_ALIGNMENT_INT = "__register_row_alignment_in_named_modules"
MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT = "__emb_name_to_num_rows_post_pruning"
MODULE_ATTR_REMOVE_STBE_PADDING_BOOL = "__remove_stbe_padding"
MODULE_ATTR_USE_UNFLATTENED_LENGTHS_FOR_BATCHING = "__use_unflattened_lengths_for_batching"
MODULE_ATTR_USE_BATCHING_HINTED_OUTPUT = "__use_batching_hinted_output"
MODULE_ATTR_CACHE_FEATURES_ORDER = "__cache_features_order"

DEFAULT_ROW_ALIGNMENT = 16


def for_each_module_of_type_do(
    module: nn.Module, module_types: Sequence[type[nn.Module]], op: Callable[[nn.Module], None]
) -> None:
    """Call a function for each module of some types, the module itself and those below it.

    Args:
        module: where to look.
        module_types: which; a module counts if it is of one of these types exactly, or of a subclass.
        op: is given each.
    """
    for found in module.modules():
        if isinstance(found, tuple(module_types)):
            op(found)


def _say(module: nn.Module, module_types: Sequence[type[nn.Module]], name: str, value: Any) -> None:
    for_each_module_of_type_do(module, module_types, lambda found: setattr(found, name, value))


def quant_prep_enable_quant_state_dict_split_scale_bias(module: nn.Module) -> None:
    """Have a module's state dict hold scales and biases by themselves."""
    setattr(module, MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS, True)


def quant_prep_enable_quant_state_dict_split_scale_bias_for_types(
    module: nn.Module, module_types: list[type[nn.Module]]
) -> None:
    """Have the state dicts of some types of modules hold scales and biases by themselves.

    Args:
        module: where to look.
        module_types: of the modules.
    """
    _say(module, module_types, MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS, True)


def quant_prep_enable_register_tbes(module: nn.Module, module_types: list[type[nn.Module]]) -> None:
    """Have quantized modules register their tables as submodules, `tbes`.

    Args:
        module: where to look.
        module_types: of the modules.
    """
    _say(module, module_types, MODULE_ATTR_REGISTER_TBES_BOOL, True)


def quant_prep_customize_row_alignment(
    module: nn.Module, module_types: list[type[nn.Module]], row_alignment: int
) -> None:
    """Say what the bytes of quantized rows are a multiple of.

    Args:
        module: where to look.
        module_types: of the modules.
        row_alignment: bytes.
    """
    _say(module, module_types, MODULE_ATTR_ROW_ALIGNMENT_INT, row_alignment)


def quant_prep_enable_cache_features_order(module: nn.Module, module_types: list[type[nn.Module]]) -> None:
    """Say that all batches have their features in one order, so that it needs to be found out once.

    Args:
        module: where to look.
        module_types: of the modules.
    """
    _say(module, module_types, MODULE_ATTR_CACHE_FEATURES_ORDER, True)

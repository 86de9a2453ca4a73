"""Looking into models with sharded quantized modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flambeau.rec.distributed.quant_embedding import ShardedQuantEmbeddingCollection
from flambeau.rec.distributed.quant_embeddingbag import ShardedQuantEmbeddingBagCollection
from flambeau.rec.distributed.quant_state import ShardedQuantEmbeddingModuleState
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)

__all__ = [
    "get_all_torchrec_modules",
    "get_non_scriptable_trec_module",
    "get_path_device_tuples",
    "get_tbe_specs_from_sharded_module",
    "get_tbes_from_sharded_module",
]

_SHARDED = (ShardedQuantEmbeddingBagCollection, ShardedQuantEmbeddingCollection)


def get_tbes_from_sharded_module(module: nn.Module) -> list[IntNBitTableBatchedEmbeddingBagsCodegen]:
    """The kernels of a sharded quantized module, those of the first device first.

    Args:
        module: a `ShardedQuantEmbeddingBagCollection` or `ShardedQuantEmbeddingCollection`.

    Raises:
        AssertionError: another module; it is a ValueError too.
    """
    if not isinstance(module, _SHARDED):
        expected = " or ".join(kind.__name__ for kind in _SHARDED)
        raise OptionError(f"module is a {type(module).__name__}, expected a {expected}.")
    return list(module.tbes_configs())


def get_tbe_specs_from_sharded_module(module: nn.Module) -> list[tuple[str, int, int, str, str]]:
    """Name, rows, columns, elements and location of all parts of tables of a sharded quantized module.

    Args:
        module: see `get_tbes_from_sharded_module`.

    Raises:
        AssertionError: another module; it is a ValueError too.
    """
    return [
        (name, rows, columns, str(kind.value), f"EmbeddingLocation.{location.name}")
        for tables in get_tbes_from_sharded_module(module)
        for name, rows, columns, kind, location in tables.embedding_specs
    ]


def get_path_device_tuples(module: object, ignore_list: list[str] | None = None) -> list[tuple[str, str]]:
    """What an object and all below it say about devices: attributes that are devices, or called so.

    Args:
        module: where to look: attributes, lists, tuples and dictionaries.
        ignore_list: names of attributes that are left out.

    Returns:
        Paths and devices, each path once, in the order in which they are met.
    """
    ignored = set(ignore_list or ())
    found: list[tuple[str, str]] = []
    _devices_below(module, "", ignored, set(), found)
    return found


def _devices_below(item: Any, path: str, ignored: set[str], above: set[int], found: list[tuple[str, str]]) -> None:
    if id(item) in above:
        return
    above = above | {id(item)}
    if isinstance(item, list | tuple):
        for at, one in enumerate(item):
            _devices_below(one, f"{path}[{at}]", ignored, above, found)
    elif isinstance(item, dict):
        for key, one in item.items():
            _devices_below(one, f"{path}[{key}]", ignored, above, found)
    elif not isinstance(item, torch.Tensor) and hasattr(item, "__dict__") and not isinstance(item, type):
        for name, one in vars(item).items():
            if name in ignored or name.startswith("__"):
                continue
            where = f"{path}.{name}"
            if isinstance(one, torch.device) or (name.lstrip("_").startswith("device") and isinstance(one, str | None)):
                found.append((where, str(one)))
            else:
                _devices_below(one, where, ignored, above, found)


def get_all_torchrec_modules(
    model: nn.Module, trec_module_class_types: list[type[nn.Module]] | None = None
) -> dict[str, nn.Module]:
    """Collections of embeddings in a model, sharded and not.

    Args:
        model: where to look.
        trec_module_class_types: modules of which classes; sharded quantized collections by default.

    Returns:
        By path, those that stand outermost.
    """
    kinds: tuple[type[nn.Module], ...] = tuple(trec_module_class_types or (ShardedQuantEmbeddingModuleState,))
    found: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        if isinstance(module, kinds) and not any(path.startswith(f"{other}.") for other in found):
            found[path] = module
    return found


def get_non_scriptable_trec_module(model: nn.Module) -> dict[str, nn.Module]:
    """Sharded quantized collections of a model, which programs are made of by export and not by scripts.

    Args:
        model: where to look.
    """
    return get_all_torchrec_modules(model)

"""Quantized collections: names for tools that trace them, and tables of the meta device made real."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flambeau.rec.quant.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

__all__ = ["meta_to_cpu_placement", "populate_fx_names", "recursive_populate_fx_names"]


def populate_fx_names(quant_ebc: Any) -> None:
    """Name each group of tables that are looked up together, as `_fx_path`, by the tables in it.

    Args:
        quant_ebc: a quantized `EmbeddingBagCollection`, or one over several devices.
    """
    if hasattr(quant_ebc, "tbes_configs"):  # over several devices, which this package knows nothing of
        for made, config in quant_ebc.tbes_configs().items():
            made._fx_path = f"emb_module.{','.join(config.table_names())}"
        return
    groups = zip(quant_ebc._key_to_tables.values(), quant_ebc._emb_modules, strict=True)
    for tables, made in groups:
        made._fx_path = f"emb_module.{','.join(table.name for table in tables)}"


def recursive_populate_fx_names(module: nn.Module) -> None:
    """`populate_fx_names` of a module and all below it.

    Args:
        module: where to look.
    """
    for found in module.modules():
        if isinstance(found, EmbeddingBagCollection) or hasattr(found, "tbes_configs"):
            populate_fx_names(found)


def meta_to_cpu_placement(module: nn.Module) -> None:
    """Give the quantized collections below a module memory on the CPU, zeros, where they are on the meta device.

    Args:
        module: where to look; it is changed in place.
    """
    for name, child in module.named_children():
        if isinstance(child, EmbeddingBagCollection | EmbeddingCollection) and child.device.type == "meta":
            setattr(module, name, _on_cpu(child))
        else:
            meta_to_cpu_placement(child)


def _on_cpu(found: EmbeddingBagCollection | EmbeddingCollection) -> nn.Module:
    shared = {
        "device": torch.device("cpu"),
        "output_dtype": found.output_dtype(),
        "register_tbes": found.register_tbes,
        "quant_state_dict_split_scale_bias": any(key.endswith("weight_qscale") for key in found.state_dict()),
        "row_alignment": found.row_alignment,
    }
    if isinstance(found, EmbeddingBagCollection):
        return EmbeddingBagCollection(found.embedding_bag_configs(), found.is_weighted(), **shared)  # type: ignore[arg-type]
    return EmbeddingCollection(found.embedding_configs(), need_indices=found.need_indices(), **shared)  # type: ignore[arg-type]

"""Quantized models of either library over the devices of one process, which all are the CPU, and what they give."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from quant_describing import DTYPES, floating, results
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.core.testing.fill import fill_

Library = Any

SHARDINGS = {"tables": "table_wise", "columns": "column_wise", "rows": "row_wise"}


def part(library: Library, name: str) -> Any:
    """A module of a library by its path below the root."""
    return importlib.import_module(f"{'flambeau.rec' if library.ours else 'torchrec'}.{name}")


# ----- several devices that are one -----------------------------------------------------------------------------------

_DEVICE = torch.device


class _CpuForCuda(type):
    """`torch.device`, for which every "cuda" is the CPU."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        made = _DEVICE(*args, **kwargs)
        return _DEVICE("cpu") if made.type == "cuda" else made

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _DEVICE)


class _Device(metaclass=_CpuForCuda):
    pass


class _Torch(types.ModuleType):
    device = _Device

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextlib.contextmanager
def without_cuda(library: Library) -> Iterator[None]:
    """Have upstream's devices, which are "cuda" whatever it is told, be the CPU; nothing needs that on our side."""
    if library.ours:
        yield
        return
    stand_in = _Torch("torch")
    changed = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("torchrec.distributed") and getattr(module, "torch", None) is torch
    ]
    c10d = torch._C._distributed_c10d
    missing = not hasattr(c10d, "ProcessGroupNCCL")
    try:
        for module in changed:
            module.torch = stand_in
        if missing:  # upstream changes how it is copied
            c10d.ProcessGroupNCCL = type("ProcessGroupNCCL", (), {})
        yield
    finally:
        for module in changed:
            module.torch = torch
        if missing:
            del c10d.ProcessGroupNCCL


# ----- models ---------------------------------------------------------------------------------------------------------


def _sums(library: Library, *, weighted: bool = False) -> torch.nn.Module:
    """Tables that are all summed."""
    configs = part(library, "modules.embedding_configs")
    tables = [
        configs.EmbeddingBagConfig(
            name=name, embedding_dim=dim, num_embeddings=rows, feature_names=features, pooling=configs.PoolingType.SUM
        )
        for name, dim, rows, features in (("t1", 16, 10, ["f1", "f3"]), ("t2", 8, 12, ["f2"]), ("t3", 24, 11, ["f2"]))
    ]
    made = part(library, "modules.embedding_modules").EmbeddingBagCollection(tables=tables, is_weighted=weighted)
    return fill_(made) or made


def _processed(library: Library) -> torch.nn.Module:
    processors = part(library, "modules.feature_processor_")
    made = part(library, "modules.fp_embedding_modules").FeatureProcessedEmbeddingBagCollection(
        _sums(library, weighted=True),
        processors.PositionWeightedModuleCollection(dict.fromkeys(("f1", "f2", "f3"), 5)),
    )
    return fill_(made) or made


class Model(torch.nn.Module):
    """A model that is one quantized collection, `c`."""

    def __init__(
        self, library: Library, kind: str, dtype: str, *, split: bool = True, output: torch.dtype = torch.float32,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        target = part(library, "quant.embedding_modules")
        if kind == "processed":
            module, quantized = _processed(library), target.FeatureProcessedEmbeddingBagCollection
        elif kind == "rows":
            module, quantized = floating(library, "rows", **options), target.EmbeddingCollection
        else:
            module = _sums(library, **options) if kind == "bags" else floating(library, "bags", **options)
            quantized = target.EmbeddingBagCollection
        if not split:  # rows of sharded tables are filled up to nothing
            target.quant_prep_customize_row_alignment(module, [type(module)], 1)
        if split:
            target.quant_prep_enable_quant_state_dict_split_scale_bias(module)
            if kind == "processed":
                target.quant_prep_enable_quant_state_dict_split_scale_bias(module._embedding_bag_collection)
        module.qconfig = part(library, "modules.embedding_configs").QuantConfig(
            activation=PlaceholderObserver.with_args(dtype=output),
            weight=PlaceholderObserver.with_args(dtype=DTYPES[dtype]),
            per_table_weight_dtype=None,
        )
        self.c = quantized.from_float(module)

    def forward(self, features: Any) -> Any:
        return self.c(features)


def sharders(library: Library, *, split: bool = True, register: bool = True, **more: Any) -> list[Any]:
    """Of all quantized collections."""
    params = part(library, "distributed.fused_params")
    options = {
        params.FUSED_PARAM_REGISTER_TBE_BOOL: register,
        params.FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS: split,
    }
    bags, rows = part(library, "distributed.quant_embeddingbag"), part(library, "distributed.quant_embedding")
    kinds = (
        bags.QuantEmbeddingBagCollectionSharder,
        bags.QuantFeatureProcessedEmbeddingBagCollectionSharder,
        rows.QuantEmbeddingCollectionSharder,
    )
    return [kind(fused_params=dict(options), **more) for kind in kinds]


def constraints(library: Library, how: str) -> dict[str, Any]:
    """All tables spread in one way."""
    kind = part(library, "distributed.planner.types").ParameterConstraints
    return {
        name: kind(sharding_types=[SHARDINGS.get(how, how)], compute_kernels=["quant"], min_partition=8)
        for name in ("t1", "t2", "t3")
    }


def sharded(
    library: Library, kind: str, dtype: str, how: str, world: int = 2, *, split: bool = True, register: bool = True,
    device: str = "cpu", **options: Any,
) -> tuple[torch.nn.Module, Any]:  # fmt: skip
    """A sharded model with the weights of the whole one, and the plan."""
    model = Model(library, kind, dtype, split=split, **options)
    whole = {name: value for name, value in model.state_dict().items() if "embedding" in name}
    made, plan = part(library, "inference.modules").shard_quant_model(
        model,
        world_size=world,
        compute_device="cpu",
        sharding_device=device,
        sharders=sharders(library, split=split, register=register),
        constraints=constraints(library, how),
    )
    if device != "meta":
        fill(made, whole)
    return made, plan


def fill(model: torch.nn.Module, whole: dict[str, Any]) -> None:
    """Copy the tables of a whole model into those of a sharded one, as programs for upstream do."""
    with torch.no_grad():
        for name, target in model.state_dict().items():
            if name not in whole:
                continue
            source = whole[name]
            if hasattr(target, "local_shards"):
                for shard in target.local_shards():
                    (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
                    shard.tensor.copy_(source[row : row + rows, column : column + columns])
            elif isinstance(target, list):
                for one in target:
                    one.copy_(source)
            else:
                target.copy_(source)


def mapped(library: Library, kind: str, world: int = 2) -> tuple[Any, Any, Any]:
    """A sharded collection whose ids are mapped to rows first, its plan and its sharder."""
    configs, modules = part(library, "modules.embedding_configs"), part(library, "modules.mc_modules")
    bags = kind == "bags"
    config = configs.EmbeddingBagConfig if bags else configs.EmbeddingConfig
    tables = [
        config(name="t1", embedding_dim=16, num_embeddings=8, feature_names=["f1", "f3"]),
        config(name="t2", embedding_dim=16, num_embeddings=12, feature_names=["f2"]),
    ]
    floating_modules = part(library, "modules.embedding_modules")
    made = (floating_modules.EmbeddingBagCollection if bags else floating_modules.EmbeddingCollection)(tables=tables)
    fill_(made)
    managed = {
        table.name: modules.MCHManagedCollisionModule(
            zch_size=table.num_embeddings, device=torch.device("cpu"), eviction_interval=1,
            eviction_policy=modules.DistanceLFU_EvictionPolicy(), input_hash_size=100,
        )
        for table in tables
    }  # fmt: skip
    name = "EmbeddingBagCollection" if bags else "EmbeddingCollection"
    outer = getattr(part(library, "modules.mc_embedding_modules"), f"ManagedCollision{name}")(
        made, modules.ManagedCollisionCollection(managed_collision_modules=managed, embedding_configs=tables)
    )
    target = part(library, "quant.embedding_modules")
    for module in (outer, made):
        target.quant_prep_enable_quant_state_dict_split_scale_bias(module)
    outer.qconfig = configs.QuantConfig(
        activation=PlaceholderObserver.with_args(dtype=torch.float32),
        weight=PlaceholderObserver.with_args(dtype=torch.qint8),
        per_table_weight_dtype=None,
    )
    quantized = getattr(target, f"QuantManagedCollision{name}").from_float(outer.eval())
    of_tables = sharders(library)[0 if bags else 2]
    room = part(library, "distributed.quant_embeddingbag" if bags else "distributed.quant_embedding")
    sharder = getattr(room, f"QuantManagedCollision{name}Sharder")(
        of_tables, part(library, "distributed.mc_modules").InferManagedCollisionCollectionSharder()
    )
    told = [
        type(sharder).__name__, sharder.module_type.__name__, sharder.sharding_types("cpu"),
        sharder.compute_kernels("row_wise", "cuda"), sorted(sharder.fused_params),
        {name: list(one.shape) for name, one in sharder.shardable_parameters(quantized).items()},
    ]  # fmt: skip
    model = torch.nn.Module()
    model.c = quantized
    whole = {name: value for name, value in model.state_dict().items() if "_managed" not in name}
    model, plan = part(library, "inference.modules").shard_quant_model(
        model, world_size=world, compute_device="cpu", sharding_device="cpu", sharders=[sharder],
        constraints=constraints(library, "rows"),
    )  # fmt: skip
    fill(model, whole)
    return model, plan, told


# ----- what they are --------------------------------------------------------------------------------------------------


def tensor_of(value: Any) -> Any:
    """What a state dictionary holds."""
    if hasattr(value, "local_shards"):
        return [
            "sharded", list(value.metadata().size),
            [[list(one.metadata.shard_offsets), list(one.metadata.shard_sizes), tensor_of(one.tensor)]
             for one in value.local_shards()],
        ]  # fmt: skip
    if isinstance(value, list):
        return [tensor_of(one) for one in value]
    return [type(value).__name__, list(value.shape), str(value.dtype), getattr(value, "elem", value)]


def state(model: torch.nn.Module) -> dict[str, Any]:
    """The tables of a model; what kernels keep beside them is their own business."""
    return {name: tensor_of(value) for name, value in model.state_dict().items() if "tbes." not in name}


def planned(plan: Any) -> Any:
    """Where tables go."""
    return {
        path: {
            name: [one.sharding_type, one.compute_kernel, one.ranks,
                   [[list(shard.shard_offsets), list(shard.shard_sizes), str(shard.placement)]
                    for shard in one.sharding_spec.shards]]
            for name, one in tables.items()
        }
        for path, tables in plan.plan.items()
    }  # fmt: skip


def by_name(found: Any) -> Any:
    """Results without the order of tables."""
    if isinstance(found, dict):
        return results(found)
    return {name: found[name] for name in sorted(found.keys())}

"""Quantized collections over the devices of one process do what upstream's do: plans, states and look-ups."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

from quant_describing import features
from quant_sharding_subjects import (
    Model,
    by_name,
    constraints,
    fill,
    mapped,
    part,
    planned,
    sharded,
    sharders,
    state,
    without_cuda,
)

from flambeau.core.testing.differential import Cell, Suite, cross

for _root in ("torchrec", "flambeau.rec"):
    for _module in ("sparse.jagged_tensor", "modules.embedding_configs", "modules.embedding_modules", "tensor_types",
                    "quant.embedding_modules", "inference.modules", "distributed.quant_embedding", "pt2.checks",
                    "pt2.utils", "distributed.quant_embeddingbag", "distributed.infer_utils", "distributed.quant_state",
                    "distributed.shards_wrapper", "distributed.embedding_lookup"):  # fmt: skip
        importlib.import_module(f"{_root}.{_module}")

SUITE = Suite(
    "quant-sharding",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-5,
    atol=1e-6,
)
Library = Any


def add(name: str, call: Callable[[Library], Any]) -> None:
    def run(library: Library, given: dict[str, Any]) -> Any:
        with without_cuda(library):
            return call(library)

    SUITE.add(Cell(name, name.split("/")[0], run, effects=False, printed=False))


# ----- look-ups -------------------------------------------------------------------------------------------------------

DTYPES = ("int8", "int4", "int2", "half")
HOW = ("tables", "columns", "rows")


def looked_up(kind: str, dtype: str, how: str, world: int, form: str = "plain", **options: Any) -> Any:
    def call(library: Library) -> Any:
        model, _ = sharded(library, kind, dtype, how, world, **options)
        with torch.no_grad():
            found = model(features(library, form=form, weighted=bool(options.get("weighted"))))
        return [by_name(found), list(found.keys())]

    return call


for _kind in ("bags", "rows"):
    for _how in HOW:
        for _dtype in DTYPES:
            for _world in (1, 2, 3):
                add(f"forward/{_kind}/{_how}/{_dtype}/{_world}", looked_up(_kind, _dtype, _how, _world))
        for _form in ("other-order", "more", "empty", "int32"):
            add(f"batches/{_kind}/{_how}/{_form}", looked_up(_kind, "int8", _how, 2, _form))
        for _output in (torch.float16, torch.bfloat16):
            add(f"outputs/{_kind}/{_how}/{_output}", looked_up(_kind, "int8", _how, 2, output=_output))
for _how in HOW:
    add(f"means/{_how}", looked_up("means", "int8", _how, 2))
    add(f"weighted/{_how}", looked_up("bags", "int8", _how, 2, weighted=True))
    add(f"indices/{_how}", looked_up("rows", "int8", _how, 2, need_indices=True))
for _dtype in ("int8", "int4", "half"):
    for _kind in ("bags", "rows"):
        add(f"whole rows/{_kind}/{_dtype}", looked_up(_kind, _dtype, "tables", 2, split=False))
for _how in ("tables", "columns"):
    for _dtype in ("int8", "int4"):
        for _world in (1, 2):
            add(f"processed/{_how}/{_dtype}/{_world}", looked_up("processed", _dtype, _how, _world))

# ----- plans, states, and what is told --------------------------------------------------------------------------------


def told(about: Callable[[Library, torch.nn.Module, Any], Any], *arguments: Any, **options: Any) -> Any:
    def call(library: Library) -> Any:
        model, plan = sharded(library, *arguments, **options)
        return about(library, model, plan)

    return call


def _specs(library: Library, model: torch.nn.Module, plan: Any) -> Any:
    found = part(library, "distributed.quant_state").sharded_tbes_weights_spec(model)
    return {name: dataclasses.asdict(one) for name, one in found.items()}


def _kernels(library: Library, model: torch.nn.Module, plan: Any) -> Any:
    utils = part(library, "distributed.infer_utils")
    tables = utils.get_tbes_from_sharded_module(model.c)
    return [
        utils.get_tbe_specs_from_sharded_module(model.c), [type(one).__name__ for one in tables],
        [one.feature_table_map for one in tables], [one.row_alignment for one in tables],
        [one.output_dtype for one in tables], [one.bounds_check_mode_int for one in tables],
        [int(one.pooling_mode) for one in tables],
        [one is other for one, other in zip(tables, model.c.tbes, strict=True)],
    ]  # fmt: skip


def _names(library: Library, model: torch.nn.Module, plan: Any) -> Any:
    with torch.no_grad():
        found = model(features(library))
    # What is below results' collection differs: merging is one call here.
    deep = ("_dist.", "_permute", "tbes.")
    return [
        [name for name, _ in model.named_modules() if not any(one in name for one in deep)],
        [name for name, _ in model.named_parameters()], type(model.c).__name__, type(found).__name__,
        sorted(part(library, "distributed.infer_utils").get_all_torchrec_modules(model)),
        sorted(part(library, "distributed.infer_utils").get_non_scriptable_trec_module(model)),
    ]  # fmt: skip


def _configs(library: Library, model: torch.nn.Module, plan: Any) -> Any:
    collection = model.c
    infos = collection.sharding_type_device_group_to_sharding_infos()
    return [
        {str(key): [[one.embedding_config.name, one.param_sharding.sharding_type, sorted(one.fused_params)]
                    for one in of_key] for key, of_key in infos.items()},
        {str(key): type(sharding).__name__ for key, sharding in collection.shardings.items()},
        [[config.data_type, config.pooling, config.is_weighted, config.compute_kernel, config.table_names(),
          config.feature_names(), config.embedding_dims()] for config in collection.tbes_configs().values()],
        [[type(lookup).__name__, [type(one).__name__ for one in lookup._embedding_lookups_per_rank]]
         for lookup in collection._lookups],
    ]  # fmt: skip


def _lookup_states(library: Library, model: torch.nn.Module, plan: Any) -> Any:
    (lookup,) = model.c._lookups
    first = lookup._embedding_lookups_per_rank[0]
    kernel = first._emb_modules[0]
    listed = lambda module: [[name, list(one.shape)] for name, one in module.named_buffers()]  # noqa: E731
    return [
        {name: list(one.shape) for name, one in lookup.state_dict().items()}, listed(lookup),
        list(lookup.named_parameters()), {name: list(one.shape) for name, one in first.state_dict().items()},
        listed(first), list(kernel.state_dict()), listed(kernel),
        [[None if one is None else list(one.shape) for one in parts] for parts in kernel.split_embedding_weights()],
    ]  # fmt: skip


def _stages(library: Library, model: torch.nn.Module, plan: Any) -> Any:
    collection = model.c
    ctx = collection.create_context()
    given = collection.input_dist(ctx, features(library))
    asked = [[[one.keys(), one.values(), one.lengths()] for one in per_rank] for per_rank in given]
    found = collection.compute(ctx, given)
    shapes = [[list(one.shape) for one in per_rank] for per_rank in found]
    noted = [
        [one.unbucketize_permute_tensor, one.bucket_mapping_tensor, one.bucketized_length, one.embedding_names_per_rank]
        for one in getattr(ctx, "sharding_contexts", [])
    ]
    merged = collection.output_dist(ctx, found)
    both = collection.compute_and_output_dist(ctx, given)
    return [type(given).__name__, asked, shapes, noted, by_name(merged), by_name(both), type(ctx).__name__]


def _loaded(library: Library, model: torch.nn.Module, plan: Any) -> Any:
    answer = model.load_state_dict(model.state_dict())
    return [list(answer.missing_keys), list(answer.unexpected_keys), collection_is_itself(model)]


def collection_is_itself(model: torch.nn.Module) -> bool:
    return model.c.copy(torch.device("cpu")) is model.c


ABOUT = {
    "plan": lambda library, model, plan: planned(plan),
    "state": lambda library, model, plan: state(model),
    "specs": _specs,
    "kernels": _kernels,
    "names": _names,
    "configs": _configs,
    "lookups": _lookup_states,
    "stages": _stages,
    "loaded": _loaded,
}
for _kind in ("bags", "rows"):
    for _how in HOW:
        for _world in (1, 2, 3):
            for _about in ("plan", "state", "specs"):
                add(f"{_about}/{_kind}/{_how}/int4/{_world}", told(ABOUT[_about], _kind, "int4", _how, _world))
        for _about in ("state", "specs", "kernels", "names", "configs", "lookups", "stages", "loaded"):
            add(f"{_about}/{_kind}/{_how}/int8/2", told(ABOUT[_about], _kind, "int8", _how, 2))
    for _about in ("plan", "state", "specs", "kernels", "names"):
        add(f"{_about}/{_kind}/whole rows", told(ABOUT[_about], _kind, "int8", "tables", 2, split=False))
    add(f"names/{_kind}/not registered", told(_names, _kind, "int8", "tables", 2, register=False))
    for _about in ("plan", "state", "names"):
        add(f"{_about}/{_kind}/meta", told(ABOUT[_about], _kind, "int8", "tables", 2, device="meta"))
for _how in ("tables", "columns"):
    for _about in ("plan", "state", "specs", "names"):
        add(f"{_about}/processed/{_how}", told(ABOUT[_about], "processed", "int8", _how, 2))


def _shapes(described: Any) -> Any:
    """What a state dictionary holds, without values, which stay zeros on upstream's side here."""
    if isinstance(described, list):
        return [_shapes(one) for one in described]
    return None if isinstance(described, torch.Tensor) else described


# Where ids go, and which rows they get, begins anew in each part; plans and states can be compared.
for _kind in ("rows", "bags"):
    for _about in ("plan", "specs", "state", "sharder", "names"):

        def _mapping(library: Library, kind: str = _kind, about: str = _about) -> Any:
            model, plan, sharder = mapped(library, kind)
            if about == "sharder":
                return sharder
            if about == "names":
                inner = model.c._managed_collision_collection
                return [type(model.c).__name__, type(inner).__name__, type(model.c.create_context()).__name__]
            if about == "state":
                return {name: _shapes(one) for name, one in state(model).items() if "_mc" not in name}
            return ABOUT[about](library, model, plan)

        add(f"{_about}/mapped/{_kind}", _mapping)

# ----- defaults, sharders, errors -------------------------------------------------------------------------------------


def asked(call: Callable[[Library, Any], Any]) -> Callable[[Library], Any]:
    return lambda library: call(library, part(library, "inference.modules"))


CPU = {"world_size": 2, "compute_device": "cpu", "sharding_device": "cpu"}


def _by_default(kind: str, **options: Any) -> Callable[[Library], Any]:
    def call(library: Library) -> Any:
        model = Model(library, kind, "int8")
        whole = model.state_dict()
        made, plan = part(library, "inference.modules").shard_quant_model(model, **{**CPU, **options})
        fill(made, whole)
        names = sorted(state(made))
        with torch.no_grad():
            return [planned(plan), names, by_name(made(features(library)))]

    return call


def _bare(library: Library) -> Any:
    made, plan = part(library, "inference.modules").shard_quant_model(Model(library, "bags", "int8").c, **CPU)
    return [type(made).__name__, planned(plan), sorted(state(made))]


def _by_plan(library: Library) -> Any:
    _, plan = sharded(library, "bags", "int8", "rows")
    made, again = part(library, "inference.modules").shard_quant_model(
        Model(library, "bags", "int8"), **CPU, sharders=sharders(library), sharding_plan=plan
    )
    return [planned(again), sorted(state(made))]


for _kind in ("bags", "rows", "processed"):
    add(f"defaults/{_kind}", _by_default(_kind))
add("defaults/values before they are loaded", lambda library: part(library, "inference.modules").shard_quant_model(
    Model(library, "bags", "int8"), **CPU)[0](features(library)).values())  # fmt: skip
add("defaults/bare", _bare)
add("defaults/by a plan", _by_plan)
for _options in ({"world_size": 0}, {"compute_device": "nope"}, {"sharding_device": "nope"}, {"ddr_cap": 10},
                 {"ddr_cap": 10**9, "device_memory_size": 10**9}):  # fmt: skip
    add(f"defaults/{_options}", _by_default("bags", **_options))
for _how in ("columns", "rows"):
    for _kind in ("bags", "rows"):
        add(f"errors/{_kind}/{_how}/whole rows", told(ABOUT["plan"], _kind, "int8", _how, 2, split=False))
add("errors/processed/rows", told(ABOUT["plan"], "processed", "int8", "rows", 2))
add("errors/data parallel", told(ABOUT["plan"], "bags", "int8", "data_parallel", 2))
add("errors/a missing feature", lambda library: sharded(library, "bags", "int8", "tables")[0](
    features(library)[["f1"]] if False else part(library, "sparse.jagged_tensor").KeyedJaggedTensor(
        keys=["f1"], values=torch.tensor([1]), lengths=torch.tensor([1]))))  # fmt: skip
for _name in ("get_tbes_from_sharded_module", "get_tbe_specs_from_sharded_module"):
    add(f"errors/{_name}", lambda library, name=_name: getattr(part(library, "distributed.infer_utils"), name)(
        torch.nn.Linear(1, 1)))  # fmt: skip


def _sharder(at: int, text: str) -> Callable[[Library], Any]:
    return lambda library: eval(text, {"s": sharders(library)[at], "m": _Collections(library), "at": at})


class _Collections:
    def __init__(self, library: Library) -> None:
        self.library = library

    def __getitem__(self, kind: str) -> Any:
        return Model(self.library, kind, "int4").c


for _at, _kind in enumerate(("bags", "processed", "rows")):
    for _text in (
        "s.module_type.__name__",
        "sorted(s.fused_params)",
        "[s.sharding_types(d) for d in ('cpu', 'cuda', 'mtia')]",
        "[s.compute_kernels(t, d) for t in ('table_wise', 'row_wise') for d in ('cpu', 'cuda')]",
        f"{{k: list(v.shape) for k, v in s.shardable_parameters(m['{_kind}']).items()}}",
        f"[s.storage_usage(v, d, k) for v in s.shardable_parameters(m['{_kind}']).values() for d in ('cpu', 'cuda') "
        "for k in ('quant', 'quant_uvm')]",
        f"sorted(type(s)(shardable_params=['t1']).shardable_parameters(m['{_kind}']))",
        f"sorted(type(s)(shardable_params=['nope']).shardable_parameters(m['{_kind}']))",
    ):
        add(f"sharders/{_kind}/{_text}", _sharder(_at, _text))

for _text in (
    "state.get_param_id_from_type(True, False, False)",
    "state.get_param_id_from_type(False, True, False)",
    "state.get_param_id_from_type(False, False, True)",
    "state.get_param_id_from_type(False, False, False)",
    "state.WeightSpec('a', [0, 1], [2, 3], 'row_wise')",
    "lookup.embeddings_cat_empty_rank_handle_inference([])",
    "lookup.embeddings_cat_empty_rank_handle_inference([], 1, 'cpu', torch.float16)",
    "lookup.embeddings_cat_empty_rank_handle_inference([torch.ones(2, 3)])",
    "lookup.embeddings_cat_empty_rank_handle_inference([torch.ones(2, 3), torch.zeros(2, 1)], 1)",
    "rows.annotate_embedding_names(['a', 'b'], [])",
    "rows.format_embedding_names_per_rank_per_sharding([[['a'], ['b']]], [])",
    "rows.input_dist_permute(f, [2, 0, 1], torch.tensor([2, 0, 1], dtype=torch.int32)).values()",
    "bags.flatten_feature_lengths(f).lengths()",
    "[rows.EmbeddingCollectionContext(sharding_contexts=[]).sharding_contexts]",
):
    add(f"functions/{_text}", lambda library, text=_text: eval(text, {
        "state": part(library, "distributed.quant_state"), "lookup": part(library, "distributed.embedding_lookup"),
        "rows": part(library, "distributed.quant_embedding"), "bags": part(library, "distributed.quant_embeddingbag"),
        "f": features(library), "torch": torch}))  # fmt: skip


def _kernel(bag: bool, dtype: torch.dtype) -> Callable[[Library], Any]:
    """A floating kernel becomes a quantized one."""

    def call(library: Library) -> Any:
        from torch.ao.quantization.observer import PlaceholderObserver

        types = part(library, "distributed.embedding_types")
        kernels = part(library, "distributed.batched_embedding_kernel")
        quantized = part(library, "distributed.quant_embedding_kernel")
        configs = part(library, "modules.embedding_configs")
        pooling = configs.PoolingType.SUM if bag else configs.PoolingType.NONE
        table = types.ShardedEmbeddingTable(
            num_embeddings=10, embedding_dim=8, name="t", embedding_names=["f"], data_type=configs.DataType.FP32,
            feature_names=["f"], pooling=pooling, is_weighted=False, has_feature_processor=False, local_rows=10,
            local_cols=8, compute_kernel=types.EmbeddingComputeKernel.DENSE, weight_init_max=0.5, weight_init_min=-0.5,
        )  # fmt: skip
        config = types.GroupedEmbeddingConfig(
            configs.DataType.FP32, pooling, False, False, types.EmbeddingComputeKernel.DENSE, [table]
        )
        kind = kernels.BatchedDenseEmbeddingBag if bag else kernels.BatchedDenseEmbedding
        kernel = kind(config, device=torch.device("cpu"))
        with torch.no_grad():
            for weight in kernel.split_embedding_weights():
                weight.copy_(torch.arange(80.0).view(10, 8) / 7)
        kernel.qconfig = configs.QuantConfig(
            activation=PlaceholderObserver.with_args(dtype=torch.float32),
            weight=PlaceholderObserver.with_args(dtype=dtype),
            per_table_weight_dtype=None,
        )
        made = (quantized.QuantBatchedEmbeddingBag if bag else quantized.QuantBatchedEmbedding).from_float(kernel)
        asked = part(library, "sparse.jagged_tensor").KeyedJaggedTensor(
            keys=["f"], values=torch.tensor([1, 9, 3]), lengths=torch.tensor([2, 0, 1])
        )
        return [made(asked), [name for name, _ in made.named_buffers()], type(made.emb_module).__name__]

    return call


for _bag in (True, False):
    for _dtype in (torch.qint8, torch.quint4x2):
        add(f"kernels of floating ones/{'bags' if _bag else 'rows'}/{_dtype}", _kernel(_bag, _dtype))

# ----- codes of less than a byte, parts of tensors, what is told to compilers -----------------------------------------

CODES = {
    "bytes": {
        "e": lambda library: torch.arange(12, dtype=torch.uint8).view(3, 4),
        "d": lambda library: torch.arange(20, 32, dtype=torch.uint8).view(3, 4),
        "b": lambda library: torch.ones(3, 4, dtype=torch.uint8),
    }
}
_SEEN = "(lambda r: [type(r).__name__, list(r.shape), str(r.dtype), getattr(r, 'elem', r), r.stride()])"
_OF_BYTES = [
    *(f"{_SEEN}({text})" for text in (
        "x", "x.detach()", "x.clone()", "x.contiguous()", "x.view(torch.uint8)", "x.view(3, -1)", "x.flatten()",
        "x[0:2]", "x[:, 0:4]", "x[1]", "x[:, 1:4]", "x.narrow(0, 1, 2)", "x.narrow(1, 0, 4)", "x.select(0, 1)",
        "x.to('cpu')",
        "x.to(torch.uint8)", "x.float()", "x.copy_(y)", "x.data", "copy.deepcopy(x)", "torch.nn.Parameter(x, False)",
        "torch.ops.aten.slice.Tensor(x, 1, 4, 8)", "x + 1", "x == x", "x.t()", "torch.cat([x, y])",
        "x.view(torch.int8)",
        "torch.empty_like(x).copy_(x)", "torch.zeros_like(x)", "x.zero_()", "b.copy_(x)", "x.copy_(b)", "x.to('meta')",
    )),
    "[x.tolist(), x.numel(), x.element_size(), x.nbytes, x.storage_offset(), x.is_contiguous(), repr(x), x.N]",
    "torch.equal(x, y)",
]  # fmt: skip
CODE_PROGRAMS = [
    f"x, y = tensor_types.{kind}(e), tensor_types.{kind}(d); {text}"
    for kind in ("UInt4Tensor", "UInt2Tensor")
    for text in _OF_BYTES
]
SUITE.add(*(
    dataclasses.replace(cell, effects=False)
    for cell in cross("codes", CODES, CODE_PROGRAMS, names={"torch": torch, "copy": importlib.import_module("copy")})
))  # fmt: skip
SUITE.add(*cross("codes", {"sizes": {}}, [
    *(f"tensor_types.{name}({n}, torch.Size({list(size)}))" for name in ("up_size", "down_size") for n in (2, 4)
      for size in ((3, 8), (3, 5), (8,), (2, 3, 4))),
    "tensor_types.fill_defaults([1, 2], 4, [8, 9])", "tensor_types.fill_defaults([1], 4, [9])",
    "tensor_types.fill_defaults([1, 2], 2, [8])", "tensor_types.find_arg_of_type([1, 'a', 2.0], str)",
    "tensor_types.find_arg_of_type([1], str)", "tensor_types.UInt4Tensor(torch.ones(2, 2))",
], names={"torch": torch}))  # fmt: skip

PARTS = {
    "two": {
        "w": lambda library: library.distributed.shards_wrapper.LocalShardsWrapper(
            [torch.arange(6.0).view(2, 3), torch.arange(4.0).view(2, 2)], [(0, 0), (0, 3)]
        ),
        "v": lambda library: library.distributed.shards_wrapper.LocalShardsWrapper(
            [torch.ones(2, 3), torch.ones(2, 2)], [(0, 0), (0, 3)]
        ),
    },
    "none": {
        "w": lambda library: library.distributed.shards_wrapper.LocalShardsWrapper([], []),
        "v": lambda library: library.distributed.shards_wrapper.LocalShardsWrapper([], []),
    },
}
_PARTS = "(lambda r: [type(r).__name__, list(r.shape), r.local_shards(), r.local_offsets(), r.local_sizes()])"
SUITE.add(*(
    dataclasses.replace(cell, effects=False)
    for cell in cross("parts", PARTS, [
        *(f"{_PARTS}({text})" for text in (
            "w", "w.clone()", "w.detach()", "w.copy_(v)", "torch.zeros_like(w)", "torch.empty_like(w).copy_(w)",
            "w.to(torch.float16)", "w.view(w.shape)", "w.requires_grad_(False)", "w + 1",
        )),
        "[w.is_empty_shard(), w.is_meta, str(w.device), w.dtype, len(w.local_chunks)]",
        "torch.equal(w, v)", "torch.equal(w, w.clone())", "w.is_pinned()", "w.storage_metadata().size",
    ], names={"torch": torch})
))  # fmt: skip

_OF = "sparse.jagged_tensor.KeyedJaggedTensor(['a', 'b'], torch.arange(5), "
_KJT = f"{_OF}torch.arange(5.0), lengths=torch.tensor([2, 0, 1, 2]))"
_VBE = f"{_OF}lengths=torch.tensor([2, 0, 3]), stride_per_key_per_rank=[[2], [1]])"
_TOLD = (
    "(lambda r: [r.keys(), r.values(), r.lengths(), r.weights_or_none(), r.stride_per_key(), r.stride(), "
    "r.variable_stride_per_key(), r.inverse_indices_or_none(), getattr(r.values(), '_dynamo_unbacked_indices', None)])"
)
SUITE.add(*(
    dataclasses.replace(cell, effects=False, printed=False)
    for cell in cross("compilers", {"of": {}}, [
        "[pt2.checks.get_use_torchdynamo_compiling_path(), pt2.checks.is_pt2_compiling(), "
        "pt2.checks.is_non_strict_exporting(), pt2.checks.is_torchdynamo_compiling()]",
        "pt2.checks.set_use_torchdynamo_compiling_path(True); found = "
        "[pt2.checks.get_use_torchdynamo_compiling_path(), pt2.checks.is_torchdynamo_compiling()]; "
        "pt2.checks.set_use_torchdynamo_compiling_path(False); found",
        "pt2.checks.pt2_check_size_nonzero(torch.ones(3, 0))", "pt2.checks.pt2_checks_all_is_size([1, -2])",
        "pt2.checks.pt2_checks_tensor_slice(torch.ones(3), 5, 2)",
        "[pt2.checks.pt2_guard_or_false(True), pt2.checks.pt2_guard_or_true(False)]",
        f"{_TOLD}(pt2.utils.kjt_for_pt2_tracing({_KJT}))", f"{_TOLD}(pt2.utils.kjt_for_pt2_tracing({_KJT}, True))",
        f"{_TOLD}(pt2.utils.kjt_for_pt2_tracing({_VBE}))", f"{_TOLD}(pt2.utils.kjt_for_pt2_tracing({_VBE}, True))",
        "pt2.utils.default_pipeline_input_transformer([1, 2])",
        *(f"k = {_KJT}; b = types.SimpleNamespace({name}=k); r = pt2.utils.default_pipeline_input_transformer(b); "
          f"[r is b, r.{name} is k]" for name in ("id_list_features", "id_score_list_features", "sparse_features")),
        "pt2.utils.pt2_compile_callable(lambda x: x + 1)(torch.ones(2))",
    ], names={"torch": torch, "types": importlib.import_module("types")})
))  # fmt: skip


def _left(library: Library) -> Any:
    """A collection by itself is below nothing that could be swapped."""
    inference = part(library, "inference.modules")
    module = part(library, "modules.embedding_modules").EmbeddingBagCollection(
        tables=[
            part(library, "modules.embedding_configs").EmbeddingBagConfig(
                name="t", embedding_dim=8, num_embeddings=4, feature_names=["f"]
            )
        ]
    )
    found = inference.quantize_embeddings(module, torch.qint8, inplace=True)
    again = inference.quantize_inference_model(module)
    return [type(found).__module__.split(".")[-2:], type(again).__module__.split(".")[-2:], found is module]


add("quantize/a bare collection", _left)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()


def test_constraints_name_all_tables():
    assert sorted(constraints(type("Ours", (), {"ours": True}), "rows")) == ["t1", "t2", "t3"]

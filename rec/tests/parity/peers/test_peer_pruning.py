"""Pruning while tables are trained remaps, counts and prunes as torchrec's does, on operators that it lacks on the CPU.

Upstream's operators of pruning are kernels of accelerators alone. In these cells its modules run on ours.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "pruning",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
)
CPU = torch.device("cpu")
WAYS = ("table_wise", "column_wise", "row_wise")


@cache
def operators() -> torch.library.Library:
    """Upstream's names of the operators, on ours."""
    ours = importlib.import_module("flambeau.rec.ops.intraining_pruning")
    made = torch.library.Library("fbgemm", "FRAGMENT")
    made.define("init_address_lookup(Tensor(a!) address_lookups, Tensor buffer_offsets, Tensor emb_sizes) -> ()")
    made.define(
        "prune_embedding_tables(int iter, int pruning_interval, Tensor(a!) address_lookups, Tensor(b!) row_utils, "
        "Tensor buffer_offsets, Tensor emb_sizes) -> (Tensor, Tensor, int)"
    )
    made.define(
        "remap_indices_update_utils(int iter, Tensor buffer_idx, Tensor feature_lengths, Tensor feature_offsets, "
        "Tensor values, Tensor address_lookup, Tensor(a!) row_util, Tensor buffer_offsets, Tensor[]? "
        "full_values_list=None, bool? update_util=None) -> Tensor"
    )
    for name in ("init_address_lookup", "prune_embedding_tables", "remap_indices_update_utils"):
        made.impl(name, getattr(ours, name), "CPU")
    # Rows that changed hands are compared by what is looked up; upstream has no kernel on the CPU that clears them.
    made.impl("reset_weight_momentum", lambda *given: None, "CPU")
    return made


def at(library: Any) -> Any:
    operators()
    return lambda path: importlib.import_module(
        path if path.startswith("fbgemm_gpu") and library.__name__ == "torchrec" else f"{library.__name__}.{path}"
    )


@cache
def alone() -> Any:
    """The only process of a group."""
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return dist.group.WORLD


# ----- modules --------------------------------------------------------------------------------------------------------

ROWS = {"t1": 10, "t2": 12, "t3": 50}
IDS = {"t1": 30, "t2": 400}
FEATURES = {"t1": ["a"], "t2": ["b", "c"], "t3": ["d"]}


def collection(modules: Any, pooled: bool) -> Any:
    configs, kinds = modules("modules.embedding_configs"), modules("modules.embedding_modules")
    config = configs.EmbeddingBagConfig if pooled else configs.EmbeddingConfig
    tables = [
        config(num_embeddings=rows, embedding_dim=8, name=name, feature_names=FEATURES[name])
        for name, rows in ROWS.items()
    ]
    torch.manual_seed(0)
    return (kinds.EmbeddingBagCollection if pooled else kinds.EmbeddingCollection)(tables=tables)


def wrapped(modules: Any, pooled: bool, **options: Any) -> Any:
    itep = modules("modules.itep_modules").GenericITEPModule(dict(IDS), **options)
    kinds = modules("modules.itep_embedding_modules")
    kind = kinds.ITEPEmbeddingBagCollection if pooled else kinds.ITEPEmbeddingCollection
    return kind(collection(modules, pooled), itep)


def sharder_of(modules: Any, pooled: bool) -> Any:
    itep = modules("distributed.itep_embeddingbag")
    kinds = modules("fbgemm_gpu.split_embedding_configs").EmbOptimType
    fused = {"optimizer": kinds.EXACT_SGD, "learning_rate": 0.5}
    if pooled:
        inner = modules("distributed.embeddingbag").EmbeddingBagCollectionSharder(fused_params=fused)
        return itep.ITEPEmbeddingBagCollectionSharder(inner)
    inner = modules("distributed.embedding").EmbeddingCollectionSharder(fused_params=fused)
    return itep.ITEPEmbeddingCollectionSharder(inner)


def sharded(modules: Any, pooled: bool, way: str, **options: Any) -> Any:
    types = modules("distributed.types")
    spec = importlib.import_module("torch.distributed._shard.sharding_spec")
    env = types.ShardingEnv.from_process_group(alone())
    plan = {}
    for name, rows in ROWS.items():
        shards = [spec.ShardMetadata([0, 0], [rows, 8], placement="rank:0/cpu")]
        plan[name] = types.ParameterSharding(way, "fused", [0], spec.EnumerableShardingSpec(shards))
    module = wrapped(modules, pooled, **options)
    made = sharder_of(modules, pooled).shard(module, plan, env, CPU)
    given = collection(modules, pooled).state_dict()
    with torch.no_grad():
        for name, value in made.state_dict().items():
            key = name.partition(".")[2]
            if key in given:
                value.local_shards()[0].tensor.copy_(given[key])
    return made


def batch(modules: Any, step: int, limits: tuple[int, ...] = (30, 400, 400, 50), count: int = 6) -> Any:
    """Ids of which some come much more often than others, and other ones from batch to batch."""
    drawn = torch.Generator().manual_seed(step)
    lengths = torch.randint(0, 5, (4 * count,), generator=drawn)
    sizes = lengths.view(4, count).sum(1).tolist()
    values = [
        ((torch.rand(size, generator=drawn) ** 3 * limit).long() + 7 * (step // 3)) % limit
        for size, limit in zip(sizes, limits, strict=True)
    ]
    jagged = modules("sparse.jagged_tensor").KeyedJaggedTensor
    return jagged(["a", "b", "c", "d"], torch.cat(values), lengths=lengths)


def values_of(found: Any, pooled: bool) -> Any:
    if pooled:
        return {key: found[key].detach().clone() for key in found.keys()}  # noqa: SIM118, RUF100 - no dictionary
    return {key: one.values().detach().clone() for key, one in found.items()}


def whole(value: Any) -> Any:
    return value.local_shards()[0].tensor.clone() if hasattr(value, "local_shards") else value.detach().clone()


def trained(library: Any, pooled: bool, way: str, interval: int, steps: int) -> Any:
    modules = at(library)
    module = sharded(modules, pooled, way, pruning_interval=interval)
    found: dict[str, Any] = {
        "state": list(module.state_dict()),
        "buffers": [name for name, _ in module.named_buffers()],
    }
    for step in range(steps):
        out = module(batch(modules, step)).wait()
        found[f"out{step}"] = values_of(out, pooled)
        parts = [out.values()] if pooled else [one.values() for one in out.values()]
        sum((one**2).sum() for one in parts).backward()
    inner = module._rowwise_itep_module if way == "row_wise" else module._itep_module
    found["rows"], found["seen"] = inner.address_lookup.clone(), inner.row_util.clone()
    found["tables"] = {name: whole(one) for name, one in module.state_dict().items()}
    found["pruned at"] = inner.last_pruned_iter
    module.eval()
    found["evaluated"] = values_of(module(batch(modules, 99)).wait(), pooled)
    return found


for _pooled in (True, False):
    for _way in WAYS:
        # Beyond the first interval upstream clears rows by a kernel that it lacks here.
        for _interval, _steps in ((1001, 1), (1001, 3), (1001, 8), (4, 5), (7, 7), (20, 12)):
            SUITE.add(
                Cell(
                    f"trained/{'bags' if _pooled else 'sequences'}/{_way}/{_interval}/{_steps}",
                    "trained",
                    lambda library, given, options=(_pooled, _way, _interval, _steps): trained(library, *options),
                    lambda library: {},
                )
            )

# ----- programs -------------------------------------------------------------------------------------------------------

PROGRAMS = [
    *(f"list(wrapped({pooled}).state_dict())" for pooled in (True, False)),
    *(f"wrapped({pooled})._iter" for pooled in (True, False)),
    *(f"[(type(one).__name__, one.name) for one in wrapped({pooled}).embedding_bag_configs()]" for pooled in (1, 0)),
    *(f"values_of(wrapped({pooled})(small()), {pooled})" for pooled in (True, False)),
    "(lambda module: (module(small()), module(small()), module._iter))(wrapped(True))",
    "(lambda module: (module(small()), module._iter))(wrapped(False))",
    "wrapped(True, enable_pruning=False)(small()).values()",
    *(f"sharder_of({pooled}).sharding_types('{device}')" for pooled in (True, False) for device in ("cpu", "cuda")),
    *(f"sorted(sharder_of({pooled}).shardable_parameters(wrapped({pooled})))" for pooled in (True, False)),
    *(f"sharder_of({pooled}).module_type.__name__" for pooled in (True, False)),
    *(f"type(sharded({pooled}, '{way}')).__name__" for pooled in (True, False) for way in WAYS),
    *(f"list(sharded({pooled}, '{way}').state_dict())" for pooled in (True, False) for way in WAYS),
    *(f"[name for name, _ in sharded({p}, '{way}').named_parameters()]" for p in (True, False) for way in WAYS),
    *(f"sorted(sharded({pooled}, 'row_wise').sharded_parameter_names('x'))" for pooled in (True, False)),
    *(
        f"(lambda module: (module.buffer_offsets_list, module.buffer_offsets, module.emb_sizes, module.address_lookup, "
        f"module.row_util, module.table_name_to_idx, module.idx_to_table_name, module.feature_table_map, "
        f"module.reversed_feature_table_map, module.last_pruned_iter, module.pruning_interval))"
        f"(itep_of({pooled}, '{way}'))"
        for pooled in (True, False)
        for way in WAYS
    ),
    *(f"itep_of({pooled}, '{way}').get_remap_info(batch(0))" for pooled in (True, False) for way in WAYS),
    *(f"itep_of(True, '{way}')(batch({step}), {step}).values()" for way in WAYS for step in (0, 1, 2, 5)),
    *(f"pruned_at(itep_of(True, '{way}', pruning_interval={every}), 70)" for way in WAYS for every in (1001, 13, 1)),
    "pruned_at(itep_of(True, 'table_wise', pruning_interval=1001), 1300, 211)",
    "itep_of(True, 'table_wise').get_table_hash_sizes(table_of(True, 'table_wise', 't1'))",
    "itep_of(True, 'row_wise').get_table_hash_sizes(table_of(True, 'row_wise', 't2'))",
    "itep_of(True, 'row_wise').get_buffer_param(torch.arange(430), 0)",
    "itep_of(True, 'row_wise').get_buffer_param(torch.arange(430), 1)",
    "sorted(itep_of(True, 'row_wise').state_dict(prefix='x.'))",
    "sorted(itep_of(True, 'table_wise').state_dict(prefix='x.'))",
    "itep_of(True, 'table_wise').flush_uvm_cache()",
    "itep_of(True, 'row_wise').flush_uvm_cache()",
    "itep_of(True, 'table_wise', enable_pruning=False)(batch(0), 0).values()",
    "loaded(True, 'table_wise')",
    "loaded(True, 'row_wise')",
    "loaded(False, 'column_wise')",
    "evaluated_only(True, 'table_wise')",
    "evaluated_only(False, 'row_wise')",
    "[(one.name, one.value) for one in E.ShardingTypeGroup]",
    "repr(E.ITEPEmbeddingBagCollectionContext())",
    "repr(E.ITEPEmbeddingCollectionContext())",
    "L.PruningLogBase()",
    "L.PruningLogger()",
    "logged('x')",
    "logged('x', 'trainer', 'publisher')",
    "[one.__name__ for one in L.PruningLoggerDefault.__mro__]",
    "[(one.name, one.value) for one in C.OverlappingCheckerType]",
    "list(parted().state_dict()), parted().need_indices(), parted().embedding_dim()",
    "{name: one.values() for name, one in parted()(small()).items()}",
    "[one.name for one in parted().embedding_configs()], type(parted().embedding_collection).__name__",
    "P.PECEmbeddingCollectionSharder().sharding_types('cpu'), P.PECEmbeddingCollectionSharder().sharding_types('cuda')",
    "sorted(P.PECEmbeddingCollectionSharder().shardable_parameters(parted()))",
    "P.PECEmbeddingCollectionSharder().module_type.__name__",
    "H.BooleanOverlapChecker(cpu, 10).check(numbers(1, 2, 9), numbers(2, 2, 5, 9))",
    "H.BooleanOverlapChecker(cpu, 10).check(numbers(1, 2, 9), numbers())",
    "H.BooleanOverlapChecker(cpu, 10).check(numbers(), numbers(1))",
    "H.BooleanOverlapChecker(cpu, 10).check(numbers(4, 4), numbers(4))",
    *(f"parts_of({mask}, {weighted})" for mask in ([0] * 6, [1] * 6, [1, 0, 1, 0, 0, 1]) for weighted in (False, True)),
    "H.create_overlap_handler('table_wise', cpu, [], {}, None, C.OverlappingCheckerType.BOOLEAN)",
    "repr(H.OverlapMasks(None, None))",
    "repr(H.OverlapSplits(([1], [2]), ([3], [4])))",
    "D.MAX_TAG_HASH_VALUE, [(one.name, one.value) for one in D.CommStrategy]",
    *(f"delta({old}, {new}, {volume})" for old in "abcd" for new in "abcd" for volume in (False, True)),
    "[(path, cost, sorted(one)) for path, (cost, one) in D.output_sharding_plans_delta("
    "{'m': plan(a), 'n': plan(b)}, {'m': plan(b), 'n': plan(b)}, True).items()]",
    "D.output_sharding_plans_delta({'m': plan(a)}, {'m': plan(a), 'n': plan(b)})",
]
# Of each table, the process that has it, or "rows" or "columns" for both.
PLANS = {"a": (0, "rows"), "b": (1, "rows"), "c": (0, 0), "d": ("columns", "rows")}


def evaluated(library: Any, text: str) -> Any:
    modules = at(library)
    jagged = modules("sparse.jagged_tensor").KeyedJaggedTensor
    handlers, dynamic = modules("distributed.pec_collision_handlers"), modules("distributed.sharding.dynamic_sharding")
    types, logs = modules("distributed.types"), modules("modules.pruning_logger")
    spec = importlib.import_module("torch.distributed._shard.sharding_spec")

    def numbers(*given: int) -> Any:
        return torch.tensor(given, dtype=torch.int64)

    def itep_of(pooled: bool, way: str, **options: Any) -> Any:
        module = sharded(modules, pooled, way, **options)
        return module._rowwise_itep_module if way == "row_wise" else module._itep_module

    def table_of(pooled: bool, way: str, name: str) -> Any:
        for lookup in sharded(modules, pooled, way)._embedding_bag_collection._lookups:
            for kernel in lookup._emb_modules:
                for table in kernel.config.embedding_tables:
                    if table.name == name:
                        return table
        return None

    def pruned_at(module: Any, steps: int, every: int = 1) -> list[int]:
        found = []
        for step in range(0, steps, every):
            module(batch(modules, step, count=2), step)
            if module.last_pruned_iter == step:
                found.append(step)
        return found

    def loaded(pooled: bool, way: str) -> Any:
        first, second = sharded(modules, pooled, way), sharded(modules, pooled, way)
        for step in range(4):
            first(batch(modules, step)).wait()
        told = second.load_state_dict(first.state_dict())
        return second._iter, list(told.missing_keys), list(told.unexpected_keys)

    def evaluated_only(pooled: bool, way: str) -> Any:
        module = itep_of(pooled, way).eval()
        module(batch(modules, 0), 0)
        return module.row_util

    def logged(*given: str) -> Any:
        with logs.PruningLoggerDefault.pruning_logger(*given) as log:
            log.anything = 1
            return vars(log)

    def parts_of(mask: list[int], weighted: bool) -> Any:
        weights = torch.arange(6.0) if weighted else None
        features = jagged(["a", "b"], torch.arange(6), weights, lengths=torch.tensor([2, 1, 0, 3]))
        return [
            (one.keys(), one.values(), one.lengths(), one.weights_or_none(), one.stride())
            for one in handlers.split_kjt_by_values_mask(features, torch.tensor(mask).bool())
        ]

    def sharding(where: Any) -> Any:
        shapes = {"rows": [([0, 0], [4, 8]), ([4, 0], [4, 8])], "columns": [([0, 0], [8, 4]), ([0, 4], [8, 4])]}
        parts = shapes.get(where, [([0, 0], [8, 8])])
        ranks = [0, 1] if where in shapes else [where]
        shards = [
            spec.ShardMetadata(list(offsets), list(sizes), placement=f"rank:{rank}/cpu")
            for (offsets, sizes), rank in zip(parts, ranks, strict=True)
        ]
        kind = {"rows": "row_wise", "columns": "column_wise"}.get(where, "table_wise")
        return types.ParameterSharding(kind, "fused", ranks, spec.EnumerableShardingSpec(shards))

    def plan(places: Any) -> Any:
        return types.EmbeddingModuleShardingPlan({f"t{at}": sharding(one) for at, one in enumerate(places)})

    def delta(old: Any, new: Any, volume: bool) -> Any:
        cost, changed = dynamic.output_sharding_plan_delta_single(plan(old), plan(new), volume)
        return cost, {name: (one.sharding_type, one.ranks) for name, one in changed.items()}

    names = {
        "torch": torch, "cpu": CPU, "numbers": numbers, "itep_of": itep_of, "table_of": table_of,
        "pruned_at": pruned_at, "loaded": loaded, "evaluated_only": evaluated_only, "logged": logged,
        "parts_of": parts_of, "plan": plan, "delta": delta, "values_of": values_of, "L": logs, "H": handlers,
        "D": dynamic,
        "E": modules("distributed.itep_embeddingbag"), "C": modules("modules.pec_embedding_modules"),
        "P": modules("distributed.pec_embedding"), "batch": lambda step: batch(modules, step),
        "small": lambda: batch(modules, 0, (10, 12, 12, 50)),
        "wrapped": lambda pooled, **options: wrapped(modules, bool(pooled), **options),
        "sharder_of": lambda pooled: sharder_of(modules, pooled),
        "sharded": lambda pooled, way: sharded(modules, pooled, way),
        "parted": lambda: modules("modules.pec_embedding_modules").PECEmbeddingCollection(collection(modules, False)),
        **PLANS,
    }  # fmt: skip
    return eval(text, names)


for _text in PROGRAMS:
    SUITE.add(
        Cell(f"alone/{_text}", "alone", lambda library, given, text=_text: evaluated(library, text), lambda library: {})
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

"""Sharding says, sends and computes what torchrec's does, where that runs on the CPU."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed_ranks import PROGRAMS, results

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "distributed",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
)


def part(library: Any, path: str) -> Any:
    return importlib.import_module(f"{library.__name__}.distributed.{path}")


# ----- what sharders say ----------------------------------------------------------------------------------------------

SHARDERS = {
    "EmbeddingBagCollectionSharder": "embeddingbag",
    "EmbeddingBagSharder": "embeddingbag",
    "EmbeddingCollectionSharder": "embedding",
    "FusedEmbeddingBagCollectionSharder": "fused_embeddingbag",
    "FusedEmbeddingCollectionSharder": "fused_embedding",
}


def kernels_of(library: Any, name: str, device: str) -> Any:
    sharder = getattr(part(library, SHARDERS[name]), name)()
    return {kind: sharder.compute_kernels(kind, device) for kind in sharder.sharding_types(device)}


def storage_of(library: Any, name: str, device: str) -> Any:
    sharder = getattr(part(library, SHARDERS[name]), name)()
    kernels = part(library, "embedding_types").EmbeddingComputeKernel
    return {one.value: sharder.storage_usage(torch.empty(10, 4), device, one.value) for one in kernels}


for _name in SHARDERS:
    for _device in ("cuda", "cpu", "mtia"):
        for _what in (kernels_of, storage_of):
            SUITE.add(
                Cell(
                    f"sharders/{_name}/{_device}/{_what.__name__}",
                    "sharders",
                    lambda library, given, what=_what, name=_name, device=_device: what(library, name, device),
                    lambda library: {},
                )
            )

# ----- programs of one process ----------------------------------------------------------------------------------------

TYPES = [
    "[one.value for one in T.ShardingType]",
    "[(one.name, one.value) for one in T.PipelineType]",
    "[(one.name, one.value) for one in T.CommOp]",
    "[(one.name, one.value) for one in T.ShardingStrategy]",
    "[(one.name, one.value) for one in T.ObjectPoolShardingType]",
    "[(one.name, one.value) for one in T.EmbeddingEvent]",
    "[(one.name, one.value) for one in E.EmbeddingComputeKernel]",
    "[(one.name, one.value) for one in E.OptimType]",
    "[int(E.compute_kernel_to_embedding_location(E.EmbeddingComputeKernel('fused_uvm_caching')))]",
    "E.compute_kernel_to_embedding_location(E.EmbeddingComputeKernel('customized_kernel'))",
    "repr(T.CacheParams())",
    "repr(T.KeyValueParams())",
    "T.CacheParams(load_factor=0.1) == T.CacheParams(load_factor=0.1)",
    "hash(T.CacheParams(load_factor=0.1)) == hash(T.CacheParams(load_factor=0.1))",
    "repr(T.ParameterSharding('table_wise', 'fused', [0]))",
    "T.ParameterSharding('table_wise', 'fused', [0]) == T.ParameterSharding('table_wise', 'fused', [0])",
    "str(T.EmbeddingModuleShardingPlan())",
    "str(T.EmbeddingModuleShardingPlan(plan()))",
    "str(T.ShardingPlan({'a': T.EmbeddingModuleShardingPlan(plan()), 'b.c': T.EmbeddingModuleShardingPlan()}))",
    "T.ShardingPlan({}).get_plan_for_module('a')",
    "vars(T.ShardingEnv.from_local(4, 1))",
    "T.NoWait(3).wait()",
    "T.LazyNoWait([1, 2])[1]",
    "len(T.LazyNoWait([1, 2]))",
    "torch.add(T.LazyNoWait(torch.ones(2)), 1)",
    "T.LazyNoWait(torch.ones(2)) + T.LazyNoWait(torch.ones(2))",
    "1 - T.LazyNoWait(torch.ones(2))",
    "-T.LazyNoWait(torch.ones(2))",
    "T.LazyNoWait(torch.ones(2)).shape",
    "T.LazyNoWait(torch.ones(2)).nothing",
    "T.GetItemLazyAwaitable(T.LazyNoWait({'a': torch.ones(2)}), 'a') * 2",
    "torch.cat([T.LazyNoWait(torch.ones(2)), torch.ones(1)])",
    "T.get_tensor_size_bytes(torch.ones(3, dtype=torch.float16))",
    "str(T.rank_device('cuda', 1)), str(T.rank_device('cpu', 1)), str(T.rank_device('mtia', 0))",
    "T.NullShardedModuleContext().x",
    "setattr(T.NullShardedModuleContext(), 'x', 1)",
    "T.NoOpQuantizedCommCodec().encode(torch.ones(2)), T.NoOpQuantizedCommCodec().calc_quantized_size(3)",
    "T.NoOpQuantizedCommCodec().quantized_dtype()",
    "U.append_prefix('a', 'b'), U.append_prefix('', 'b'), U.append_prefix('a', ''), U.append_prefix('', '')",
    "U.filter_state_dict(collections.OrderedDict({'a.b': 1, 'ab.c': 2, 'a.c.d': 3}), 'a')",
    "(lambda d: (U.add_prefix_to_state_dict(d, 'x.'), list(d)))({'b': 1, 'a': 2})",
    "U.none_throws(3)",
    "U.none_throws(None)",
    "U.assert_instance(3, int)",
    "U.assert_instance(3, str)",
    "U.get_class_name(torch.nn.Linear(1, 1)), U.get_class_name([])",
    "U.get_unsharded_module_names(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU()))",
    "U.merge_fused_params({'a': 1, 'b': 2}, {'b': 3})",
    "U.merge_fused_params(None, None)",
    "U.merge_fused_params({'optimizer': 1}, {'optimizer': None})",
    "U.add_params_from_parameter_sharding({'x': 1}, T.ParameterSharding('table_wise', 'fused', output_dtype=None))",
    "U.add_params_from_parameter_sharding(None, T.ParameterSharding('table_wise', 'fused', "
    "cache_params=T.CacheParams(load_factor=0.5, prefetch_pipeline=True, reserved_memory=2.0), enforce_hbm=True))",
    "str(U.optimizer_type_to_emb_opt_type(torch.optim.SGD)), str(U.optimizer_type_to_emb_opt_type(torch.optim.Adam))",
    "U.optimizer_type_to_emb_opt_type(torch.optim.Rprop)",
    "U.emb_opt_type_to_optimizer_class(None)",
    "vars(U.get_bucket_metadata_from_shard_metadata(shards([0, 4], [4, 4]), 4))",
    "U.get_bucket_metadata_from_shard_metadata(shards([0, 4], [4, 3]), 4)",
    "U.get_bucket_metadata_from_shard_metadata(shards([0, 3], [3, 5]), 4)",
    "U.get_device_type()",
    "F.tbe_fused_params({'a': 1, F.FUSED_PARAM_REGISTER_TBE_BOOL: True})",
    "F.is_fused_param_register_tbe(None), F.is_fused_param_register_tbe({F.FUSED_PARAM_REGISTER_TBE_BOOL: True})",
    "F.get_fused_param_tbe_row_alignment(None)",
    "F.get_embedding_table_index_type(None), F.get_embedding_table_offset_type(None)",
    "C.get_local_size(16), C.get_local_rank(16, 9), C.get_num_groups(16), C.get_group_rank(16, 9)",
    "C.get_local_size(2), C.get_num_groups(2)",
    "C.get_topology_group_world_size(16), C.get_node_group_size(16)",
]
ENVIRONMENTS = {"none": {}, "two": {"LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "odd": {"LOCAL_WORLD_SIZE": "3"}}


def evaluated(library: Any, text: str, environment: dict[str, str] | None = None) -> Any:
    spec = importlib.import_module("torch.distributed._shard.sharding_spec")
    types = part(library, "types")

    def shards(starts: list[int], sizes: list[int]) -> list[Any]:
        return [
            spec.ShardMetadata([start, 0], [size, 4], placement="rank:0/cpu")
            for start, size in zip(starts, sizes, strict=True)
        ]

    def plan() -> dict[str, Any]:
        where = spec.EnumerableShardingSpec(shards([0, 4], [4, 4]))
        return {
            "t_1": types.ParameterSharding("row_wise", "fused", [0, 1], where),
            "t2": types.ParameterSharding("data_parallel", "dense"),
        }

    names = {
        "T": types, "E": part(library, "embedding_types"), "U": part(library, "utils"), "C": part(library, "comm"),
        "F": part(library, "fused_params"), "torch": torch, "shards": shards, "plan": plan,
        "collections": importlib.import_module("collections"),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"):
            patch.delenv(name, raising=False)
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        return eval(text, names)


for _text in TYPES:
    for _label, _environment in ENVIRONMENTS.items() if _text.startswith("C.") else [("", {})]:
        SUITE.add(
            Cell(
                f"alone/{_label}{'/' if _label else ''}{_text}",
                "alone",
                lambda library, given, text=_text, environment=_environment: evaluated(library, text, environment),
                lambda library: {},
            )
        )

# ----- programs of two processes --------------------------------------------------------------------------------------


def on_two(library: Any, name: str) -> Any:
    found = results(library.__name__)[name]
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


for _name in PROGRAMS:
    SUITE.add(
        Cell(
            f"two/{_name}",
            _name.partition("/")[0],
            lambda library, given, name=_name: on_two(library, name),
            lambda library: {},
        )
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

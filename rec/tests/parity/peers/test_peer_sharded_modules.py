"""Weighted features, managed collisions and towers over two processes give, train and keep what torchrec's do."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed_ranks import results
from sharded_module_ranks import PROGRAMS
from sharded_tower_ranks import PROGRAMS as TOWERS

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "sharded-modules",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
)

SHARDERS = {
    "FeatureProcessedEmbeddingBagCollectionSharder": "fp_embeddingbag",
    "ManagedCollisionCollectionSharder": "mc_modules",
    "ManagedCollisionEmbeddingBagCollectionSharder": "mc_embeddingbag",
    "ManagedCollisionEmbeddingCollectionSharder": "mc_embedding",
    "EmbeddingTowerSharder": "embedding_tower_sharding",
    "EmbeddingTowerCollectionSharder": "embedding_tower_sharding",
}


def part(library: Any, path: str) -> Any:
    return importlib.import_module(f"{library.__name__}.{path}")


def kernels_of(library: Any, name: str, device: str) -> Any:
    sharder = getattr(part(library, f"distributed.{SHARDERS[name]}"), name)()
    return {kind: sharder.compute_kernels(kind, device) for kind in sharder.sharding_types(device)}


def add(name: str, group: str, function: Any, *given: Any) -> None:
    SUITE.add(Cell(name, group, lambda library, _: function(library, *given), lambda library: {}))


for _name in SHARDERS:
    for _device in ("cuda", "cpu", "mtia"):
        if (_name, _device) != ("FeatureProcessedEmbeddingBagCollectionSharder", "mtia"):
            add(f"sharders/{_name}/{_device}", "sharders", kernels_of, _name, _device)

# ----- programs of one process ----------------------------------------------------------------------------------------

ALONE = {
    "list(G({'f1': 4, 'f2': 3}).state_dict())",
    "list(G({'f1': 4}).state_dict(prefix='a.'))",
    "[name for name, _ in G({'f1': 4, 'f2': 3}).named_parameters(prefix='x')]",
    "list(G({'f1': 4}).named_buffers())",
    "G({'f1': 4, 'f2': 3})(features(['f1', 'f2'], 2)).weights()",
    "G({'f1': 4, 'f2': 3})(features(['f2', 'f1'], 3)).keys()",
    "G({'f1': 4})(features(['f1'], 5))",
    "FP.param_dp_sync(J.KeyedTensor(['a'], [2], torch.ones(2, 2)), torch.tensor(5.0)).values()",
    "scores({})",
    "scores({'enable_auto_feature_score_collection': True, 'feature_score_mapping': {'f1': 0.5, 'f2': 2.0}})",
    "scores({'enable_auto_feature_score_collection': True, 'feature_score_default_value': 3.0})",
    "scores({'enable_auto_feature_score_collection': True, 'feature_score_mapping': {'f1': 0.5}})",
    "scores({'feature_score_mapping': {'f1': 0.5}})",
    "scores(None)",
    "collected(True, {'row_wise': {'f1': 0.5, 'f2': 2.0}})",
    "collected(True, {'row_wise': {'f1': 0.5}})",
    "collected(True, {})",
    "collected(False, {'row_wise': {'f1': 0.5, 'f2': 2.0}})",
    "logged(disable_fallback=False, num_reserved_slots_per_bucket=0)",
    "logged(disable_fallback=False, num_reserved_slots_per_bucket=1)",
    "logged(disable_fallback=False, num_reserved_slots_per_bucket=2, frequency=3)",
    "logged(disable_fallback=False, num_reserved_slots_per_bucket=0, frequency=1)",
}


def evaluated(library: Any, text: str) -> Any:
    jagged, configs = part(library, "sparse.jagged_tensor"), part(library, "modules.embedding_configs")
    scoring, metrics = part(library, "distributed.feature_score_utils"), part(library, "modules.hash_mc_metrics")
    sharding, types = part(library, "distributed.embedding_sharding"), part(library, "distributed.types")

    def features(keys: list[str], length: int) -> Any:
        lengths = torch.tensor([length] * len(keys))
        return jagged.KeyedJaggedTensor(keys, torch.arange(int(lengths.sum())), lengths=lengths)

    def scores(options: dict[str, Any] | None) -> Any:
        policy = None if options is None else configs.FeatureScoreBasedEvictionPolicy(**options)
        table = configs.EmbeddingConfig(
            num_embeddings=8, embedding_dim=4, name="t", feature_names=["f1", "f2"],
            use_virtual_table=options is not None, virtual_table_eviction_policy=policy,
        )  # fmt: skip
        inside = configs.EmbeddingTableConfig(
            num_embeddings=8, embedding_dim=4, name="t", feature_names=["f1", "f2"], embedding_names=["f1", "f2"],
            use_virtual_table=options is not None, virtual_table_eviction_policy=policy,
        )  # fmt: skip
        where = types.ParameterSharding("row_wise", "fused", [0])
        info = sharding.EmbeddingShardingInfo(inside, where, torch.empty(8, 4))
        return scoring.create_sharding_type_to_feature_score_mapping([table], {"row_wise": [info]})

    def collected(enabled: bool, mapping: dict[str, dict[str, float]]) -> Any:
        given = [features(["f1", "f2"], 2), features(["f3"], 1)]
        found = scoring.may_collect_feature_scores(given, enabled, mapping)
        return [one.weights_or_none() for one in found], found is given

    def logged(frequency: int = 2, **options: Any) -> Any:
        reports: list[Any] = []

        class Backend(metrics.ScalarLoggerBackend):  # type: ignore[name-defined, misc]
            def report(self, log_message: str, name: str, run_type: str, step: int, rate_metrics: Any) -> None:
                # The age of what was evicted depends on the hour.
                age = rate_metrics.pop("avg_eviction_age")
                reports.append((name, run_type, step, rate_metrics, age > 0))

        made = metrics.ScalarLogger(
            name="t", zch_size=8, frequency=frequency, start_bucket=0, num_buckets_per_rank=2,
            device=torch.device("cpu"), backend=Backend(), **options,
        )  # fmt: skip
        before = torch.full((8, 1), -1)
        before[4] = 50
        after = before.clone()
        after[0], after[2] = 3, 5
        for step in range(4):
            changed = torch.tensor([4]) if step == 1 else None
            ids, rows = torch.tensor([3, 5, 7, 5]), torch.tensor([0, 2, 4, 2])
            made.update(before, after, ids, rows, torch.arange(4), changed, torch.full((8, 1), 1000))
            before = after
            made("train", after)
        return reports, list(made.state_dict())

    names = {
        "G": part(library, "distributed.grouped_position_weighted").GroupedPositionWeightedModule,
        "FP": part(library, "distributed.fp_embeddingbag"), "J": jagged, "torch": torch, "features": features,
        "scores": scores, "collected": collected, "logged": logged,
    }  # fmt: skip
    return eval(text, names)


for _text in sorted(ALONE):
    add(f"alone/{_text}", "alone", evaluated, _text)

# ----- programs of two processes --------------------------------------------------------------------------------------


def on_two(library: Any, module: str, name: str) -> Any:
    found = results(library.__name__, module)[name]
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


for _module, _programs in {"sharded_module_ranks": PROGRAMS, "sharded_tower_ranks": TOWERS}.items():
    for _name in _programs:
        add(f"two/{_name}", _name.partition("/")[0], on_two, _module, _name)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

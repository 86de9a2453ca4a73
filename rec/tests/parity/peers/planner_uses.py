"""Uses of a library's planner: plans kept, changed, loaded and checked, and plans by hand."""

from __future__ import annotations

from typing import Any

import planner_subjects as subjects
import torch
from planner_subjects import chosen, enumerated, option, part, planned
from planner_tables import ONE


def nothing_to_shard(library: Any) -> Any:
    planner = library.planners.EmbeddingShardingPlanner(library.types.Topology(2, "cuda"))
    return planned(planner.plan(torch.nn.Linear(2, 2), subjects.sharders_of(library)))


def called_back(library: Any) -> Any:
    seen = []

    def note(plan: Any) -> Any:
        seen.append(chosen(plan))
        return plan[:1]

    planner = library.planners.EmbeddingShardingPlanner(
        library.types.Topology(2, "cuda"), callbacks=[note], stats=[library.stats.NoopEmbeddingStats()]
    )
    model = subjects.Model(subjects.tables_of(library, "small"))
    return planned(planner.plan(model, subjects.sharders_of(library))), seen


def loaded(library: Any, context: str) -> Any:
    """A plan that is made, kept, and loaded by another planner."""
    types = library.types

    def planner(**options: Any) -> Any:
        return library.planners.EmbeddingShardingPlanner(
            types.Topology(2, "cuda"), stats=[library.stats.NoopEmbeddingStats()], **options
        )

    kept: list[Any] = []
    first = planner(callbacks=[lambda plan: kept.extend(plan) or plan])
    model, sharders = subjects.Model(subjects.tables_of(library, "small")), subjects.sharders_of(library)
    made = planned(first.plan(model, sharders))
    known = {"same": first.hash_planner_context_inputs_str(), "other": "another", "unknown": None}[context]

    class Loader(types.PlanLoader):  # type: ignore[misc, name-defined]
        def load(self) -> Any:
            return {one.storage_hash(): one for one in kept}

        def plan_context_hash(self) -> Any:
            return known

        def get_plan_id(self) -> str:
            return "kept"

    try:
        return made, planned(planner(plan_loader=Loader()).plan(model, sharders))
    except types.PlannerError as error:
        return made, error.error_type


def extracted(library: Any, more: bool) -> Any:
    options, _ = enumerated(library, "cuda-2", "small")
    kept = {one.storage_hash(): one for one in options[3:8:4]}
    if more:
        kept[5] = options[0]
    return chosen(library.planners.extract_plan(options, kept))


def validated(library: Any, what: str) -> Any:
    distributed, planners = part(library, "distributed.types"), library.planners
    devices = library.types.Topology(2, "cuda")
    model, sharders = subjects.Model(subjects.tables_of(library, "small")), subjects.sharders_of(library)
    empty = distributed.ShardingPlan({})
    kernels = {"kernels": "fused", "dense": "dense", "unknown": "x"}
    try:
        if what in kernels:
            return planners.validate_compute_kernels([option(library, "t", "table_wise", ONE, kernel=kernels[what])])
        if what == "missing":
            return planners.validate_modules_inclusion_in_sharding_plan(empty, model, sharders)
        if what == "missing elsewhere":
            return planners.validate_modules_inclusion_in_sharding_plan(
                empty, model, sharders, {"t0": library.types.ParameterConstraints(device_group="cpu")}, "cuda"
            )
        return planners.validate_rank_assignment(empty, devices)
    except library.types.PlannerError as error:
        return error.error_type


def by_hand(
    library: Any,
    device: str,
    hosts: int,
    ways: dict[str, Any],
    kind: str = "bag",
    tables: str = "equal",
    trained: bool = False,
) -> Any:
    plans = part(library, "distributed.sharding_plan")
    module = subjects.tables_of(library, tables, kind)
    if trained:
        for parameter in module.parameters():
            parameter._in_backward_optimizers = [torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)]
    sharder = subjects.sharders_of(library)[0 if kind == "bag" else 1]
    given = {name: getattr(plans, way)(**options) for name, (way, options) in ways.items()}
    plan = plans.construct_module_sharding_plan(module, given, sharder, 8 // hosts, 8, device)
    return planned(part(library, "distributed.types").ShardingPlan({"": plan}))


def sizes_of(library: Any, rows: int, columns: int, **options: Any) -> Any:
    plans = part(library, "distributed.sharding_plan")
    return plans.calculate_shard_sizes_and_offsets(torch.empty(rows, columns, device="meta"), **options)

"""Whatever torchrec's planner lists, estimates, proposes, places and plans, ours does as well."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import planner_subjects as subjects
import pytest
import torch
from planner_subjects import TOPOLOGIES, chosen, described, enumerated, option, part, planned, some_options
from planner_tables import (
    APART,
    BY_HAND,
    CACHED,
    CONSTRAINTS,
    PROGRAMS,
    PROPOSERS,
    RESERVATIONS,
    SMALL_DEVICES,
    STATS,
    WAYS,
)
from planner_uses import by_hand, called_back, extracted, loaded, nothing_to_shard, sizes_of, validated

from flambeau.core.testing.differential import Cell, Suite, cross

logging.getLogger("torchrec").setLevel(logging.CRITICAL)  # it warns of every topology
pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

OURS, PEER = "flambeau.rec.distributed.planner", "torchrec.distributed.planner"
SUITE = Suite(
    "planner",
    ours=OURS,
    peer=PEER,
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).parent / "differences.toml",
    rtol=1e-12,
    atol=0.0,
)


def add(name: str, call: Any, /, **given: Any) -> None:
    """A cell of a function of the library and of values; what it prints or logs is nobody's business."""
    area = name.partition("/")[0]
    SUITE.add(Cell(name, area, lambda library, inputs: call(library, **given), printed=False))


# --- options and what they cost


def listed(library: Any, **given: Any) -> Any:
    return [described(one) for one in enumerated(library, **given)[0]]


for topology in TOPOLOGIES:
    for name, constraints in CONSTRAINTS.items():
        for kind in ("bag", "sequence"):
            add(
                f"options/{topology}/{kind}/{name}",
                listed,
                topology=topology,
                tables="two" if kind == "bag" else "equal",
                kind=kind,
                constraints=constraints,
            )
for tables in ("odd", "wide", "small"):
    for topology in ("cuda-2", "cuda-16", "cpu-2"):
        add(f"options/{topology}/tables/{tables}", listed, topology=topology, tables=tables)
for data_type in ("FP16", "BF16", "INT8"):
    add(f"options/cuda-16/data type/{data_type}", listed, topology="cuda-16", tables="two", data_type=data_type)
for topology in ("cuda-2", "cuda-16", "slow"):
    for name in ("none", "pooling", "batches"):
        add(
            f"options/{topology}/weighted/{name}",
            listed,
            topology=topology,
            tables="two",
            constraints=CONSTRAINTS[name],
            is_weighted=True,
        )
for batch_size in (1, 100_000):
    add(f"options/cuda-16/batch/{batch_size}", listed, topology="cuda-16", tables="two", batch_size=batch_size)
for fused_params in ({"cache_load_factor": 0.4}, {"prefetch_pipeline": True}):
    add(f"options/cuda-2/fused/{fused_params}", listed, topology="cuda-2", tables="two", fused_params=fused_params)
for optimizer in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad, torch.optim.AdamW):
    add(f"options/cuda-2/optimizer/{optimizer.__name__}", listed, topology="cuda-2", tables="two", optimizer=optimizer)


def codecs(library: Any) -> Any:
    types = part(library, "distributed.types")
    parts = part(library, "distributed.fbgemm_qcomm_codec")
    config = parts.QCommsConfig(forward_precision=parts.CommType.FP16, backward_precision=parts.CommType.BF16)
    return {
        name: parts.get_qcomm_codecs(config)
        for name in (types.CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL.name, types.CommOp.SEQUENCE_EMBEDDINGS_ALL_TO_ALL.name)
    }


class Uneven:
    memory = {"hbm_cap": [1 << 30, 2 << 30, 4 << 30, 1 << 30]}


def on_uneven_devices(library: Any, tables: str) -> Any:
    data = library.types.CustomTopologyData(dict(Uneven.memory), 4)
    return listed(
        library, topology={"world_size": 4, "compute_device": "cuda", "custom_topology_data": data}, tables=tables
    )


for tables in ("two", "odd"):
    add(f"options/uneven devices/{tables}", on_uneven_devices, tables=tables)


def pipelined(pipeline: str, peak: bool, inference: bool) -> Any:
    def make(library: Any, devices: Any, constraints: Any) -> Any:
        kind = part(library, "distributed.types").PipelineType[pipeline]
        estimators = library.shard_estimators
        return [
            estimators.EmbeddingPerfEstimator(devices, constraints, is_inference=inference),
            estimators.EmbeddingStorageEstimator(devices, constraints, kind, peak, inference),
        ]

    return make


for pipeline in ("NONE", "TRAIN_BASE", "TRAIN_SPARSE_DIST", "TRAIN_PREFETCH_SPARSE_DIST"):
    for peak in (False, True):
        for topology in ("cuda-16", "cpu-2"):
            for name in ("none", "cache", "stats"):
                add(
                    f"options/{topology}/pipeline/{pipeline}/{'peak' if peak else 'lasting'}/{name}",
                    listed,
                    topology=topology,
                    tables="two",
                    constraints=CONSTRAINTS[name],
                    estimators=pipelined(pipeline, peak, False),
                )
for topology in ("cuda-16", "cpu-2", "slow"):
    add(
        f"options/{topology}/inference",
        listed,
        topology=topology,
        tables="two",
        estimators=pipelined("NONE", False, True),
    )


def misspelt(library: Any, **constraint: Any) -> Any:
    return listed(library, topology="cuda-2", tables="two", constraints={"t0": constraint})


add("options/error/kernel", misspelt, compute_kernels=["nothing"])
add("options/error/type", misspelt, sharding_types=["nothing"])
add("options/error/pair", misspelt, sharding_types=["data_parallel"], compute_kernels=["fused_uvm"])


def in_order(library: Any, exact: bool) -> Any:
    model = subjects.Model(subjects.tables_of(library, "small"), subjects.tables_of(library, "small", "bag"))
    enumerator = library.enumerators.EmbeddingEnumerator(
        library.types.Topology(2, "cuda"), 512, use_exact_enumerate_order=exact
    )
    options = enumerator.enumerate(model, subjects.sharders_of(library))
    stored = enumerator.last_stored_search_space
    return list(dict.fromkeys((one.path, one.name, one.sharding_type) for one in options)), len(stored) == len(options)


add("options/order/as stacked", in_order, exact=False)
add("options/order/exact", in_order, exact=True)

# --- single formulas

LENT = {"torch": torch, "part": part, "shown": lambda value: vars(value)}
SUITE.add(*cross("formulas", {"call": {}}, PROGRAMS, names=LENT))


def luus_jaakola(library: Any, left: float, right: float, count: int, seed: int, shrink: bool) -> Any:
    search = library.utils.LuusJaakolaSearch(left, right, count, seed, left_cost=None)
    seen, value = [], 0.0
    while (x := search.next(value)) is not None:
        seen.append(x)
        value = (x - left - (right - left) * 0.3) ** 2
        if shrink and len(seen) == 4:
            search.shrink_right((left + right) / 2)
    return seen, search.best(), search.clamp(right + 5), search.clamp(left - 5)


for left, right, count, seed in ((0.0, 1.0, 16, 42), (-3.0, 100.0, 40, 7), (0.0, 1e9, 5, 42)):
    for shrink in (False, True):
        add(
            f"formulas/search/{left}-{right}/{count}/{'shrinking' if shrink else 'whole'}",
            luus_jaakola,
            left=left,
            right=right,
            count=count,
            seed=seed,
            shrink=shrink,
        )


def storages(library: Any, **given: Any) -> Any:
    types, distributed = library.types, part(library, "distributed.types")
    data = types.SharderData({}, {}, distributed.StorageUsageType[given.pop("usage", "BASE")])
    tensor = torch.nn.Parameter(torch.empty(1000, 64, device="meta"))
    if "store" in given:
        given["key_value_params"] = distributed.KeyValueParams(**given.pop("store"))
    options = {
        "compute_device": "cuda",
        "compute_kernel": "fused",
        "shard_sizes": [[63, 32], [55, 16], [0, 32]][: 1 if given["sharding_type"] == "table_wise" else 3],
        "batch_sizes": [512, 100],
        "world_size": 16,
        "local_world_size": 8,
        "input_lengths": [1.3, 0.5],
        "num_poolings": [1.0, 2.0],
        "caching_ratio": 0.2,
        "is_pooled": True,
        "input_data_type_size": 8,
        "output_data_type_size": 4,
    }
    return library.shard_estimators.calculate_shard_storages(sharder_data=data, tensor=tensor, **{**options, **given})


for kind in (
    "data_parallel",
    "table_wise",
    "column_wise",
    "table_column_wise",
    "row_wise",
    "table_row_wise",
    "grid_shard",
):
    for more in ({}, {"is_pooled": False}, {"compute_device": "cpu"}, {"is_inference": True}, {"usage": "BASE_QUANT"}):
        add(f"formulas/storage/{kind}/{more}", storages, sharding_type=kind, **more)
add("formulas/storage/unknown", storages, sharding_type="unknown")
for kernel in ("fused_uvm", "fused_uvm_caching", "quant", "key_value", "ssd_virtual_table", "customized_kernel"):
    for more in (
        {},
        {"compute_device": "cpu"},
        {"compute_device": "mtia"},
        {"use_virtual_table": True},
        {"store": {"max_l1_cache_size": 1}},
        {"store": {"max_l1_cache_size": 1}, "kv_cache_load_factor": 0.0},
        {"is_inference": True},
    ):
        add(f"formulas/storage/{kernel}/{more}", storages, sharding_type="row_wise", compute_kernel=kernel, **more)


def time_of(library: Any, sharding_type: str, config: str, inference: bool = False, **more: Any) -> Any:
    estimator, annotations, types = (
        part(library, f"distributed.planner.estimator.{name}") for name in ("estimator", "annotations", "types")
    )
    a = annotations

    class Factors(types.HardwarePerfConfig):
        @a.fwd_coefficient()
        def forward(self) -> Any:
            return types.PerfCoefficient(2, 3, 4, 5)

        @a.bwd_coefficient(sharding_type=["table_wise", "row_wise"])
        def backward(self) -> Any:
            return types.PerfCoefficient(7, 11, 13, 17)

        @a.prefetch_coefficient()
        def prefetch(self) -> Any:
            return types.PrefetchCoefficients(0.1, 0.2, 0.3)

    class Formulas(types.HardwarePerfConfig):
        @a.forward_compute(sharding_type="table_wise")
        def one(self, ctx: Any) -> float:
            return ctx.emb_dim * 2.0

        @a.backward_compute
        def two(self, ctx: Any) -> float:
            return ctx.hash_size * 3.0

        @a.fwd_comms("row_wise")
        def three(self, ctx: Any) -> float:
            return ctx.batch_outputs

        @a.bwd_comms(["table_wise", "data_parallel"])
        def four(self, ctx: Any) -> float:
            return ctx.batch_inputs

        @a.input_dist_comms
        def five(self, ctx: Any) -> float:
            return 0.125

        @a.prefetch_compute
        def six(self, ctx: Any) -> float:
            return ctx.batch_inputs * 1.5

    class Written(types.HardwarePerfConfig):
        @a.output_write_size
        def size(self, ctx: Any, is_fwd: bool = True) -> float:
            return ctx.batch_outputs * (2.0 if is_fwd else 3.0)

    @a.use_min_dim_for_lookup(False)
    @a.use_block_usage_penalty(True)
    @a.use_bytes_for_input_read_size(False)
    @a.intra_host_bw(55.0)
    @a.inter_host_bw(5.5)
    @a.hbm_to_ddr_mem_bw(3.0)
    class Marked(types.HardwarePerfConfig):
        _bwd_compute_multiplier = 5
        _weighted_feature_bwd_compute_multiplier = 7

    configs = {"plain": types.HardwarePerfConfig, "factors": Factors, "formulas": Formulas, "marked": Marked}
    configs["written"] = Written
    ctx = types.ShardPerfContext(
        **{
            "sharding_type": sharding_type,
            "compute_kernel": "fused_uvm_caching",
            "hash_size": 100,
            "emb_dim": 20,
            "batch_sizes": [4, 8],
            "num_poolings": [1.0, 2.0],
            "input_lengths": [0.5, 3.0],
            "world_size": 16,
            "local_world_size": 4,
            "intra_group_size": 8,
            "comms_bandwidths": library.types.BasicCommsBandwidths(10, 100),
            "intra_host_bw": 100,
            "inter_host_bw": 10,
            "caching_ratio": 0.3,
            "expected_miss_rate": 0.25,
            "cache_stats_expected_lookups": 77.0,
            "hash_size_for_clamping": 50,
            "device_bw": 1000.0,
            "hbm_to_ddr_mem_bw": 50.0,
            "table_data_type_size": 3.0,
            "fwd_a2a_comm_data_type_size": 2.0,
            "bwd_a2a_comm_data_type_size": 5.0,
            "fwd_sr_comm_data_type_size": 1.0,
            "bwd_sr_comm_data_type_size": 8.0,
            "output_data_type_size": 16.0,
            **more,
        }
    )
    evaluator = estimator.get_embedding_perf_sharding_evaluator(sharding_type, inference)
    return evaluator.compute_perf(ctx, configs[config]()), ctx.num_hosts, ctx.num_twrw_groups, ctx.is_uvm_caching


for kind in (
    "data_parallel",
    "table_wise",
    "column_wise",
    "table_column_wise",
    "row_wise",
    "table_row_wise",
    "grid_shard",
):
    for config in ("plain", "factors", "formulas", "marked", "written"):
        for more in (
            {},
            {"is_pooled": False},
            {"is_weighted": True, "weighted_feature_bwd_compute_multiplier": 3},
            {"use_linear_regression_prefetch_estimate": True},
            {"use_batch_inputs_for_expected_cache_fetches": True},
            {"world_size": 4},
        ):
            add(f"formulas/time/{kind}/{config}/{more}", time_of, sharding_type=kind, config=config, **more)
    add(f"formulas/time/{kind}/plain/inference", time_of, sharding_type=kind, config="plain", inference=True)

# --- memory set aside


def reserved(library: Any, topology: str, name: str, constraints: Any) -> Any:
    kind, options = RESERVATIONS[name]
    reservation = getattr(library.storage_reservations, kind)(**options)
    devices = library.types.Topology(**TOPOLOGIES[topology])
    model = subjects.Model(subjects.tables_of(library, "two"))
    left = reservation.reserve(
        devices, 512, model, subjects.sharders_of(library), subjects.constraints_of(library, constraints)
    )
    return left.devices, devices.devices[0], reservation.last_reserved_topology.devices[0], left.local_world_size


for topology in ("cuda-2", "cuda-16", "cpu-2"):
    for name in RESERVATIONS:
        for about in ("none", "batches"):
            add(
                f"reserved/{topology}/{name}/{about}",
                reserved,
                topology=topology,
                name=name,
                constraints=CONSTRAINTS[about],
            )

# --- proposals

# One sharding type each: of types with equal costs the peer takes one by chance.


def proposed(
    library: Any, proposer: str, topology: Any, tables: str, constraints: Any, fits: Any, most: int = 400
) -> Any:
    options, enumerator = enumerated(library, topology, tables, constraints=constraints)
    search = PROPOSERS[proposer](library.proposers)
    search.load(options, enumerator)
    devices = library.types.Topology(**TOPOLOGIES[topology])
    numbers, sequence = random.Random(0), []
    while (proposal := search.propose()) and len(sequence) < most:
        sequence.append(chosen(proposal))
        possible = fits is None or numbers.random() < fits
        rating = sum(one.total_perf for one in proposal)
        search.feedback(possible, proposal if possible else None, rating if possible else None, devices)
    return sequence, chosen(search.propose())


for proposer in PROPOSERS:
    for topology in ("cuda-2", "cuda-16"):
        for tables, constraints, about in (
            ("small", None, "free"),
            ("odd", None, "free"),
            ("small", APART, "apart"),
            ("small", CACHED, "cached"),
            ("big", {"t0": {"compute_kernels": ["fused_uvm_caching"], "cache": {"stats": STATS}}}, "one cached"),
        ):
            for fits in (None, 0.5):
                add(
                    f"proposals/{proposer}/{topology}/{tables}/{about}/{'all fit' if fits is None else 'some fit'}",
                    proposed,
                    proposer=proposer,
                    topology=topology,
                    tables=tables,
                    constraints=constraints,
                    fits=fits,
                )


def all_proposals(library: Any) -> Any:
    options, _ = enumerated(library, "cuda-2", "small")
    proposers = library.proposers
    found = proposers.proposers_to_proposals_list(
        [proposers.GreedyProposer(), proposers.GreedyProposer(use_depth=False), proposers.UniformProposer()], options
    )
    return [chosen(one) for one in found]


add("proposals/all of some", all_proposals)

# --- placements


def placed(library: Any, seed: int, scale: int, partitioner: str, room: int = 50, **options: Any) -> Any:
    proposal = some_options(library, seed, scale)
    devices = library.types.Topology(6, "cuda", local_world_size=2, hbm_cap=room * scale, ddr_cap=room * scale)
    sort_by = options.pop("sort_by", None)
    if sort_by is not None:
        options["sort_by"] = library.partitioners.SortBy(sort_by)
    plan = getattr(library.partitioners, partitioner)(**options).partition(proposal, devices)
    models = library.perf_models
    rated = models.NoopPerfModel(devices).rate(plan), models.NoopStorageModel(devices).rate(plan)
    kept = [one.get_shards_assignment() for one in proposal], devices.devices
    return [[one.name, one.get_shards_assignment()] for one in plan], rated, kept


for seed in range(16):
    for sort_by in ("storage", "perf"):
        for balance in (False, True):
            add(
                f"placements/greedy/{seed}/{sort_by}/{'modules' if balance else 'tables'}",
                placed,
                seed=seed,
                scale=1,
                room=60,
                partitioner="GreedyPerfPartitioner",
                sort_by=sort_by,
                balance_modules=balance,
            )
    for scale in (1, 10**9):
        add(
            f"placements/balanced/{seed}/{scale}",
            placed,
            seed=seed,
            scale=scale,
            partitioner="MemoryBalancedPartitioner",
            max_search_count=3 + seed % 8,
            tolerance=0.02 + 0.1 * (seed % 3),
            balance_modules=seed % 2 == 0,
        )


def placed_by_hand(library: Any, rows: Any, sort_by: str = "storage", **devices: Any) -> Any:
    proposal = [option(library, f"t{i}", *row[:2], **(row[2] if len(row) > 2 else {})) for i, row in enumerate(rows)]
    topology = library.types.Topology(
        **{"world_size": 6, "compute_device": "cuda", "local_world_size": 2, "hbm_cap": 100, "ddr_cap": 100, **devices}
    )
    partitioner = library.partitioners.GreedyPerfPartitioner(library.partitioners.SortBy(sort_by))
    return [one.get_shards_assignment() for one in partitioner.partition(proposal, topology)]


for name, rows in BY_HAND.items():
    add(f"placements/by hand/{name}", placed_by_hand, rows=rows)

# --- plans


def plan_for(
    library: Any,
    topology: Any,
    tables: str,
    kind: str = "bag",
    constraints: Any = None,
    proposer: str | None = None,
    partitioner: str | None = None,
    reservation: str | None = None,
    **options: Any,
) -> Any:
    devices = library.types.Topology(**(TOPOLOGIES[topology] if isinstance(topology, str) else topology))
    known = subjects.constraints_of(library, constraints)
    more: dict[str, Any] = {}
    if proposer is not None:
        more["proposer"] = PROPOSERS[proposer](library.proposers)
    if partitioner is not None:
        more["partitioner"] = getattr(library.partitioners, partitioner)()
    if reservation is not None:
        name, given = RESERVATIONS[reservation]
        more["storage_reservation"] = getattr(library.storage_reservations, name)(**given)
    planner = library.planners.EmbeddingShardingPlanner(
        devices, 512, constraints=known, stats=[library.stats.NoopEmbeddingStats()], **more, **options
    )
    model = subjects.Model(subjects.tables_of(library, tables, kind))
    try:
        return planned(planner.plan(model, subjects.sharders_of(library)))
    except library.types.PlannerError as error:
        return "no plan", error.error_type


for topology in ("cuda-2", "cuda-16", "cuda-pods", "cpu-2", "slow"):
    for tables in ("small", "many", "big", "odd", "wide"):
        add(f"plans/{topology}/{tables}", plan_for, topology=topology, tables=tables)
    add(f"plans/{topology}/sequence", plan_for, topology=topology, tables="equal", kind="sequence")
for tables in ("small", "many", "big", "wide"):
    add(f"plans/small devices/{tables}", plan_for, topology=SMALL_DEVICES, tables=tables)
for proposer in PROPOSERS:
    for tables, constraints in (("small", CACHED), ("small", APART)):
        for topology in ("cuda-2", "cuda-16"):
            add(
                f"plans/{topology}/{proposer}/{'cached' if constraints is CACHED else 'apart'}",
                plan_for,
                topology=topology,
                tables=tables,
                constraints=constraints,
                proposer=proposer,
            )
for reservation in RESERVATIONS:
    add(f"plans/cuda-2/reserved/{reservation}", plan_for, topology="cuda-2", tables="many", reservation=reservation)
add("plans/cuda-16/balanced", plan_for, topology="cuda-16", tables="many", partitioner="MemoryBalancedPartitioner")
add("plans/no room", plan_for, topology={"world_size": 2, "compute_device": "cuda", "hbm_cap": 1 << 20}, tables="two")
add(
    "plans/no room by constraints",
    plan_for,
    topology={"world_size": 4, "compute_device": "cuda", "hbm_cap": 3 << 30},
    tables="many",
    constraints={
        f"t{i}": {"sharding_types": ["table_wise"], "compute_kernels": ["fused"]}
        for i in range(len(subjects.TABLES["many"]))
    },
)
add(
    "plans/dense tables on one device",
    plan_for,
    topology="cuda-2",
    tables="small",
    constraints={"t0": {"sharding_types": ["table_wise"], "compute_kernels": ["dense"]}},
)
add("plans/timeout of nothing", plan_for, topology="cuda-2", tables="small", timeout_seconds=0)


add("plans/nothing to shard", nothing_to_shard)
add("plans/callbacks", called_back)
for context in ("same", "other", "unknown"):
    add(f"plans/loaded/{context}", loaded, context=context)
add("plans/extracted/all", extracted, more=False)
add("plans/extracted/one is lacking", extracted, more=True)


for what in ("kernels", "dense", "unknown", "missing", "missing elsewhere", "ranks"):
    add(f"plans/validated/{what}", validated, what=what)


# --- plans by hand


for name, way in WAYS.items():
    for hosts in (1, 2):
        if name in {"rows of a host", "grid"} and hosts == 1:
            continue
        add(f"by hand/cuda/{hosts}/{name}", by_hand, device="cuda", hosts=hosts, ways={"t0": way, "t1": WAYS["copies"]})
    if name in {"whole", "columns", "copies"}:
        add(f"by hand/cpu/{name}", by_hand, device="cpu", hosts=1, ways={"t0": way, "t1": WAYS["whole"]})
for name in ("whole", "rows", "columns", "copies"):
    ways = {"t0": WAYS[name], "t1": WAYS["whole"]}
    add(f"by hand/sequence/{name}", by_hand, device="cuda", hosts=2, ways=ways, kind="sequence")
for name in ("whole", "rows", "columns", "copies"):
    ways = {"t0": WAYS[name], "t1": WAYS["copies"]}
    add(f"by hand/trained/{name}", by_hand, device="cuda", hosts=1, ways=ways, trained=True)
ways = {"t0": WAYS["grid"], "t1": WAYS["grid"]}
add("by hand/grid of wide tables", by_hand, device="cuda", hosts=2, ways=ways, tables="wide")
add("by hand/one is lacking", by_hand, device="cuda", hosts=1, ways={"t0": WAYS["rows"]})
for kind in (
    "data_parallel",
    "table_wise",
    "row_wise",
    "column_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_shard",
):
    for rows, columns in ((5000, 64), (17, 260), (3, 192), (1000, 512)):
        for least in (None, 16, 48):
            add(
                f"by hand/sizes/{kind}/{rows}x{columns}/{least}",
                sizes_of,
                rows=rows,
                columns=columns,
                world_size=8,
                local_world_size=4,
                sharding_type=kind,
                col_wise_shard_dim=least,
            )
for memory in ([1, 2, 3, 4], [5, 5, 5, 5]):
    add(
        f"by hand/sizes/by memory/{memory}",
        sizes_of,
        rows=1003,
        columns=8,
        world_size=4,
        local_world_size=4,
        sharding_type="row_wise",
        device_memory_sizes=memory,
    )
for buckets in (4, 10, 100):
    add(
        f"by hand/sizes/by buckets/{buckets}",
        sizes_of,
        rows=1000,
        columns=8,
        world_size=4,
        local_world_size=4,
        sharding_type="row_wise",
        num_buckets=buckets,
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

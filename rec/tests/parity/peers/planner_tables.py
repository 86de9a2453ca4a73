"""What the planners of both libraries are compared on: constraints, programs, proposers, options by hand."""

from __future__ import annotations

from typing import Any

CONSTRAINTS: dict[str, Any] = {
    "none": None,
    "pooling": {"t0": {"pooling_factors": [20.0]}, "t1": {"pooling_factors": [0.25, 3.0]}},
    "poolings": {"t1": {"pooling_factors": [2.0, 3.0], "num_poolings": [4.0, 0.5]}},
    "batches": {"t1": {"pooling_factors": [2.0, 0.5], "batch_sizes": [100, 700]}},
    "kernels": {"t0": {"compute_kernels": ["fused_uvm_caching"]}, "t1": {"compute_kernels": ["dense", "fused"]}},
    "types": {"t0": {"sharding_types": ["row_wise", "table_wise"]}, "t1": {"sharding_types": ["data_parallel"]}},
    "min-partition": {"t0": {"min_partition": 32}, "t1": {"min_partition": 16}},
    "grid": {"t0": {"sharding_types": ["grid_shard"], "min_partition": 64}},
    "cache": {"t0": {"cache": {"load_factor": 0.1}}, "t1": {"cache": {"load_factor": 0.5, "prefetch_pipeline": True}}},
    "stats": {"t0": {"cache": {"load_factor": 0.3, "stats": (0.4, 1000, [5, 3, 2, 1], 1_000_000)}}},
    "weighted": {"t0": {"is_weighted": True}},
    "output": {"t0": {"output_dtype": None, "enforce_hbm": True, "stochastic_rounding": False}},
    "store": {
        "t0": {"compute_kernels": ["key_value"], "store": {"max_l1_cache_size": 10}},
        "t1": {"compute_kernels": ["dram_virtual_table"], "use_virtual_table": True},
    },
    "elsewhere": {"t0": {"device_group": "cpu"}, "t1": {"device_group": "cuda"}},
}

PROGRAMS = [
    "[constants.kernel_bw_lookup(d, k, 1e3, 1e2, 10.0, c, p, 7.0) for d in ('cuda', 'cpu', 'mtia', 'xpu') "
    "for k in ('dense', 'fused', 'fused_uvm', 'fused_uvm_caching', 'quant', 'quant_uvm', 'quant_uvm_caching', "
    "'key_value', 'ssd_virtual_table', 'dram_virtual_table', 'fused_triton', 'none') for c in (None, 0.0, 0.5) "
    "for p in (False, True)]",
    "[types.BasicCommsBandwidths(10, 100).get_bw(l, w, c) for c in types.CollectiveType "
    "for l, w in ((2, 2), (8, 16), (8, 8), (8, 4), (8, 32))]",
    "t = part(library, 'distributed.types'); [t.compute_storage_usage(torch.empty(100, 8, device='meta'), d, k, u) "
    "for u in t.StorageUsageType for d in ('cuda', 'cpu', 'mtia', 'xpu') for k in ('dense', 'fused', 'fused_uvm', "
    "'fused_uvm_caching', 'quant', 'quant_uvm', 'quant_uvm_caching', 'key_value', 'none')]",
    "types.BasicCommsBandwidths().intra_host_bw, types.BasicCommsBandwidths().inter_host_bw",
    "types.Storage(1, 2) + types.Storage(3, 4, 5), types.Storage(9, 9) - types.Storage(3, 4, 5)",
    "types.Storage(1, 2).fits_in(types.Storage(1, 2)), types.Storage(1, 3).fits_in(types.Storage(1, 2))",
    "types.Storage(1, 2, 1).fits_in(types.Storage(1, 2))",
    "sorted([types.Storage(1, 5), types.Storage(2, 0), types.Storage(1, 2, 9)])",
    "types.Perf(1, 2, 3, 4, 5, 6).total, types.Perf(1, 2, 3, 4) + types.Perf(1, 2, 3, 4, 5, 6)",
    "types.CriticalPathEstimate(1.5, 2.0).total()",
    "str(types.Topology(2, 'cuda', local_world_size=1)), repr(types.Topology(1, 'cpu'))",
    "types.Topology(2, 'cuda', hbm_cap=0, ddr_cap=0).devices",
    "types.Topology(2, 'xpu')",
    "types.Topology(2, 'cuda', pod_size=4)",
    "[types.Topology(16, 'cuda', local_world_size=4, pod_size=p).intra_group_size for p in (None, 1, 2, 4)]",
    "types.Topology(3, 'cuda', custom_topology_data=types.CustomTopologyData({'hbm_cap': [1, 2, 3]}, 3)).devices",
    "types.Topology(2, 'cpu', custom_topology_data=types.CustomTopologyData({'ddr_cap': [1, 2]}, 2)).devices",
    "types.CustomTopologyData({'hbm_cap': [1, 2]}, 3)",
    "types.CustomTopologyData({'ssd_cap': [1, 2]}, 2)",
    "types.CustomTopologyData({'hbm_cap': [1, 2]}, 2).has_data('ddr_cap')",
    "types.CustomTopologyData({'hbm_cap': [1, 2]}, 2).get_data('x')",
    "[types.round_to_nearest(x, 10) for x in (24, 25, 26, 35, -7)]",
    "types.hash_sha256_to_int([1, 'a']), types.hash_sha256_str([1, 'a'])",
    "types.Topology(2, 'cuda')._hash() == types.Topology(2, 'cuda')._hash()",
    "types.Topology(2, 'cuda')._hash() == types.Topology(2, 'cuda', hbm_cap=5)._hash()",
    "utils.bytes_to_gb(5), utils.bytes_to_mb(7.5), utils.gb_to_bytes(1.5), utils.mb_to_bytes(0.1)",
    "utils.prod([2, 3, 4]), utils.prod([])",
    "[utils.placement(d, 9, 8) for d in ('cuda', 'cpu', 'mtia')]",
    "utils.storage_repr_in_gb(types.Storage(1 << 30, 1 << 29)), utils.storage_repr_in_gb(None)",
    "utils.sharder_name(torch.nn.Linear)",
    "[stats.round_to_one_sigfig(x) for x in (0, 1, 1.5, 15, 123456, 0.00123, 1e-9, -25, 9.9, 0.95, 1e10)]",
    "[enumerators.get_partition_by_type(t) for t in ('table_wise', 'column_wise', 'table_column_wise', 'row_wise', "
    "'data_parallel', 'table_row_wise', 'grid_shard')]",
    "enumerators.get_partition_by_type('nothing')",
    "types.ParameterConstraints()",
    "hash(types.ParameterConstraints()) == hash(types.ParameterConstraints(min_partition=3))",
    "shown(types.PlanDebugStats('p', 3))",
    "types.PlannerError('m').error_type, str(types.PlannerError('m', types.PlannerErrorType.PARTITION))",
    "[(k.name, k.value) for k in types.PlannerErrorType], [(k.name, k.value) for k in types.PartitionByType]",
    "[(k.name, k.value) for k in storage_reservations.StorageReservationType], partitioners.SortBy('perf')",
    "[shard_estimators.calculate_pipeline_io_cost(101, 7, 13, p, m, e, i) for m in (None, 1, 2, 3, 6) "
    "for e in (False, True) for i in (False, True) "
    "for p in part(library, 'distributed.types').PipelineType]",
    "s = utils.BinarySearchPredicate(0, 100, 0); x = s.next(True); seen = []\n"
    "while x is not None:\n    seen.append(x); x = s.next(x <= 42)\nseen",
    "s = utils.BinarySearchPredicate(3, 90, 7); x = s.next(False); seen = []\n"
    "while x is not None:\n    seen.append(x); x = s.next(x <= 50)\nseen",
    "s = utils.BinarySearchPredicate(0, 0, 0); s.next(True), s.next(True), s.next(False)",
    "s = utils.BinarySearchPredicate(0, 5, 9); s.next(True)",
    "s = utils.BinarySearchPredicate(7, 3, 0); s.next(True)",
    "shard_estimators.EmbeddingOffloadStats(0.42, 31, torch.tensor([6., 0., 8., 4.]), 1000).expected_miss_rate(0.3)",
    "s = shard_estimators.EmbeddingOffloadStats(0.42, 31, torch.tensor([6., 0., 8., 4.]), 1000); "
    "[s.expected_miss_rate(x / 20) for x in range(21)], s.cacheability, s.expected_lookups",
    "shard_estimators.EmbeddingOffloadStats(0.42, 31, torch.tensor([0., 0.]), 10).expected_miss_rate(0.5)",
    "shard_estimators.EmbeddingOffloadStats(0.42, 31, torch.zeros(2, 2), 10)",
    "shard_estimators.EmbeddingOffloadStats.estimate_cache_miss_rate(torch.tensor([0, 20, 1001.]), "
    "torch.tensor([1., 2., 3.]), torch.linspace(0, 100, 4))",
    "storage_reservations.FixedPercentageStorageReservation(1.1)",
    "storage_reservations.HeuristicalStorageReservation(-0.1)",
    "storage_reservations.InferenceStorageReservation(2.0)",
    "storage_reservations.FixedAbsoluteStorageReservation(-1)",
    "storage_reservations.FixedPercentageStorageReservation(0.1).last_reserved_topology",
]

RESERVATIONS: dict[str, Any] = {
    "heuristic": ("HeuristicalStorageReservation", {"percentage": 0.15}),
    "multiplied": ("HeuristicalStorageReservation", {"percentage": 0.0, "parameter_multiplier": 2.0}),
    "estimated": ("HeuristicalStorageReservation", {"percentage": 0.1, "dense_tensor_estimate": 1000}),
    "all": ("HeuristicalStorageReservation", {"percentage": 1.0}),
    "too much": ("HeuristicalStorageReservation", {"percentage": 0.0, "dense_tensor_estimate": 10**14}),
    "percentage": ("FixedPercentageStorageReservation", {"percentage": 0.3}),
    "bytes": ("FixedAbsoluteStorageReservation", {"hbm_reserved_bytes": 1 << 30}),
    "all bytes": ("FixedAbsoluteStorageReservation", {"hbm_reserved_bytes": 1 << 50}),
    "inference": ("InferenceStorageReservation", {"percentage": 0.1}),
    "inference estimated": ("InferenceStorageReservation", {"percentage": 0.1, "dense_tensor_estimate": 77}),
}

PROPOSERS: dict[str, Any] = {
    "greedy": lambda p: p.GreedyProposer(),
    "greedy by sum": lambda p: p.GreedyProposer(use_depth=False),
    "greedy with threshold": lambda p: p.GreedyProposer(threshold=3),
    "uniform": lambda p: p.UniformProposer(),
    "uniform by sum": lambda p: p.UniformProposer(use_depth=False),
    "grid": lambda p: p.GridSearchProposer(),
    "grid of few": lambda p: p.GridSearchProposer(max_proposals=10),
    "dynamic": lambda p: p.DynamicProgrammingProposer(),
    "dynamic of few bins": lambda p: p.DynamicProgrammingProposer(hbm_bins_per_device=3),
    "scale-up": lambda p: p.EmbeddingOffloadScaleupProposer(),
    "scale-up by sum": lambda p: p.EmbeddingOffloadScaleupProposer(use_depth=False),
}

STATS = (0.4, 1000, [5, 3, 2, 1], 1_000_000)

CACHED: dict[str, Any] = {
    f"t{i}": {
        "compute_kernels": ["fused_uvm_caching"],
        "sharding_types": [kind],
        "cache": {"load_factor": factor, "stats": (0.2 + 0.2 * i, 1000 * (i + 1), [5 + i, 3, 2, 1], rows)},
    }
    for i, (kind, factor, rows) in enumerate(
        [("table_wise", 0.1, 1000), ("row_wise", 0.2, 2000), ("table_wise", 0.05, 400)]
    )
}

APART: dict[str, Any] = {
    "t0": {"sharding_types": ["row_wise"]},
    "t1": {"sharding_types": ["table_wise"]},
    "t2": {"sharding_types": ["data_parallel"]},
}

ONE = [(1, 1, 1.0)]

BY_HAND: dict[str, Any] = {
    "equal ones": [("table_wise", ONE)] * 8,
    "equal hosts": [("table_row_wise", ONE * 2)] * 4,
    "columns": [("column_wise", ONE * 5), ("table_column_wise", ONE * 5)],
    "together": [
        ("table_row_wise", ONE * 2, {"dependency": "x"}),
        ("table_column_wise", ONE * 2, {"dependency": "x"}),
        ("table_row_wise", ONE * 2),
    ],
    "one grid": [("grid_shard", ONE * 4)],
    "grid around": [("grid_shard", ONE * 14)],
    "grid beside": [("table_wise", [(9, 0, 5.0)]), ("grid_shard", ONE * 4), ("table_wise", [(1, 0, 0.5)])],
    "grid that fills no hosts": [("grid_shard", ONE * 3)],
    "grids together": [("grid_shard", ONE * 4, {"dependency": "x"}), ("grid_shard", ONE * 4, {"dependency": "x"})],
    "too large": [("table_wise", [(101, 0, 1.0)])],
    "too large for rows": [("row_wise", [(101, 0, 1.0)] * 6)],
    "too large for a host": [("table_row_wise", [(101, 0, 1.0)] * 2)],
    "too large for the host's memory": [("table_wise", [(1, 101, 1.0)])],
    "too many": [("table_wise", [(60, 0, 1.0)])] * 7,
    "wrong number of rows": [("row_wise", ONE * 5)],
    "wrong number on a host": [("table_row_wise", ONE * 3)],
    "unknown place": [("table_wise", ONE, {"by": "nowhere"})],
    "nothing": [],
}

SMALL_DEVICES = {"world_size": 4, "local_world_size": 2, "compute_device": "cuda", "hbm_cap": 2 << 30}

WAYS: dict[str, Any] = {
    "whole": ("table_wise", {"rank": 3}),
    "whole by kernel": ("table_wise", {"rank": 3, "compute_kernel": "fused_uvm"}),
    "whole elsewhere": ("table_wise", {"rank": 0, "device": "cpu"}),
    "rows": ("row_wise", {}),
    "columns": ("column_wise", {"ranks": [0, 1, 5, 1]}),
    "unequal columns": ("column_wise", {"ranks": [2, 3], "size_per_rank": [16, 48]}),
    "three columns": ("column_wise", {"ranks": [0, 1, 2]}),
    "rows of a host": ("table_row_wise", {"host_index": 1}),
    "grid": ("grid_shard", {"host_indexes": [0, 1]}),
    "copies": ("data_parallel", {}),
}

"""What planners are made of, and what they deal with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.rec.distributed.planner._bandwidths import (
    BasicCommsBandwidths,
    CollectiveType,
    GeneralizedCommsBandwidth,
)
from flambeau.rec.distributed.planner._costs import CriticalPathEstimate, Perf, Storage
from flambeau.rec.distributed.planner._errors import PlannerError, PlannerErrorType
from flambeau.rec.distributed.planner._hashing import hash_sha256_str, hash_sha256_to_int
from flambeau.rec.distributed.planner._interfaces import (
    Enumerator,
    Partitioner,
    PerfModel,
    PlanDebugStats,
    PlanLoader,
    Proposer,
    SharderData,
    ShardEstimator,
    Stats,
    StorageReservation,
)
from flambeau.rec.distributed.planner._options import ParameterConstraints, PartitionByType, Shard, ShardingOption
from flambeau.rec.distributed.planner._topology import CustomTopologyData, DeviceHardware, Topology
from flambeau.rec.distributed.planner._topology_factory import (
    HardwareConfig,
    KernelConfig,
    TopologyConfigBase,
    TopologyFactory,
    TrainerConfig,
)
from flambeau.rec.distributed.planner.constants import (
    BATCH_SIZE,
    BWD_COMPUTE_MULTIPLIER,
    CROSS_NODE_BANDWIDTH,
    DDR_CAP,
    DDR_MEM_BW,
    HBM_CAP,
    HBM_MEM_BW,
    HBM_TO_DDR_MEM_BW,
    HUNDRED_GB,
    INTRA_NODE_BANDWIDTH,
    POOLING_FACTOR,
    SSD_CAP,
    SSD_MEM_BW,
    WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER,
)
from flambeau.rec.distributed.types import CacheParams

__all__ = [
    "BATCH_SIZE",
    "BWD_COMPUTE_MULTIPLIER",
    "CROSS_NODE_BANDWIDTH",
    "DDR_CAP",
    "DDR_MEM_BW",
    "HBM_CAP",
    "HBM_MEM_BW",
    "HBM_TO_DDR_MEM_BW",
    "HUNDRED_GB",
    "INTRA_NODE_BANDWIDTH",
    "POOLING_FACTOR",
    "SSD_CAP",
    "SSD_MEM_BW",
    "WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER",
    "BasicCommsBandwidths",
    "CollectiveType",
    "CriticalPathEstimate",
    "CustomTopologyData",
    "DeviceHardware",
    "Enumerator",
    "GeneralizedCommsBandwidth",
    "HardwareConfig",
    "KernelConfig",
    "ParameterConstraints",
    "PartitionByType",
    "Partitioner",
    "Perf",
    "PerfModel",
    "PlanDebugStats",
    "PlanLoader",
    "PlannerError",
    "PlannerErrorType",
    "Proposer",
    "Shard",
    "ShardEstimator",
    "SharderData",
    "ShardingOption",
    "Stats",
    "Storage",
    "StorageReservation",
    "Topology",
    "TopologyConfigBase",
    "TopologyFactory",
    "TrainerConfig",
    "hash_planner_context_inputs",
    "hash_planner_context_inputs_str",
    "hash_sha256_str",
    "hash_sha256_to_int",
    "round_to_nearest",
]


def round_to_nearest(x: int, unit: int) -> int:
    """A number rounded to a multiple of another; halves to the even multiple."""
    return round(x / unit) * unit


def hash_planner_context_inputs(
    topology: Topology,
    batch_size: int,
    enumerator: Enumerator,
    storage_reservation: StorageReservation,
    constraints: dict[str, ParameterConstraints] | None,
    hash_function: Callable[[list[Any]], int] = hash_sha256_to_int,
) -> int:
    """A number that stands for everything a plan depends on; the same in every process.

    Args:
        topology: the devices.
        batch_size: examples of each process.
        enumerator: what listed the options, which it has done.
        storage_reservation: what set memory aside, which it has done.
        constraints: what users allow and know, by table.
        hash_function: makes a number of a list.

    Raises:
        ValueError: nothing was enumerated or reserved yet.
    """
    return hash_function(_context(topology, batch_size, enumerator, storage_reservation, constraints))


def hash_planner_context_inputs_str(
    topology: Topology,
    batch_size: int,
    enumerator: Enumerator,
    storage_reservation: StorageReservation,
    constraints: dict[str, ParameterConstraints] | None,
    hash_function: Callable[[list[Any]], str] = hash_sha256_str,
) -> str:
    """Like `hash_planner_context_inputs`, as text."""
    return hash_function(_context(topology, batch_size, enumerator, storage_reservation, constraints))


def _context(
    topology: Topology,
    batch_size: int,
    enumerator: Enumerator,
    storage_reservation: StorageReservation,
    constraints: dict[str, ParameterConstraints] | None,
) -> list[Any]:
    reserved = storage_reservation.last_reserved_topology
    if reserved is None:
        raise ValueError("No memory was reserved yet; make a plan, or call the storage reservation's reserve, before.")
    space = getattr(enumerator, "last_stored_search_space", None)
    if space is None:
        raise ValueError("No options were listed yet; make a plan, or call the enumerator's enumerate, before.")
    return [
        topology._key(),
        batch_size,
        [
            (
                option.fqn,
                option.sharding_type,
                option.compute_kernel,
                option.sizes(),
                option.cost_runs(),
                _text(option.cache_params),
            )
            for option in space
        ],
        type(storage_reservation).__name__,
        reserved._key(),
        sorted((name, _text(constraint)) for name, constraint in (constraints or {}).items()),
    ]


def _text(record: Any) -> str:
    """The fields of a record; of objects without a text of their own, the class."""
    if record is None:
        return ""
    fields = {
        name: type(value).__name__ if " object at 0x" in repr(value) else value for name, value in vars(record).items()
    }
    return ", ".join(
        f"{name}={_text(value) if isinstance(value, CacheParams) else value}" for name, value in fields.items()
    )

"""Where shards go."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from flambeau.rec.distributed.planner._placing import Devices
from flambeau.rec.distributed.planner.perf_models import NoopPerfModel, NoopStorageModel
from flambeau.rec.distributed.planner.types import (
    DeviceHardware,
    PartitionByType,
    Partitioner,
    PlannerError,
    PlannerErrorType,
    ShardingOption,
    Storage,
    Topology,
)
from flambeau.rec.distributed.planner.utils import bytes_to_gb

__all__ = [
    "GreedyPerfPartitioner",
    "MemoryBalancedPartitioner",
    "OrderedDeviceHardware",
    "ShardingOptionGroup",
    "SortBy",
]

logger = logging.getLogger(__name__)


class SortBy(Enum):
    """Which tables are placed first: those that take most memory, or most time."""

    STORAGE = "storage"
    PERF = "perf"


@dataclass
class ShardingOptionGroup:
    """Options that go to the same host.

    Args:
        sharding_options: the options.
        storage_sum: memory of all.
        perf_sum: time of all, in milliseconds.
        param_count: how many tables their module has, negative.
    """

    sharding_options: list[ShardingOption]
    storage_sum: Storage
    perf_sum: float
    param_count: int


@dataclass
class OrderedDeviceHardware:
    """A device that can be compared with others: the one that is less busy is less; else the first ones of hosts are.

    Args:
        device: the device.
        local_world_size: devices of a host.
    """

    device: DeviceHardware
    local_world_size: int

    def __lt__(self, other: OrderedDeviceHardware) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[float, int, int]:
        return self.device.perf.total, self.device.rank % self.local_world_size, self.device.rank


class GreedyPerfPartitioner(Partitioner):
    """Puts one table after another, the largest first, on the device that is least busy so far and has room.

    Before them come tables of which every device has a shard. Tables split over a host go to the least busy host.

    Args:
        sort_by: what the largest is.
        balance_modules: whether tables of modules with few tables come first.
    """

    def __init__(self, sort_by: SortBy = SortBy.STORAGE, balance_modules: bool = False) -> None:
        self._sort_by = sort_by
        self._balance_modules = balance_modules

    def partition(
        self,
        proposal: list[ShardingOption],
        storage_constraint: Topology,
        hbm_per_device: int | None = None,
    ) -> list[ShardingOption]:
        """The options on devices: the same objects, whose shards know their devices now.

        Args:
            proposal: one option for each table.
            storage_constraint: the devices, with the memory that may be used.
            hbm_per_device: bytes of device memory that may be used, in place of what the devices say.

        Raises:
            PlannerError: they do not fit.
        """
        devices = Devices(storage_constraint, hbm_per_device)
        ranks: dict[int, list[int] | range] = {}
        uniform = [option for option in proposal if option.partition_by == PartitionByType.UNIFORM.value]
        devices.put_on_all(uniform)
        for option in uniform:
            ranks[id(option)] = range(storage_constraint.world_size)
        for group in group_and_sort(proposal, self._sort_by, self._balance_modules):
            first = group.sharding_options[0]
            if first.partition_by == PartitionByType.DEVICE.value:
                if len(group.sharding_options) > 1:
                    names = ", ".join(option.name for option in group.sharding_options)
                    raise PlannerError(
                        f"Tables {names} must be on one host, but {first.sharding_type} may be anywhere; allow "
                        "table_row_wise and table_column_wise for them.",
                        PlannerErrorType.PARTITION,
                    )
                ranks[id(first)] = devices.put_anywhere(first)
            elif first.partition_by == PartitionByType.HOST.value:
                ranks.update(devices.put_on_a_host(group.sharding_options, group.storage_sum))
            elif first.partition_by == PartitionByType.MULTI_HOST.value:
                ranks.update(devices.put_on_hosts(group.sharding_options))
            else:
                raise RuntimeError(
                    f"Table {first.name} is to be placed by {first.partition_by!r}, but must be by one of "
                    f"{', '.join(kind.value for kind in PartitionByType)}."
                )
        for option in proposal:
            option.place(ranks[id(option)])
        return proposal


class MemoryBalancedPartitioner(Partitioner):
    """Gives devices ever less room, as long as the plan is hardly slower: so they use about the same memory.

    Args:
        max_search_count: how often it tries.
        tolerance: how much slower the plan may become, as a share of the time of the plan with all room.
        balance_modules: see `GreedyPerfPartitioner`.
    """

    def __init__(self, max_search_count: int = 10, tolerance: float = 0.02, balance_modules: bool = False) -> None:
        self._max_search_count = max_search_count
        self._tolerance = tolerance
        self._balance_modules = balance_modules

    def partition(self, proposal: list[ShardingOption], storage_constraint: Topology) -> list[ShardingOption]:
        """The options on devices: the same objects, whose shards know their devices now.

        Args:
            proposal: one option for each table.
            storage_constraint: the devices, with the memory that may be used.

        Raises:
            PlannerError: they do not fit.
        """
        rate = NoopPerfModel(storage_constraint).rate
        greedy = GreedyPerfPartitioner(sort_by=SortBy.PERF, balance_modules=self._balance_modules)
        plan = greedy.partition(proposal, storage_constraint)
        fastest = rate(plan)
        best = [option.ranks() for option in plan]
        needed = sum(option.total_storage.hbm for option in proposal)
        largest = max((run.storage.hbm for option in proposal for run in option.cost_runs()), default=0)
        least = max(needed // storage_constraint.world_size, largest)
        most = int(NoopStorageModel(storage_constraint).rate(plan))
        logger.info("The plan with all memory uses %.3f GiB of a device.", bytes_to_gb(most))
        for _ in range(self._max_search_count):
            if least + 10 * 1024**2 >= most:
                break
            middle = (most + least) // 2
            try:
                candidate = greedy.partition(proposal, storage_constraint, middle)
            except PlannerError:
                least = middle
                continue
            if rate(candidate) > fastest * (1 + self._tolerance):
                least = middle
            else:
                best, most = [option.ranks() for option in candidate], middle
        for option, ranks in zip(proposal, best, strict=True):
            option.place(cast("Sequence[int]", ranks))
        return proposal


def group_and_sort(
    proposal: list[ShardingOption], sort_by: SortBy = SortBy.STORAGE, balance_modules: bool = False
) -> list[ShardingOptionGroup]:
    """Options that are not on every device, those of a dependency together, in the order in which they are placed."""
    groups: dict[str | int, ShardingOptionGroup] = {}
    modules: dict[str, int] = {}
    for option in proposal:
        modules[option.path] = modules.get(option.path, 0) + 1
    for option in proposal:
        if option.partition_by == PartitionByType.UNIFORM.value:
            continue
        key = option.dependency or id(option)
        group = groups.get(key)
        if group is None:
            groups[key] = ShardingOptionGroup([option], option.total_storage, option.total_perf, -modules[option.path])
        else:
            group.sharding_options.append(option)
            group.storage_sum += option.total_storage
            group.perf_sum += option.total_perf

    def size(group: ShardingOptionGroup) -> tuple[float | Storage, ...]:
        of_module = (group.param_count,) if balance_modules else ()
        return (*of_module, group.perf_sum if sort_by == SortBy.PERF else group.storage_sum)

    return sorted(groups.values(), key=size, reverse=True)

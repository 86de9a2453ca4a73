"""How good a plan is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from flambeau.rec.distributed.planner.types import PerfModel, ShardingOption, Topology

__all__ = ["NoopPerfModel", "NoopStorageModel", "add_to_devices"]


class NoopPerfModel(PerfModel):
    """The time of a step on the device that takes longest.

    Args:
        topology: the devices.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def rate(self, plan: list[ShardingOption]) -> float:
        """Milliseconds."""
        times = np.zeros(self._topology.world_size)
        for option in plan:
            add_to_devices(times, option, [run.perf.total for run in option.cost_runs()])
        return float(times.max())


class NoopStorageModel(PerfModel):
    """The memory that is used on the device that uses most.

    Args:
        topology: the devices.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def rate(self, plan: list[ShardingOption]) -> float:
        """Bytes of device memory."""
        memory = np.zeros(self._topology.world_size, dtype=np.int64)
        for option in plan:
            add_to_devices(memory, option, [run.storage.hbm for run in option.cost_runs()])
        return int(memory.max())


def add_to_devices(amounts: npt.NDArray[Any], option: ShardingOption, of_runs: list[Any]) -> None:
    """Add to each device's amount what the shards on it have.

    Args:
        amounts: (devices,), changed in place.
        option: on devices.
        of_runs: what each shard of a run of `ShardingOption.cost_runs` has.

    Raises:
        ValueError: a shard is on no device.
    """
    ranks = option.ranks()
    if isinstance(ranks, range):
        first = ranks.start
        for run, amount in zip(option.cost_runs(), of_runs, strict=True):
            amounts[first : first + run.count] += amount
            first += run.count
        return
    if None in ranks:
        raise ValueError(f"A shard of table {option.name} is on no device; rate what a partitioner gave.")
    places = cast("Sequence[int]", ranks)
    shard = 0
    for run, amount in zip(option.cost_runs(), of_runs, strict=True):
        if run.count < _MANY:
            for rank in places[shard : shard + run.count]:
                amounts[rank] += amount
        else:  # a device may have several
            np.add.at(amounts, places[shard : shard + run.count], amount)
        shard += run.count


# From so many on, numpy is faster than a loop.
_MANY = 16

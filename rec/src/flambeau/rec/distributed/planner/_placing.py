"""Devices being filled with shards, the least busy ones first.

Planners place some thousands of proposals of some thousands of tables on some thousands of devices, so devices are not
objects here but columns of numbers, and heaps know which of them, and which hosts, are least busy. An entry of a heap
counts as long as it says what is still true; what changes is entered anew.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from flambeau.rec.distributed.planner._costs import Storage
from flambeau.rec.distributed.planner._errors import PlannerError, PlannerErrorType
from flambeau.rec.distributed.planner._options import CostRun, ShardingOption
from flambeau.rec.distributed.planner._topology import Topology
from flambeau.rec.distributed.types import ShardingType

__all__ = ["Devices"]

Times = tuple[float, float, float, float, float]


class Devices:
    """Room and work of all devices.

    Args:
        topology: the devices, with the room that they have.
        hbm_per_device: bytes of device memory, in place of what the devices say.
    """

    def __init__(self, topology: Topology, hbm_per_device: int | None = None) -> None:
        devices = topology.devices
        self.count = len(devices)
        self.per_host = topology.intra_group_size
        self.local_world_size = topology.local_world_size
        self.hbm = [device.storage.hbm if hbm_per_device is None else hbm_per_device for device in devices]
        self.ddr = [device.storage.ddr for device in devices]
        self.ssd = [device.storage.ssd for device in devices]
        self.times: list[Times] = [
            (perf.fwd_compute, perf.bwd_compute, perf.fwd_comms, perf.bwd_comms, perf.prefetch_compute)
            for perf in (device.perf for device in devices)
        ]
        self.totals = [_total(times) for times in self.times]
        self._heap: list[tuple[float, int, int]] | None = None
        self._changed: set[int] = set()
        self._hosts: list[tuple[float, int]] | None = None
        self._host_totals: list[float] = []
        self._changed_hosts: set[int] = set()

    def put_on_all(self, options: Sequence[ShardingOption]) -> None:
        """Put a shard of each option on each device.

        Raises:
            PlannerError: an option has not as many shards as there are devices, or there is not enough room.
        """
        if not options:
            return
        for option in options:
            if option.num_shards != self.count:
                raise PlannerError(
                    f"Table {option.name} is to have a shard on each of {self.count} devices, "
                    f"but has {option.num_shards} shards.",
                    PlannerErrorType.PARTITION,
                )
        # Devices between the ends of runs have the same shards of all tables: they are added up once.
        runs = [option.cost_runs() for option in options]
        ends = sorted({end for of_option in runs for end in _ends(of_option)})
        starts = [0, *ends[:-1]]
        chosen = [_at(of_option, starts) for of_option in runs]
        for segment, (start, end) in enumerate(zip(starts, ends, strict=True)):
            column = [of_option[segment] for of_option in chosen]
            hbm = sum(run.storage.hbm for run in column)
            ddr = sum(run.storage.ddr for run in column)
            ssd = sum(run.storage.ssd for run in column)
            work = [_times(run) for run in column]
            known: dict[Times, Times] = {}
            for rank in range(start, end):
                self.hbm[rank] -= hbm
                self.ddr[rank] -= ddr
                self.ssd[rank] -= ssd
                if self.hbm[rank] < 0 or self.ddr[rank] < 0 or self.ssd[rank] < 0:
                    raise PlannerError(
                        f"The tables of which every device has a shard do not fit: device {rank} lacks "
                        f"{self._lacking(rank)}.",
                        PlannerErrorType.PARTITION,
                    )
                before = self.times[rank]
                after = known.get(before)
                if after is None:
                    known[before] = after = _added_up(before, work)
                self.times[rank] = after
                self.totals[rank] = _total(after)
        self._heap = self._hosts = None

    def put_anywhere(self, option: ShardingOption) -> list[int]:
        """Put each shard of an option on the least busy device that has room; gives their ranks.

        Raises:
            PlannerError: none has.
        """
        return self._put(option, self._device_heap())

    def put_on_a_host(self, options: Sequence[ShardingOption], needed: Storage) -> dict[int, list[int] | range]:
        """Put options on the least busy host that has room for all; gives ranks by the options' ids.

        Args:
            options: those of a dependency, or one.
            needed: memory of all of them.

        Raises:
            PlannerError: none has.
        """
        heap = self._host_heap()
        tried: list[tuple[float, int]] = []
        try:
            while heap:
                entry = heapq.heappop(heap)
                if entry[0] != self._host_totals[entry[1]]:
                    continue
                tried.append(entry)
                ranks = self._put_on_host(options, needed, entry[1])
                if ranks is not None:
                    return ranks
        finally:
            for entry in tried:
                heapq.heappush(heap, entry)
        names = ", ".join(option.name for option in options)
        raise PlannerError(f"No host has room for {names}, which must be on one.", PlannerErrorType.PARTITION)

    def put_on_hosts(self, options: Sequence[ShardingOption]) -> dict[int, list[int] | range]:
        """Put options whose shards fill several hosts on hosts; gives ranks by the options' ids.

        Raises:
            PlannerError: shards do not fill hosts, or there is not enough room.
        """
        if len(options) != 1:
            names = ", ".join(option.name for option in options)
            raise PlannerError(f"Tables {names} cannot be on some hosts together.", PlannerErrorType.PARTITION)
        option = options[0]
        if option.num_shards % self.per_host:
            raise PlannerError(
                f"Table {option.name} has {option.num_shards} shards, which do not fill hosts of {self.per_host} "
                "devices evenly; choose another min_partition.",
                PlannerErrorType.PARTITION,
            )
        heap = self._host_heap()
        hosts = [host for _, host in sorted({entry for entry in heap if entry[0] == self._host_totals[entry[1]]})]
        # More groups of shards than hosts go around.
        chosen = [hosts[number % len(hosts)] for number in range(option.num_shards // self.per_host)]
        ranks = [rank for host in chosen for rank in range(host * self.per_host, (host + 1) * self.per_host)]
        kept = (list(self.hbm), list(self.ddr), list(self.ssd), list(self.times), list(self.totals))
        try:
            self._put_on_each(option, ranks)
        except PlannerError:
            self.hbm, self.ddr, self.ssd, self.times, self.totals = kept
            raise
        self._changed.update(ranks)
        self._changed_hosts.update(chosen)
        return {id(option): ranks}

    def _put_on_host(
        self, options: Sequence[ShardingOption], needed: Storage, host: int
    ) -> dict[int, list[int] | range] | None:
        ranks = range(host * self.per_host, min((host + 1) * self.per_host, self.count))
        room = Storage(
            sum(self.hbm[rank] for rank in ranks),
            sum(self.ddr[rank] for rank in ranks),
            sum(self.ssd[rank] for rank in ranks),
        )
        if not needed.fits_in(room):
            return None
        span = slice(ranks.start, ranks.stop)
        kept = (self.hbm[span], self.ddr[span], self.ssd[span], self.times[span], self.totals[span])
        placed: dict[int, list[int] | range] = {}
        try:
            heap: list[tuple[float, int, int]] | None = None
            for option in options:
                if option.sharding_type == ShardingType.TABLE_ROW_WISE.value:
                    heap = None
                    self._put_on_each(option, ranks)
                    placed[id(option)] = ranks
                elif option.sharding_type == ShardingType.TABLE_COLUMN_WISE.value:
                    if heap is None:
                        heap = [self._entry(rank) for rank in ranks]
                        heapq.heapify(heap)
                    placed[id(option)] = self._put(option, heap)
                else:
                    raise PlannerError(
                        f"Table {option.name} is to be on one host, which {option.sharding_type} cannot be.",
                        PlannerErrorType.PARTITION,
                    )
        except PlannerError:
            self.hbm[span], self.ddr[span], self.ssd[span], self.times[span], self.totals[span] = kept
            return None
        self._changed.update(ranks)
        self._changed_hosts.add(host)
        return placed

    def _put_on_each(self, option: ShardingOption, ranks: Sequence[int]) -> None:
        if option.num_shards != len(ranks):
            raise PlannerError(
                f"Table {option.name} is to have a shard on each of {len(ranks)} devices, "
                f"but has {option.num_shards} shards.",
                PlannerErrorType.PARTITION,
            )
        shard = 0
        for run in option.cost_runs():
            for rank in ranks[shard : shard + run.count]:
                if not self._fits(run.storage, rank):
                    raise PlannerError(
                        f"A shard of table {option.name} does not fit on device {rank}.", PlannerErrorType.PARTITION
                    )
                self._give(rank, run)
            shard += run.count

    def _put(self, option: ShardingOption, heap: list[tuple[float, int, int]]) -> list[int]:
        """Each shard on the first of a heap that has room."""
        ranks: list[int] = []
        totals = self.totals
        for run in option.cost_runs():
            storage = run.storage
            for _ in range(run.count):
                full: list[tuple[float, int, int]] = []
                while heap:
                    total, _, rank = heap[0]
                    if total != totals[rank]:
                        heapq.heappop(heap)
                    elif self._fits(storage, rank):
                        break
                    else:
                        full.append(heapq.heappop(heap))
                if not heap:
                    for entry in full:
                        heapq.heappush(heap, entry)
                    raise PlannerError(
                        f"No device has room for a shard of table {option.name}, {storage}; the one with most has "
                        f"HBM {max(self.hbm)} and DDR {max(self.ddr)} left.",
                        PlannerErrorType.PARTITION,
                    )
                self._give(rank, run)
                ranks.append(rank)
                heapq.heapreplace(heap, self._entry(rank))
                if len(full) * 4 > len(heap):
                    heap.extend(full)
                    heapq.heapify(heap)
                else:
                    for entry in full:
                        heapq.heappush(heap, entry)
        return ranks

    def _fits(self, storage: Storage, rank: int) -> bool:
        return storage.hbm <= self.hbm[rank] and storage.ddr <= self.ddr[rank] and storage.ssd <= self.ssd[rank]

    def _give(self, rank: int, run: CostRun) -> None:
        storage = run.storage
        self.hbm[rank] -= storage.hbm
        self.ddr[rank] -= storage.ddr
        self.ssd[rank] -= storage.ssd
        self.times[rank] = times = _sum(self.times[rank], _times(run))
        self.totals[rank] = _total(times)
        self._changed_hosts.add(rank // self.per_host)

    def _entry(self, rank: int) -> tuple[float, int, int]:
        return self.totals[rank], rank % self.local_world_size, rank

    def _device_heap(self) -> list[tuple[float, int, int]]:
        if self._heap is None:
            self._heap = [self._entry(rank) for rank in range(self.count)]
            heapq.heapify(self._heap)
        else:
            for rank in self._changed:
                heapq.heappush(self._heap, self._entry(rank))
        self._changed.clear()
        return self._heap

    def _host_heap(self) -> list[tuple[float, int]]:
        if self._hosts is None:
            hosts = range(-(-self.count // self.per_host))
            self._host_totals = [self._host_total(host) for host in hosts]
            self._hosts = [(total, host) for host, total in enumerate(self._host_totals)]
            heapq.heapify(self._hosts)
        else:
            for host in self._changed_hosts:
                self._host_totals[host] = total = self._host_total(host)
                heapq.heappush(self._hosts, (total, host))
        self._changed_hosts.clear()
        return self._hosts

    def _host_total(self, host: int) -> float:
        total = 0.0
        for one in self.totals[host * self.per_host : (host + 1) * self.per_host]:
            total += one
        return total

    def _lacking(self, rank: int) -> str:
        kinds = (("HBM", self.hbm[rank]), ("DDR", self.ddr[rank]), ("SSD", self.ssd[rank]))
        return ", ".join(f"{-left} bytes of {kind}" for kind, left in kinds if left < 0)


def _times(run: CostRun) -> Times:
    perf = run.perf
    return perf.fwd_compute, perf.bwd_compute, perf.fwd_comms, perf.bwd_comms, perf.prefetch_compute


def _sum(a: Times, b: Times) -> Times:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4]


def _total(times: Times) -> float:
    return times[0] + times[1] + times[2] + times[3] + times[4]


def _added_up(before: Times, work: Sequence[Times]) -> Times:
    """One after another, as single devices would add them up, to the last bit."""
    after = np.cumsum(np.array([before, *work]), axis=0)[-1]
    return tuple(after.tolist())


def _ends(runs: Sequence[CostRun]) -> list[int]:
    return list(itertools.accumulate(run.count for run in runs))


def _at(runs: Sequence[CostRun], starts: Sequence[int]) -> list[CostRun]:
    """The run that each of some shards, in ascending order, belongs to."""
    chosen: list[CostRun] = []
    number, end = 0, runs[0].count
    for start in starts:
        while start >= end:
            number += 1
            end += runs[number].count
        chosen.append(runs[number])
    return chosen

"""What to tell when nothing fits."""

from __future__ import annotations

from flambeau.rec.distributed.planner._search import Search
from flambeau.rec.distributed.planner._static_proposers import options_by_table
from flambeau.rec.distributed.planner.types import (
    PartitionByType,
    PlannerError,
    PlannerErrorType,
    ShardingOption,
    Storage,
    StorageReservation,
    Topology,
)
from flambeau.rec.distributed.planner.utils import bytes_to_gb

__all__ = ["no_plan"]


def no_plan(
    search: Search,
    search_space: list[ShardingOption],
    topology: Topology,
    storage_reservation: StorageReservation,
    batch_size: int,
) -> PlannerError:
    """The error of a search that found nothing: how much is lacking, because of which table, and what to change.

    Args:
        search: the search.
        search_space: all options of all tables.
        topology: the devices.
        storage_reservation: what set memory aside.
        batch_size: examples of each process.
    """
    total = _sum(device.storage for device in topology.devices)
    usable = _sum(device.storage for device in search.devices.devices)
    least = search.least_storage
    insufficient = least is not None and not least.fits_in(usable)
    lines = [
        f"No plan found for {len(options_by_table(search_space))} tables on {topology.world_size} "
        f"{topology.compute_device} devices, after {search.num_proposals} proposals"
        + (f" in {search.timeout_seconds} s, when time was up." if search.timed_out else ".")
    ]
    if insufficient and least is not None:
        lines.append(f"The smallest proposal takes {_gib(least)} of {_gib(usable)} that all devices have for tables.")
    elif least is not None:
        lines.append(
            f"There is memory for {_gib(usable)} and a proposal takes but {_gib(least)}, "
            "yet none can be divided among the devices."
        )
    lines.append(
        f"All devices have {_gib(total)}, of which {type(storage_reservation).__name__} sets {_gib(total - usable)} "
        f"aside; for each: {_gib(_one(topology))}, {_gib(_one(search.devices))} for tables."
    )
    table, fits = _largest(search_space, search.devices)
    if table is not None:
        smallest = min(table.cost_runs(), key=lambda run: -run.storage.hbm - run.storage.ddr).storage
        lines.append(
            f"The largest table {'is' if fits else 'that fits in no way is'} {table.fqn}, "
            f"{tuple(table.tensor.shape)} of {table.tensor.dtype}: even {table.sharding_type} by "
            f"{table.compute_kernel} it takes {_gib(table.total_storage)}, {_gib(smallest)} for a shard."
        )
    if search.last_error is not None:
        lines.append(f"The last proposal failed: {search.last_error}")
    lines += [
        "What can be done:",
        f"  1) Plan for more devices than {topology.world_size}, or for devices with more memory.",
        "  2) Make the largest tables smaller: fewer rows or columns, or elements of 16 bits.",
        f"  3) Reduce the batch size of {batch_size} examples for each process.",
        "  4) Reserve less memory (storage_reservation).",
        "  5) Allow more in constraints: row_wise or table_row_wise sharding, and the kernels fused_uvm and "
        "fused_uvm_caching, which keep tables in the hosts' memory.",
    ]
    if search.timed_out:
        lines.append("  6) Give the search more time (timeout_seconds).")
    kind = PlannerErrorType.INSUFFICIENT_STORAGE if insufficient else PlannerErrorType.STRICT_CONSTRAINTS
    return PlannerError("\n".join(lines), kind)


def _largest(search_space: list[ShardingOption], devices: Topology) -> tuple[ShardingOption | None, bool]:
    """The option with least memory of the largest table that fits in no way, else of the largest; and if it fits."""
    largest: dict[bool, ShardingOption] = {}
    for options in options_by_table(search_space).values():
        fits = any(_fits_alone(option, devices) for option in options)
        smallest = min(options, key=lambda option: _bytes(option.total_storage))
        known = largest.get(fits)
        if known is None or _bytes(smallest.total_storage) > _bytes(known.total_storage):
            largest[fits] = smallest
    fits = False not in largest
    return largest.get(fits), fits


def _fits_alone(option: ShardingOption, devices: Topology) -> bool:
    """Whether each shard has room on some device, or on every one for tables of which every device has a shard."""
    rooms = [device.storage for device in devices.devices]
    choose = all if option.partition_by == PartitionByType.UNIFORM.value else any
    return all(choose(run.storage.fits_in(room) for room in rooms) for run in option.cost_runs())


def _one(topology: Topology) -> Storage:
    return min((device.storage for device in topology.devices), default=Storage(0, 0))


def _sum(storages: object) -> Storage:
    total = Storage(0, 0)
    for storage in storages:  # type: ignore[attr-defined]
        total += storage
    return total


def _bytes(storage: Storage) -> int:
    return storage.hbm + storage.ddr + storage.ssd


def _gib(storage: Storage) -> str:
    return f"{bytes_to_gb(storage.hbm):.3f} GiB HBM and {bytes_to_gb(storage.ddr):.3f} GiB DDR"

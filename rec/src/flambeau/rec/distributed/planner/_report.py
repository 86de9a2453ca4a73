"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flambeau.rec.distributed.planner._loads import STAGES, DeviceLoads, imbalance
from flambeau.rec.distributed.planner.types import (
    ParameterConstraints,
    PlanDebugStats,
    ShardingOption,
    StorageReservation,
    Topology,
)
from flambeau.rec.distributed.planner.utils import bytes_to_gb, bytes_to_mb, get_num_poolings, storage_repr_in_gb

__all__ = ["MIN_WIDTH", "report", "round_to_one_sigfig"]

MIN_WIDTH = 90

_SHORT = {
    "data_parallel": "DP",
    "table_wise": "TW",
    "column_wise": "CW",
    "row_wise": "RW",
    "table_row_wise": "TWRW",
    "table_column_wise": "TWCW",
    "grid_shard": "GRID",
}


def round_to_one_sigfig(x: float) -> str:
    """A number to its first digit, such as "0.002" and "1e-09"."""
    return f"{float(f'{x:.1g}'):g}"


def report(
    topology: Topology,
    batch_size: int,
    storage_reservation: StorageReservation,
    num_proposals: int,
    num_plans: int,
    run_time: float,
    plan: Sequence[ShardingOption],
    constraints: dict[str, ParameterConstraints] | None,
    debug: bool,
    debug_stats: PlanDebugStats | None,
) -> list[str]:
    """The lines of a report in a frame.

    Devices with the same load share a row, so that a thousand of them make a short table.
    """
    loads = DeviceLoads(plan, topology, constraints)
    planner = debug_stats.planner_type if debug_stats is not None else "the planner"
    timeout = debug_stats.timeout_seconds if debug_stats is not None else None
    lines = [
        "Planner report",
        "",
        f"{planner} found {num_plans} plans among {num_proposals} proposals in {run_time:.2f} s"
        + (f" of {timeout} s." if timeout is not None else "."),
        f"{len(plan)} tables on {topology.world_size} {topology.compute_device} devices, "
        f"{topology.local_world_size} of a host; {batch_size} examples for each.",
        f"Reserved by {type(storage_reservation).__name__}: {_reserved(topology, storage_reservation)}",
        "",
        *_devices(loads, topology, storage_reservation),
        "",
        *_summary(loads),
    ]
    if debug:
        lines += ["", *_tables(plan, constraints)]
    return _framed(lines)


def _reserved(topology: Topology, storage_reservation: StorageReservation) -> str:
    left = storage_reservation.last_reserved_topology
    if left is None:
        return "nothing"
    whole, usable = topology.devices[0].storage, left.devices[0].storage
    parts = [f"{storage_repr_in_gb(whole - usable)} of {storage_repr_in_gb(whole)} of a device"]
    for what, name in (("dense parameters", "_dense_storage"), ("ids", "_kjt_storage")):
        if (storage := getattr(storage_reservation, name, None)) is not None:
            parts.append(f"{what} {storage_repr_in_gb(storage)}")
    return ", ".join(parts)


def _devices(loads: DeviceLoads, topology: Topology, storage_reservation: StorageReservation) -> list[str]:
    reserved = storage_reservation.last_reserved_topology or topology
    rows: list[list[str]] = []
    ranks: list[tuple[int, int]] = []
    for rank, device in enumerate(reserved.devices):
        stages = [f"{loads.stages[stage][rank]:.3f}" for stage in STAGES]
        row = [
            _used(int(loads.hbm[rank]), device.storage.hbm),
            _used(int(loads.ddr[rank]), device.storage.ddr),
            f"{loads.total[rank]:.3f}",
            *stages,
            f"{bytes_to_mb(loads.inputs[rank]):.2f}",
            f"{bytes_to_mb(loads.outputs[rank]):.2f}",
            " ".join(f"{_SHORT.get(kind, kind)}:{count}" for kind, count in sorted(loads.shards[rank].items())) or "-",
        ]
        if rows and rows[-1] == row:
            ranks[-1] = (ranks[-1][0], rank)
        else:
            rows.append(row)
            ranks.append((rank, rank))
    header = [
        "Rank", "HBM GiB", "DDR GiB", "ms", "fwd comp", "fwd comms", "bwd comp", "bwd comms", "prefetch", "ids ms",
        "In MiB", "Out MiB", "Shards",
    ]  # fmt: skip
    named = [_span(*span) for span in ranks]
    return _table(header, [[name, *row] for name, row in zip(named, rows, strict=True)])


def _used(size: int, room: int) -> str:
    share = f" ({size / room:.0%})" if room > 0 else ""
    return f"{bytes_to_gb(size):.3f}{share}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _summary(loads: DeviceLoads) -> Iterable[str]:
    path = loads.critical_path()
    yield (
        f"Slowest device: {loads.total.max():.3f} ms on {_ranks_of(loads.total == loads.total.max())}, "
        f"mean {loads.total.mean():.3f} ms."
    )
    for name, used in (("HBM", loads.hbm), ("DDR", loads.ddr)):
        if used.any():
            yield (
                f"Most {name}: {bytes_to_gb(int(used.max())):.3f} GiB on {_ranks_of(used == used.max())}, "
                f"mean {bytes_to_gb(int(used.mean())):.3f} GiB, all {bytes_to_gb(int(used.sum())):.3f} GiB."
            )
    yield (
        f"Critical path: {path.total():.3f} ms, computing {path.comp_estimate:.3f}, "
        f"communication {path.comms_estimate:.3f}."
    )
    yield "Imbalance (0 is none):"
    for name, values in (("time", loads.total), ("HBM", loads.hbm), ("DDR", loads.ddr)):
        if values.any():
            measures = ", ".join(f"{what} {round_to_one_sigfig(value)}" for what, value in imbalance(values).items())
            yield f"  {name}: {measures}"


def _ranks_of(chosen: Iterable[bool]) -> str:
    """Ranks as spans, at most a few of them."""
    spans: list[tuple[int, int]] = []
    for rank, is_one in enumerate(chosen):
        if is_one and spans and spans[-1][1] == rank - 1:
            spans[-1] = (spans[-1][0], rank)
        elif is_one:
            spans.append((rank, rank))
    shown = ", ".join(_span(*span) for span in spans[:8])
    return f"rank {shown}" + (", ..." if len(spans) > 8 else "")


def _tables(plan: Sequence[ShardingOption], constraints: dict[str, ParameterConstraints] | None) -> list[str]:
    rows = []
    for option in plan:
        storage = option.total_storage
        placed = {rank for rank in option.get_shards_assignment() if rank is not None}
        rows.append(
            [
                option.fqn,
                _SHORT.get(option.sharding_type, option.sharding_type),
                option.compute_kernel,
                f"{bytes_to_gb(storage.hbm):.3f}",
                f"{bytes_to_gb(storage.ddr):.3f}",
                f"{max(run.perf.total for run in option.cost_runs()):.3f}",
                f"{sum(option.input_lengths):g}",
                f"{sum(get_num_poolings(constraints, option)):g}",
                "pooled" if option.is_pooled else "sequence",
                str(option.num_inputs),
                f"{option.tensor.shape[0]:,}",
                str(option.tensor.shape[1]),
                str(option.num_shards),
                _ranks_of(rank in placed for rank in range(max(placed, default=-1) + 1)).removeprefix("rank "),
            ]
        )
    header = [
        "Table", "Sharding", "Kernel", "HBM GiB", "DDR GiB", "Shard ms", "Ids", "Bags", "Output", "Features", "Rows",
        "Dim", "Shards", "Ranks",
    ]  # fmt: skip
    return _table(header, rows)


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _framed(lines: list[str]) -> list[str]:
    width = max(MIN_WIDTH, *(len(line) + 4 for line in lines))
    bar = "#" * width
    return [bar, *(f"# {line.ljust(width - 4)} #" for line in lines), bar]

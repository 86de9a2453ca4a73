"""Which rows and columns of a table each shard has.

A table spread over a thousand devices has a thousand shards, of which all but the last are alike. They are described by
runs of equal shards, so that costs are found once for a run, and single shards are made for the plans that are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from flambeau.rec.distributed.planner.constants import MIN_CW_DIM
from flambeau.rec.distributed.types import ShardingType
from flambeau.rec.errors import OptionError

__all__ = ["ShardRun", "runs_of_shards", "shards_of_runs"]

logger = logging.getLogger(__name__)


class ShardRun(NamedTuple):
    """Shards of equal size, each as far from the one before it.

    Args:
        count: how many.
        rows: of each.
        columns: of each.
        first_row: of the first.
        row_step: from one's first row to the next one's.
        first_column: of the first.
        column_step: from one's first column to the next one's.
    """

    count: int  # type: ignore[assignment]  # nobody looks for numbers in a run
    rows: int
    columns: int
    first_row: int = 0
    row_step: int = 0
    first_column: int = 0
    column_step: int = 0


def shards_of_runs(runs: Sequence[ShardRun]) -> tuple[list[list[int]], list[list[int]]]:
    """Sizes and offsets of the single shards, each (rows, columns)."""
    sizes = [[run.rows, run.columns] for run in runs for _ in range(run.count)]
    offsets = [
        [run.first_row + number * run.row_step, run.first_column + number * run.column_step]
        for run in runs
        for number in range(run.count)
    ]
    return sizes, offsets


def runs_of_shards(
    rows: int,
    columns: int,
    world_size: int,
    local_world_size: int,
    sharding_type: str,
    col_wise_shard_dim: int | None = None,
    device_memory_sizes: Sequence[int] | None = None,
    num_buckets: int | None = None,
) -> tuple[ShardRun, ...]:
    """The shards of a table.

    Args:
        rows: of the table.
        columns: of the table.
        world_size: devices.
        local_world_size: devices of a host.
        sharding_type: a value of `ShardingType`.
        col_wise_shard_dim: columns that a shard of some columns has at least; 128 by default.
        device_memory_sizes: bytes of each device, in proportion to which rows are spread over them.
        num_buckets: rows are spread by buckets, of which there are so many.

    Raises:
        ValueError: the sharding type is none of these.
    """
    match sharding_type:
        case ShardingType.DATA_PARALLEL.value:
            return (ShardRun(world_size, rows, columns),)
        case ShardingType.TABLE_WISE.value:
            return (ShardRun(1, rows, columns),)
        case ShardingType.ROW_WISE.value if device_memory_sizes is not None:
            return _rows_by_memory(rows, columns, world_size, device_memory_sizes)
        case ShardingType.ROW_WISE.value:
            return _rows(rows, columns, world_size, num_buckets)
        case ShardingType.TABLE_ROW_WISE.value:
            return _rows(rows, columns, local_world_size, num_buckets)
        case ShardingType.COLUMN_WISE.value | ShardingType.TABLE_COLUMN_WISE.value:
            return _columns(rows, columns, col_wise_shard_dim)
        case ShardingType.GRID_SHARD.value:
            return tuple(
                run._replace(first_column=block.first_column + number * block.column_step)
                for block in _columns(rows, columns, col_wise_shard_dim)
                for number in range(block.count)
                for run in _rows(rows, block.columns, local_world_size)
            )
    raise ValueError(
        f"sharding_type is {sharding_type!r}, but must be one of {', '.join(kind.value for kind in ShardingType)}."
    )


def _rows(rows: int, columns: int, shards: int, buckets: int | None = None) -> tuple[ShardRun, ...]:
    """Equally many on each, but the last that has any; those behind it have none."""
    if buckets is not None:
        return _buckets(rows, columns, shards, buckets)
    block = -(-rows // shards)
    full = min(rows // block, shards) if block else 0
    runs = [ShardRun(full, block, columns, 0, block)]
    left = shards - full
    if left and (rest := rows - full * block):
        runs.append(ShardRun(1, rest, columns, full * block))
        left -= 1
    runs.append(ShardRun(left, 0, columns, rows))
    return tuple(run for run in runs if run.count)


def _buckets(rows: int, columns: int, shards: int, buckets: int) -> tuple[ShardRun, ...]:
    """Equally many buckets of rows on each; where they do not come out even, the first have one more."""
    if rows % buckets:
        raise OptionError(f"num_buckets is {buckets}, but must divide the {rows} rows of the table.")
    size = rows // buckets
    least, more = divmod(buckets, shards)
    large, small = (least + 1) * size, least * size
    runs = (
        ShardRun(more, large, columns, 0, large),
        ShardRun(shards - more, small, columns, more * large, small),
    )
    return tuple(run for run in runs if run.count)


def _rows_by_memory(rows: int, columns: int, shards: int, memory: Sequence[int]) -> tuple[ShardRun, ...]:
    """As many on each as its share of all memory; the last has what is left."""
    if len(memory) != shards:
        raise OptionError(f"device_memory_sizes has {len(memory)} values for {shards} devices; give one for each.")
    total = sum(memory)
    counts = [int(rows * (size / total)) for size in memory[:-1]]
    counts.append(rows - sum(counts))
    runs: list[ShardRun] = []
    first = 0
    for count in counts:
        last = runs[-1] if runs else None
        if last is not None and last.rows == count:
            runs[-1] = last._replace(count=last.count + 1, row_step=count)
        else:
            runs.append(ShardRun(1, count, columns, first, count))
        first += count
    return tuple(runs)


def _columns(rows: int, columns: int, least: int | None) -> tuple[ShardRun, ...]:
    """As few columns in a shard as may be, in the width that divides them all, if there is one."""
    width = min(_width(least or MIN_CW_DIM, columns), columns)
    count, rest = divmod(columns, width)
    runs = [ShardRun(count, rows, width, 0, 0, 0, width)]
    if rest:
        logger.warning("%d columns are not a multiple of %d; the last shard has %d.", columns, width, rest)
        runs.append(ShardRun(1, rows, rest, 0, 0, count * width))
    return tuple(runs)


def _width(least: int, columns: int) -> int:
    """The smallest multiple of four, not below the least, that divides the columns; else all of them."""
    return next((width for width in range(least, columns) if width % 4 == 0 and columns % width == 0), columns)

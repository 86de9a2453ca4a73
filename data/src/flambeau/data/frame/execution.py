"""Computing what plans say: on this machine by Polars, on a cluster by the engine that the rows name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.data.frame._engine import pl, run
from flambeau.data.frame._plan import ONE, Engine, Rows, Table, Term, select
from flambeau.data.frame.aggregates import AGGREGATES
from flambeau.data.frame.errors import FrameValueError


def compute(rows: Rows, columns: Mapping[str, Term]) -> pl.DataFrame:
    """The values of some columns."""
    if rows.frame is None and (engine := cluster(rows)) is not None:
        return engine.compute(rows, columns)
    return run(select(rows, columns), streaming=streams(rows))


def compute_one(rows: Rows, column: Term) -> pl.Series:
    """The values of one column; kept for as long as the expression lives, where the rows are in memory."""
    if rows.frame is not None and (known := rows.computed.get(column)) is not None:
        return known
    series = compute(rows, {ONE: column}).to_series()
    if rows.frame is not None and len(series) == rows.frame.height:
        rows.computed[column] = series
    return series


def materialise(rows: Rows) -> pl.DataFrame:
    """Bring rows into memory, for good."""
    if rows.frame is None:
        rows.frame = compute(rows, rows.references())
    return rows.frame


def count(rows: Rows) -> int:
    """How many rows there are."""
    if rows.frame is not None:
        return rows.frame.height
    if (engine := cluster(rows)) is not None:
        return engine.count(rows)
    if not streams(rows):
        return materialise(rows).height
    return int(run(rows.lazy().select(pl.len()), streaming=True).item())


def aggregate(rows: Rows, column: Term, name: str) -> Any:
    """One number about a column; see `aggregates.AGGREGATES`."""
    one = AGGREGATES[name]
    if rows.frame is None and one.partial is not None and (engine := cluster(rows)) is not None:
        return engine.aggregate(rows, column, one)
    if one.partial is not None and one.combine is not None and streams(rows):
        # Files stream through: only the parts of the one block that they are here are held.
        parts = [value.alias(name) for name, value in one.partial.items()]
        wide = select(rows, {ONE: column}).with_columns(pl.selectors.float().cast(pl.Float64))
        return one.combine(run(wide.select(parts), streaming=True))
    return one.whole(compute_one(rows, column))


def align(rows: Rows, other: Rows, column: Term) -> Term:
    """An expression over `rows` for a column over other rows of the same number.

    Raises:
        ValueError: the numbers of rows differ.
    """
    if rows is other:
        return column
    if not column.inputs and not hasattr(column, "name"):
        return column  # a constant has the length that is asked for
    if cluster(rows) is not None or cluster(other) is not None:
        raise FrameValueError(
            "columns of different frames combine in memory only, and one of them is on a cluster; collect() it first, "
            "or bring both into one frame before scale()."
        )
    series = compute_one(other, column)
    frame = materialise(rows)
    if frame.width and len(series) != frame.height:
        raise FrameValueError(f"columns must have equal length, got {frame.height} and {len(series)} rows.")
    return rows.attach(series, column.dtype)


def root(rows: Rows) -> Rows:
    """Where rows come from, through all steps; the first where there are several."""
    while rows.parents:
        rows = rows.parents[0]
    return rows


def cluster(rows: Rows) -> Engine | None:
    """What computes over rows that come from elsewhere, unless they have been brought into memory on the way."""
    while rows.frame is None:
        if not rows.parents:
            return rows.engine
        rows = rows.parents[0]
    return None


def streams(rows: Rows) -> bool:
    """Whether rows come from files, and have not been brought into memory on the way."""
    while rows.frame is None:
        if not rows.parents:
            return rows.streams
        rows = rows.parents[0]
    return False


def in_memory(rows: Rows) -> bool:
    """Whether rows can be had without reading files or asking a cluster."""
    return rows.frame is not None or isinstance(root(rows), Table)

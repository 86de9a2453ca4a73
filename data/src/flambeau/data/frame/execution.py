"""Computing what plans say: on this machine by Polars, on a cluster by the engine that the rows name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flambeau.data.frame._engine import check_process, pl
from flambeau.data.frame._plan import ONE, Rows, Table, Term
from flambeau.data.frame.errors import FrameValueError

if TYPE_CHECKING:
    from flambeau.data.frame.distributed import Scaled
    from flambeau.data.frame.scanning import Scan


def select(rows: Rows, columns: Mapping[str, Term]) -> pl.LazyFrame:
    """The query of some columns over rows; values that were computed before are not computed again."""
    base, known = rows.lazy(), dict[Term, str]()
    if rows.frame is not None and rows.computed:
        terms = {each: None for column in columns.values() for each in column.walk()}
        held = [(one, series) for one in terms if (series := rows.computed.get(one)) is not None]
        known = {one: f"\x1fcomputed{place}" for place, (one, _) in enumerate(held)}
        base = rows.frame.with_columns(series.alias(known[one]) for one, series in held).lazy()
    # `with_columns` gives constants the length of the rows, which `select` alone would not.
    return base.with_columns(one.polars(known).alias(name) for name, one in columns.items()).select([*columns])


def compute(rows: Rows, columns: Mapping[str, Term]) -> pl.DataFrame:
    """The values of some columns."""
    if rows.frame is None and (engine := cluster(rows)) is not None:
        return engine.compute(rows, columns)
    return collect(select(rows, columns), streaming=scan_below(rows) is not None)


def collect(query: pl.LazyFrame, *, streaming: bool = False) -> pl.DataFrame:
    """Run a query; data on disk streams through memory."""
    check_process()
    return query.collect(engine="streaming" if streaming else "in-memory")


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
    if scan_below(rows) is None:
        return materialise(rows).height
    return int(collect(rows.lazy().select(pl.len()), streaming=True).item())


def aggregate(rows: Rows, column: Term, name: str) -> Any:
    """One number about a column; see `aggregates.AGGREGATES`."""
    from flambeau.data.frame.aggregates import AGGREGATES

    one = AGGREGATES[name]
    if rows.frame is None and one.partial is not None and (engine := cluster(rows)) is not None:
        return engine.aggregate(rows, column, one)
    if one.partial is not None and one.combine is not None and scan_below(rows) is not None:
        # Files stream through: only the parts of the one block that they are here are held.
        parts = [value.alias(name) for name, value in one.partial.items()]
        wide = select(rows, {ONE: column}).with_columns(pl.selectors.float().cast(pl.Float64))
        return one.combine(collect(wide.select(parts), streaming=True))
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


def cluster(rows: Rows) -> Scaled | None:
    """The distributed rows that rows come from, if they do and have not been brought into memory on the way."""
    while rows.frame is None:
        if not rows.parents:
            from flambeau.data.frame.distributed import Scaled

            return rows if isinstance(rows, Scaled) else None
        rows = rows.parents[0]
    return None


def scan_below(rows: Rows) -> Scan | None:
    """The files that rows come from, if they do and have not been brought into memory on the way."""
    while rows.frame is None:
        if not rows.parents:
            from flambeau.data.frame.scanning import Scan

            return rows if isinstance(rows, Scan) else None
        rows = rows.parents[0]
    return None


def in_memory(rows: Rows) -> bool:
    """Whether rows can be had without reading files or asking a cluster."""
    return rows.frame is not None or isinstance(root(rows), Table)

"""Numbers about a column: computed at once, and from parts that blocks of rows computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flambeau.data.frame._engine import pl


@dataclass(frozen=True)
class Aggregate:
    """How a column becomes one value; nulls are left out.

    Attributes:
        whole: from the column.
        partial: what a block tells, as expressions over the column "value"; None where the whole column is needed.
        combine: the value from the blocks' rows, in order.
    """

    whole: Callable[[pl.Series], Any]
    partial: dict[str, pl.Expr] | None = None
    combine: Callable[[pl.DataFrame], Any] | None = None


def _first_mode(series: pl.Series) -> Any:
    """The commonest value; of several the first to occur, as in Python's `statistics`."""
    counted = series.drop_nulls().to_frame("value").group_by("value", maintain_order=True).len()
    place = counted.get_column("len").arg_max()
    return None if place is None else counted.get_column("value")[place]


def _std(parts: pl.DataFrame) -> float | None:
    """Unbiased deviation of all from each block's count, mean and squared deviations (Chan, Golub, LeVeque 1979)."""
    count, mean, squares = 0, 0.0, 0.0
    for n, m, s in parts.filter(pl.col("count") > 0).select("count", "mean", "squares").iter_rows():
        delta, total = m - mean, count + n
        squares += s + delta * delta * count * n / total
        mean += delta * n / total
        count = total
    return math.sqrt(squares / (count - 1)) if count > 1 else None


def _mean(parts: pl.DataFrame) -> float | None:
    total = int(parts.get_column("count").sum())
    return float(parts.get_column("sum").sum()) / total if total else None


_value = pl.col("value")
_float = _value.cast(pl.Float64, strict=False)

AGGREGATES: dict[str, Aggregate] = {
    "min": Aggregate(pl.Series.min, {"min": _value.min()}, lambda parts: parts.get_column("min").min()),
    "max": Aggregate(pl.Series.max, {"max": _value.max()}, lambda parts: parts.get_column("max").max()),
    "sum": Aggregate(
        lambda series: wide(series).sum(), {"sum": _value.sum()}, lambda parts: wide(parts.get_column("sum")).sum()
    ),
    "count": Aggregate(pl.Series.count, {"count": _value.count()}, lambda parts: parts.get_column("count").sum()),
    "null_count": Aggregate(
        pl.Series.null_count, {"nulls": _value.null_count()}, lambda parts: parts.get_column("nulls").sum()
    ),
    "all": Aggregate(pl.Series.all, {"all": _value.all()}, lambda parts: parts.get_column("all").all()),
    "any": Aggregate(pl.Series.any, {"any": _value.any()}, lambda parts: parts.get_column("any").any()),
    "mean": Aggregate(lambda series: wide(series).mean(), {"count": _value.count(), "sum": _float.sum()}, _mean),
    "std": Aggregate(
        lambda series: wide(series).std(),
        {
            "count": _value.count(),
            "mean": _float.mean(),
            "squares": ((_float - _float.mean()) ** 2).sum(),
        },
        _std,
    ),
    "median": Aggregate(lambda series: wide(series).median()),
    "mode": Aggregate(_first_mode),
}


def wide(series: pl.Series) -> pl.Series:
    """Small whole numbers and single precision are summed in 64 bits."""
    if series.dtype == pl.Float32:
        return series.cast(pl.Float64)
    return series.cast(pl.Int64) if series.dtype.is_integer() or series.dtype == pl.Boolean else series

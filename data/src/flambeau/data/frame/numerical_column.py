"""Columns of numbers and booleans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame.column import Column
from flambeau.data.frame.column_classes import column_from
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.execution import aggregate


class NumericalColumn(Column):
    """A column of numbers or booleans."""

    def __neg__(self) -> Any:
        return self._apply("neg", self._number("-").with_null(self.is_nullable))

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        if dt.is_floating(self.dtype):
            raise FrameTypeError(f"~ is not defined for {self.dtype}; expected booleans or whole numbers.")
        return self._apply("invert", self.dtype)

    def __abs__(self) -> Any:
        return self.abs()

    def _number(self, name: str) -> dt.DType:
        if not dt.is_numerical(self.dtype):
            raise FrameTypeError(f"{name} is not defined for {self.dtype}; cast to a number first.")
        return self.dtype

    def _floating(self, name: str) -> dt.DType:
        """The type of functions whose results are not whole: whole numbers become float32, as in torch."""
        dtype = self._number(name)
        return dtype if dt.is_floating(dtype) else dt.Float32(dtype.nullable)

    def abs(self) -> Any:
        """Amounts without sign."""
        return self._apply("abs", self._number("abs"))

    def ceil(self) -> Any:
        """The next whole number up, in the same type."""
        return self._apply("ceil", self._number("ceil"))

    def floor(self) -> Any:
        """The next whole number down, in the same type."""
        return self._apply("floor", self._number("floor"))

    def round(self, decimals: int = 0) -> Any:
        """Rounded to so many decimals, halves to the even neighbour; to tens and hundreds where negative.

        Example:
            >>> from flambeau.data.frame import column
            >>> list(column([0.5, 1.5, -2.5]).round()), list(column([15, 25]).round(-1))
            ([0.0, 2.0, -2.0], [20, 20])
        """
        return self._apply("round", self._number("round"), decimals=decimals)

    def log(self) -> Any:
        """Natural logarithms; of whole numbers as float32. Zero gives minus infinity, negative numbers nan."""
        return self._apply("log", self._floating("log"))

    def exp(self) -> Any:
        """Euler's number to the power of the values; of whole numbers as float32."""
        return self._apply("exp", self._floating("exp"))

    def clip(self, low: float | None = None, high: float | None = None) -> Any:
        """Held between two bounds, in the same type.

        Raises:
            ValueError: the lower bound exceeds the upper.
        """
        if low is not None and high is not None and low > high:
            raise FrameValueError(f"clip: the lower bound {low} exceeds the upper bound {high}.")
        return self._apply("clip", self._number("clip"), low=low, high=high)

    def cumsum(self) -> Any:
        """The sum up to each row; whole numbers as int64. Missing values stay missing and add nothing."""
        return self._running("cumsum")

    def cumprod(self) -> Any:
        """The product up to each row, typed as `cumsum`."""
        return self._running("cumprod")

    def _running(self, name: str) -> Any:
        dtype = self._number(name)
        return self._apply(name, dtype if dt.is_floating(dtype) else dt.Int64(dtype.nullable), rowwise=False)

    def cummin(self) -> Any:
        """The least value up to each row."""
        return self._apply("cummin", self._number("cummin"), rowwise=False)

    def cummax(self) -> Any:
        """The greatest value up to each row."""
        return self._apply("cummax", self._number("cummax"), rowwise=False)

    def sum(self) -> Any:
        """The sum of the values that are there; 0 for none."""
        self._number("sum")
        return aggregate(self._rows, self._term, "sum")

    def mean(self) -> float | None:
        """The mean of the values that are there, in double precision; None for none."""
        return self._statistic("mean")

    def std(self) -> float | None:
        """The standard deviation of the values that are there, unbiased (n - 1); None for fewer than two."""
        return self._statistic("std")

    def median(self) -> float | None:
        """The median of the values that are there; None for none."""
        return self._statistic("median")

    def _statistic(self, name: str) -> float | None:
        self._number(name)
        value = aggregate(self._rows, self._term, name)
        return None if value is None else float(value)

    def mode(self) -> Any:
        """The commonest of the values that are there, of several the first to occur; None for none."""
        return aggregate(self._rows, self._term, "mode")

    def quantile(self, q: Sequence[float], interpolation: str = "midpoint") -> list[float]:
        """Percentiles of the values that are there.

        Args:
            q: percentages, 0 to 100.
            interpolation: upstream's name for a straight line between the two values nearest: "midpoint".

        Returns:
            One value for each percentage; none for a column without values.
        """
        if interpolation != "midpoint":
            raise FrameTypeError(f"interpolation is 'midpoint', got {interpolation!r}.")
        if bad := [one for one in q if not 0 <= one <= 100]:
            raise FrameValueError(f"percentages are between 0 and 100, got {bad[0]}.")
        self._number("quantile")
        values = self._series().drop_nulls().sort()
        if not len(values):
            return []
        return [_between(values, (len(values) - 1) * (one / 100)) for one in q]

    percentile = quantile

    def describe(
        self,
        percentiles: Sequence[float] | None = None,
        include_columns: Sequence[dt.DType] | None = None,
        exclude_columns: Sequence[dt.DType] | None = None,
        *,
        percentiles_: Sequence[float] | None = None,
    ) -> Any:
        """Count, mean, deviation, least, percentiles (25, 50, 75 by default) and greatest value.

        `include_columns` and `exclude_columns` are for frames; `percentiles_` is an older name for `percentiles`.

        Returns:
            A frame of the columns "statistic" and "value".
        """
        if include_columns is not None or exclude_columns is not None:
            raise FrameTypeError("include_columns and exclude_columns are for frames.")
        rows: list[tuple[str, float | None]] = [("count", float(aggregate(self._rows, self._term, "count")))]
        rows += [("mean", self.mean()), ("std", self.std()), ("min", self.min())]
        asked = percentiles_ if percentiles is None else percentiles
        wanted = sorted(set([25, 50, 75] if asked is None else asked))
        rows += [(f"{one}%", value) for one, value in zip(wanted, self.quantile(wanted), strict=False)]
        rows.append(("max", self.max()))
        value = dt.Float64(nullable=any(one is None for _, one in rows))
        return column_from(rows, dt.Struct([dt.Field("statistic", dt.string), dt.Field("value", value)]))


def _between(values: Any, place: float) -> float:
    low, high = math.floor(place), math.ceil(place)
    if low == high:
        return float(values[low])
    return float(values[low]) * (high - place) + float(values[high]) * (place - low)

"""Columns: values of one type, in Arrow memory, some of which may be missing.

Operations answer at once with a new column and compute nothing; values come when they are asked for: by `len`,
printing, iterating, indexing a row, or a `to_` method. User functions on rows in memory run when they are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Self

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._plan import Apply, Term
from flambeau.data.frame.column_base import ColumnBase
from flambeau.data.frame.errors import FrameTypeError
from flambeau.data.frame.execution import aggregate
from flambeau.data.frame.formatting import column_text, html, plan_text
from flambeau.data.frame.interchange import Interchange
from flambeau.data.frame.operators import Operators
from flambeau.data.frame.python_values import series_from
from flambeau.data.frame.scope import check_device
from flambeau.data.frame.selection import Selection


class Column(Selection, Interchange, Operators):
    """A column; `frame.column` makes one."""

    # What it is.

    @property
    def device(self) -> str:
        """Where the values are: "cpu"."""
        return "cpu"

    def to(self, device: str) -> Self:
        """This column: columns are on the CPU, tensors go to accelerators."""
        check_device(device)
        return self

    @property
    def length(self) -> int:
        """Rows, with those whose value is missing."""
        return len(self)

    @property
    def null_count(self) -> int:
        """Missing values."""
        return int(aggregate(self._rows, self._term, "null_count"))

    @property
    def is_unique(self) -> bool:
        """Whether no value occurs twice; missing ones count as one value."""
        return bool(self._series().n_unique() == len(self))

    @property
    def is_monotonic_increasing(self) -> bool:
        """Whether no value is less than one before it; missing ones are left out."""
        return self._monotonic(descending=False)

    @property
    def is_monotonic_decreasing(self) -> bool:
        """Whether no value is greater than one before it; missing ones are left out."""
        return self._monotonic(descending=True)

    def _monotonic(self, *, descending: bool) -> bool:
        return self._series().drop_nulls().is_sorted(descending=descending)

    def plan(self) -> str:
        """What is computed, as text: the expression, and where its rows come from."""
        return plan_text(self._rows, self._columns())

    def __bool__(self) -> bool:
        raise FrameTypeError("the truth of a column is not defined; use .all() or .any(), or len().")

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return column_text(self)

    def _repr_html_(self) -> str:
        return html(self)

    # Types and missing values.

    def fill_null(self, fill_value: Any) -> Any:
        """Missing values replaced.

        Args:
            fill_value: a value of the column's type: a list for columns of lists.

        Raises:
            TypeError: it is of another type.

        Example:
            >>> from flambeau.data.frame import column
            >>> list(column([1, None, 3]).fill_null(0))
            [1, 0, 3]
        """
        if fill_value is None:
            raise FrameTypeError("fill_null needs a value, got None.")
        if isinstance(fill_value, str) != dt.is_string(self.dtype):
            raise FrameTypeError(f"fill_null with {fill_value!r} does not fit a column of {self.dtype}.")
        held = series_from([fill_value], self.dtype.with_null(False)).to_list()[0]
        return self._apply("fill_null", self.dtype.with_null(False), value=held) if self.is_nullable else self

    def drop_null(self, how: Literal["any", "all"] | None = None) -> Any:
        """Rows whose value is there; `how` is for frames."""
        if how is not None:
            raise FrameTypeError("how is for frames: a column has one value in a row.")
        if not self.is_nullable:
            return self
        kept = self._keep(Apply("is_valid", (self._term,), dt.boolean, how="all"))
        return kept._apply("as_is", self.dtype.with_null(False))

    def isin(self, values: Iterable[Any] | ColumnBase) -> Any:
        """Whether each value is among some; a missing value is not.

        Returns:
            A column of booleans, never missing.
        """
        among = [one for one in values if one is not None]
        return self._apply("is_in", dt.boolean, values=among, of=self.dtype)

    def all(self) -> bool:
        """Whether all values that are there are true (not zero)."""
        return bool(aggregate(self._rows, self._truth("all"), "all"))

    def any(self) -> bool:
        """Whether any value that is there is true (not zero)."""
        return bool(aggregate(self._rows, self._truth("any"), "any"))

    def _truth(self, name: str) -> Term:
        if not dt.is_boolean_or_numerical(self.dtype):
            raise FrameTypeError(f"{name} is not defined for {self.dtype}; compare with something first.")
        return Apply("cast", (self._term,), dt.Boolean(True), of=self.dtype)

    def min(self) -> Any:
        """The least value that is there; None for none."""
        return aggregate(self._rows, self._ordered("min"), "min")

    def max(self) -> Any:
        """The greatest value that is there; None for none."""
        return aggregate(self._rows, self._ordered("max"), "max")

    def _ordered(self, name: str) -> Term:
        if not dt.is_primitive(self.dtype):
            raise FrameTypeError(f"{name} is not defined for {self.dtype}.")
        return self._term

"""Choosing, ordering and joining rows."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._plan import ONE, Derived, Rows, Stacked, Term
from flambeau.data.frame.column_base import ColumnBase
from flambeau.data.frame.column_classes import column_from, make
from flambeau.data.frame.errors import FrameNameError, FrameTypeError, FrameValueError
from flambeau.data.frame.execution import align, count
from flambeau.data.frame.functions import Functions
from flambeau.data.frame.python_values import taking_null


class Selection(Functions):
    """What columns and frames share about rows."""

    def _derive(self, step: str, keys: Sequence[Term] = (), *, rowwise: bool = False, **options: Any) -> Any:
        return self._over(Derived(self._rows, self._columns(), step, tuple(keys), rowwise=rowwise, **options))

    def _keep(self, condition: Term) -> Any:
        return self._derive("keep", [condition], rowwise=True)

    def __getitem__(self, arg: Any) -> Any:
        """Rows, or columns of a frame.

        ==============================  =========================================================
        a whole number                  the value of that row; from the end where negative
        a slice of whole numbers        those rows, as in Python
        a list of whole numbers         those rows, in that order
        a list or column of booleans    the rows where it is true
        a name                          that column of a frame
        a list of names                 a frame of those columns
        a slice of names                a frame of the columns from the first, before the second
        ==============================  =========================================================
        """
        if isinstance(arg, builtins.bool):
            raise FrameTypeError(f"{arg} is no row; use a list or a column of booleans.")
        if isinstance(arg, int | np.integer):
            return self._row(int(arg))
        if isinstance(arg, str):
            return self.get_column(arg)
        if isinstance(arg, slice):
            return self._sliced(arg)
        if isinstance(arg, np.ndarray):
            arg = arg.tolist()
        if isinstance(arg, list | tuple):
            return self._listed(list(arg))
        if isinstance(arg, ColumnBase) and dt.is_boolean(arg.dtype):
            return self._keep(align(self._rows, arg._rows, arg._term))
        raise FrameTypeError(f"rows and columns are chosen by numbers, names, slices and booleans, not {arg!r}.")

    def _listed(self, arg: list[Any]) -> Any:
        if not arg:
            return self
        if all(isinstance(one, builtins.bool | np.bool_) for one in arg):
            return self.filter(arg)
        if all(isinstance(one, int | np.integer) for one in arg):
            size = count(self._rows)
            if bad := [one for one in arg if not -size <= one < size]:
                raise IndexError(f"row {bad[0]} of {size} rows")
            return self._derive("take", places=[int(one) % size for one in arg])
        if all(isinstance(one, str) for one in arg):
            return self.get_columns(arg)
        raise FrameTypeError("index should be list of int, of bool, or of str.")

    def _sliced(self, arg: slice) -> Any:
        parts = [int(one) if isinstance(one, np.integer) else one for one in (arg.start, arg.stop, arg.step)]
        if any(isinstance(one, str) for one in parts):
            if arg.step is not None:
                raise FrameTypeError(f"a slice of columns has no step, got {arg.step!r}.")
            return self.slice_columns(arg.start, arg.stop)
        if not all(one is None or isinstance(one, int) for one in parts):
            raise FrameTypeError(f"slice arguments {parts} should all be int or string.")
        start, stop, step = parts
        if (step or 1) == 1 and (start or 0) >= 0 and stop is not None and stop >= 0:
            return self._derive("part", start=start or 0, length=max(stop - (start or 0), 0))
        places = range(*slice(start, stop, step).indices(count(self._rows)))
        if places.step == 1:
            return self._derive("part", start=places.start, length=len(places))
        return self._derive("stride", places=places)

    def _row(self, place: int) -> Any:
        size = count(self._rows)
        if not -size <= place < size:
            raise IndexError(f"row {place} of {size} rows")
        return self[place % size : place % size + 1].to_pylist()[0]

    def is_valid_at(self, index: int) -> bool:
        """Whether a row's value is there."""
        return self._row(index) is not None

    def get_column(self, column: str) -> Any:
        """A column of a frame."""
        raise FrameTypeError(f"a column of {self.dtype} has no columns by name; {column!r} was asked for.")

    def get_columns(self, columns: Sequence[str]) -> Any:
        """Some columns of a frame."""
        raise FrameTypeError(f"a column of {self.dtype} has no columns by name; {columns} were asked for.")

    def slice_columns(self, start: str | None, stop: str | None) -> Any:
        """The columns of a frame from one, before another."""
        raise FrameTypeError(f"a column of {self.dtype} has no columns by name; {start}:{stop} was asked for.")

    def head(self, n: int = 5) -> Any:
        """The first n rows."""
        return self[:n]

    def tail(self, n: int = 5) -> Any:
        """The last n rows."""
        return self[-n:] if n else self[:0]

    def append(self, values: Iterable[Any]) -> Any:
        """This column with rows added: values, or another column of a type that fits.

        The result is nullable where this column is or an added value is missing.
        """
        if isinstance(values, ColumnBase):
            return stacked([self, values])
        rows = list(values)
        return stacked([self, column_from(rows, taking_null(self.dtype, rows))])

    def filter(self, predicate: Callable[..., Any] | Iterable[Any], columns: Sequence[str] | None = None) -> Any:
        """Rows for which a condition holds.

        Args:
            predicate: a function of a row's value that answers true or false, or booleans for all rows.
            columns: for frames: the columns whose values the function gets as arguments.

        Raises:
            TypeError: it is neither a function nor iterable.
            ValueError: another number of booleans than rows.
        """
        if isinstance(predicate, ColumnBase):
            condition: Any = predicate
        elif callable(predicate):
            condition = self._call_rows(predicate, dt.Boolean(True), False, columns)
        elif isinstance(predicate, Iterable):
            condition = column_from([bool(one) for one in predicate], dt.boolean)
        else:
            raise FrameTypeError(f"predicate must be a function or iterable of booleans, got {predicate!r}.")
        return self._keep(align(self._rows, condition._rows, condition._term))

    def sort(
        self,
        by: Sequence[str] | str | None = None,
        ascending: bool = True,
        na_position: Literal["last", "first"] = "last",
    ) -> Any:
        """Rows in order; equal ones stay in theirs.

        Args:
            by: for frames: names of the columns to compare, in order of weight; all where not given.
            ascending: from the least.
            na_position: where rows go whose value is missing.

        Note:
            Not-a-number sorts as the greatest number.
        """
        if na_position not in ("last", "first"):
            raise FrameValueError(f"na_position is 'last' or 'first', got {na_position!r}.")
        keys = self._sort_keys(by)
        for one in keys:
            if not dt.is_primitive(one.dtype):
                raise FrameTypeError(f"columns of {one.dtype} have no order; sort by columns of numbers or text.")
        return self._derive("order", keys, descending=[not ascending] * len(keys), nulls_last=na_position == "last")

    def _sort_keys(self, by: Sequence[str] | str | None) -> list[Term]:
        if by is not None:
            raise FrameTypeError("sorting a column has no 'by': it has one value in a row.")
        return list(self._columns().values())

    def drop_duplicates(
        self, subset: str | Sequence[str] | None = None, keep: Literal["first", "last", False] = "first"
    ) -> Any:
        """One row of each value, in the order of the rows kept; missing values are equal.

        Args:
            subset: for frames: the columns to compare; all where not given.
            keep: the first or the last of equal rows; False drops all that have an equal.
        """
        if keep not in ("first", "last", False):
            raise FrameValueError(f"keep is 'first', 'last' or False, got {keep!r}.")
        if subset is not None and not isinstance(self.dtype, dt.Struct):
            raise FrameTypeError("subset is for frames: a column has one value in a row.")
        fields = self._columns()
        names = [subset] if isinstance(subset, str) else list(fields if subset is None else subset)
        if unknown := [one for one in names if one not in fields]:
            raise FrameNameError(f"no column {unknown[0]!r} among {[*fields]}.")
        return self._derive("distinct", [fields[one] for one in names], which=keep or "none")

    def batch(self, n: int) -> Iterator[Any]:
        """The rows in parts of n; the last may be shorter."""
        if n < 1:
            raise FrameValueError(f"a batch has at least one row, got n={n}.")
        return (self[start : start + n] for start in range(0, len(self), n))

    @staticmethod
    def unbatch(iter: Iterable[ColumnBase]) -> Any:
        """Parts put together again.

        Raises:
            ValueError: there are none.
        """
        return stacked(list(iter))


def stacked(columns: Sequence[ColumnBase]) -> Any:
    """The rows of several columns, one after another; what `frame.concat` says."""
    if not columns:
        raise FrameValueError("concat needs at least one column, got none.")
    common: dt.DType | None = columns[0].dtype
    for one in columns[1:]:
        common = common and dt.common_dtype(common, one.dtype)
    if common is None:
        raise FrameTypeError(f"columns of {[str(one.dtype) for one in columns]} have no type in common; cast them.")
    parts: list[tuple[Rows, Mapping[str, Term]]] = [(one._rows, {ONE: one.cast(common)._term}) for one in columns]
    rows = Stacked(parts, dt.Struct([dt.Field(ONE, common)]))
    return make(rows, rows.references()[ONE])

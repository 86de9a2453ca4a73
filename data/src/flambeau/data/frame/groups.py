"""Frames cut into groups of rows, and numbers about each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import check_process, pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.aggregates import AGGREGATES
from flambeau.data.frame.column_classes import column_of, frame_of
from flambeau.data.frame.errors import FrameNameError, FrameTypeError, FrameValueError
from flambeau.data.frame.expression import eval_expression


@dataclass(frozen=True)
class _Number:
    """A number about the values of a group that are there.

    Attributes:
        takes: which types it is defined for.
        gives: the result's type, from the column's.
        made: the result, from the column and the result's type as Polars has it.
    """

    takes: Callable[[dt.DType], bool]
    gives: Callable[[dt.DType], dt.DType]
    made: Callable[[pl.Expr, Any], pl.Expr]


def _wide(dtype: dt.DType) -> dt.DType:
    """Whole numbers are summed as int64."""
    return dt.int64 if dt.is_integer(dtype) or dt.is_boolean(dtype) else dtype.with_null(False)


def _double(dtype: dt.DType) -> dt.DType:
    return dt.Float64(dtype.nullable)


def _truth(one: pl.Expr) -> pl.Expr:
    return one.cast(pl.Boolean)


def _mode(one: pl.Expr, kind: Any) -> pl.Expr:
    return one.implode().map_batches(_Modes(kind), return_dtype=kind, returns_scalar=True)


class _Modes:
    """The commonest value of a group, of several the first to occur."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __call__(self, lists: pl.Series) -> pl.Series:
        return pl.Series([AGGREGATES["mode"].whole(one) for one in lists], dtype=self.kind)


_NUMBERS: dict[str, _Number] = {
    "min": _Number(dt.is_primitive, lambda one: one, lambda one, kind: one.min()),
    "max": _Number(dt.is_primitive, lambda one: one, lambda one, kind: one.max()),
    "all": _Number(dt.is_boolean_or_numerical, lambda one: dt.boolean, lambda one, kind: _truth(one).all()),
    "any": _Number(dt.is_boolean_or_numerical, lambda one: dt.boolean, lambda one, kind: _truth(one).any()),
    "sum": _Number(dt.is_numerical, _wide, lambda one, kind: one.cast(kind).sum()),
    "prod": _Number(dt.is_numerical, _wide, lambda one, kind: one.cast(kind).product()),
    "mean": _Number(dt.is_numerical, _double, lambda one, kind: one.cast(kind).mean()),
    "median": _Number(dt.is_numerical, _double, lambda one, kind: one.cast(kind).median()),
    "std": _Number(dt.is_numerical, lambda one: dt.Float64(nullable=True), lambda one, kind: one.cast(kind).std()),
    "mode": _Number(dt.is_numerical, lambda one: one, _mode),
    "count": _Number(lambda one: True, lambda one: dt.int64, lambda one, kind: one.count().cast(pl.Int64)),
}


class GroupedDataFrame:
    """The rows of a frame in groups of equal keys; `DataFrame.groupby` makes one.

    Numbers about groups come as a frame of the keys and of a column `name.operation` for each other column, one row a
    group; of `grouped["name"]` they come as a column. Missing values are left out, and counted by nothing but `size`.
    """

    def __init__(
        self, values: pl.DataFrame, dtype: dt.Struct, keys: Sequence[str], items: Sequence[str], *, sort: bool
    ) -> None:
        self._frame = values
        self._dtype = dtype
        self._keys = list(keys)
        self._items = list(items)
        self._sort = sort
        self._column = False

    @property
    def size(self) -> Any:
        """A frame of the keys, and of the column "size": the rows of each group, int64."""
        return self._summary([("size", pl.len().cast(pl.Int64), dt.int64)])

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Each group's keys, and a frame of its other columns."""
        check_process()
        rows = self._frame.sort(self._keys, maintain_order=True) if self._sort else self._frame
        dtype = dt.Struct([one for one in self._dtype.fields if one.name in self._items])
        for key, part in rows.partition_by(self._keys, maintain_order=True, as_dict=True).items():
            yield key, frame_of(part.select(self._items), dtype)

    def __getitem__(self, name: str) -> Any:
        """A key's column, one row a group; or another column, whose numbers then come as columns.

        Raises:
            KeyError: there is no column of this name.
        """
        if name in self._keys:
            return column_of(self._grouped([]).get_column(name), self._dtype.get(name))
        if name not in self._items:
            raise FrameNameError(f"no column {name!r} among {[*self._keys, *self._items]}.")
        made = GroupedDataFrame(self._frame, self._dtype, self._keys, [name], sort=self._sort)
        made._column = True
        return made

    def min(self) -> Any:
        """The least value of every column in each group."""
        return self._each("min")

    def max(self) -> Any:
        """The greatest value of every column in each group."""
        return self._each("max")

    def all(self) -> Any:
        """Whether all values of every column are true in each group."""
        return self._each("all")

    def any(self) -> Any:
        """Whether any value of every column is true in each group."""
        return self._each("any")

    def sum(self) -> Any:
        """The sum of every column in each group; whole numbers as int64."""
        return self._each("sum")

    def prod(self) -> Any:
        """The product of every column in each group, typed as `sum`."""
        return self._each("prod")

    def mean(self) -> Any:
        """The mean of every column in each group, float64."""
        return self._each("mean")

    def median(self) -> Any:
        """The median of every column in each group, float64."""
        return self._each("median")

    def mode(self) -> Any:
        """The commonest value of every column in each group, of several the first to occur."""
        return self._each("mode")

    def std(self) -> Any:
        """The standard deviation (n - 1) of every column in each group, float64; missing for fewer than two values."""
        return self._each("std")

    def count(self) -> Any:
        """How many values of every column are there in each group, int64."""
        return self._each("count")

    def agg(self, arg: str | Sequence[str] | Mapping[str, str | Sequence[str]]) -> Any:
        """Several numbers about the groups.

        Args:
            arg: the name of a method above, several, or a dictionary of them by column.

        Returns:
            A frame of the keys, and of the columns `name.operation`.

        Raises:
            ValueError: there is no such operation or column.
            TypeError: an operation is not defined for a column's type.

        Example:
            >>> from flambeau.data.frame import dataframe
            >>> frame = dataframe({"a": [1, 1, 2], "b": [1, 2, 3]})
            >>> [tuple(row) for row in frame.groupby(["a"]).agg({"b": ["min", "mean"]})]
            [(1, 1, 1.5), (2, 3, 3.0)]
        """
        if isinstance(arg, str):
            arg = [arg]
        if isinstance(arg, Mapping):
            if unknown := [name for name in arg if name not in self._items]:
                raise FrameValueError(f"column {unknown[0]!r} is none of {self._items}, which can be aggregated.")
            wanted = [(name, one) for name, ops in arg.items() for one in ([ops] if isinstance(ops, str) else ops)]
        elif isinstance(arg, Sequence):
            wanted = [(name, one) for one in arg for name in self._items]
        else:
            raise FrameTypeError(f"agg takes a name, a list of names or a dictionary, got {type(arg).__name__}.")
        return self._summary([(f"{name}.{one}", *self._number(name, one)) for name, one in wanted])

    aggregate = agg

    def select(self, **kwargs: Any) -> Any:
        """A frame of the keys and of computed columns.

        Args:
            **kwargs: expressions of `me`, in which `me["name"].sum()` has one row for each group.

        Example:
            >>> from flambeau.data.frame import dataframe, me
            >>> frame = dataframe({"a": ["x", "y", "x"], "b": [1, 2, 3]})
            >>> [tuple(row) for row in frame.groupby(["a"]).select(wide=me["b"].max() - me["b"].min())]
            [('x', 2), ('y', 0)]
        """
        made = frame_of(self._grouped([]).select(self._keys), self._key_dtype())
        for name, value in kwargs.items():
            made[name] = eval_expression(value, {"me": self})
        return made

    def _each(self, operation: str) -> Any:
        if self._column:
            made, dtype = self._number(self._items[0], operation)
            return column_of(self._grouped([made.alias("\x1fmade")]).get_column("\x1fmade"), dtype)
        return self.agg(operation)

    def _number(self, name: str, operation: str) -> tuple[pl.Expr, dt.DType]:
        number, dtype = _NUMBERS.get(operation), self._dtype.get(name)
        if number is None:
            raise FrameValueError(f"{operation!r} is no number about groups; expected one of {[*_NUMBERS]}.")
        if not number.takes(dtype):
            raise FrameTypeError(f"{operation} is not defined for column {name!r} of {dtype}; choose columns first.")
        made = number.gives(dtype)
        return number.made(pl.col(name), physical(made)), made

    def _summary(self, columns: Sequence[tuple[str, pl.Expr, dt.DType]]) -> Any:
        values = self._grouped([made.alias(name) for name, made, _ in columns])
        fields = [*self._key_dtype().fields, *(dt.Field(name, dtype) for name, _, dtype in columns)]
        return frame_of(values.select(one.name for one in fields), dt.Struct(fields))

    def _key_dtype(self) -> dt.Struct:
        return dt.Struct([dt.Field(name, self._dtype.get(name)) for name in self._keys])

    def _grouped(self, numbers: Sequence[pl.Expr]) -> pl.DataFrame:
        check_process()
        made = self._frame.group_by(self._keys, maintain_order=True).agg(numbers)
        return made.sort(self._keys, maintain_order=True) if self._sort else made

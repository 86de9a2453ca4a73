"""Columns of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame.column import Column
from flambeau.data.frame.column_classes import column_from, column_of
from flambeau.data.frame.errors import FrameTypeError


class ListColumn(Column):
    """A column of lists; what can be done with it is in `.list`."""

    @cached_property
    def list(self) -> ListMethods:
        """What can be done with lists."""
        return ListMethods(self)

    @property
    def item_dtype(self) -> dt.DType:
        """Type of the items."""
        assert isinstance(self.dtype, dt.List)  # what makes a column this one
        return self.dtype.item_dtype


class ListMethods:
    """Functions of lists, row by row; missing lists stay missing."""

    def __init__(self, parent: ListColumn) -> None:
        self._parent = parent

    def _apply(self, operation: str, dtype: dt.DType, **options: Any) -> Any:
        return self._parent._apply(operation, dtype.with_null(dtype.nullable or self._parent.is_nullable), **options)

    def length(self) -> Any:
        """Items, int64."""
        return self._apply("list_length", dt.int64)

    def join(self, sep: str) -> Any:
        """Texts joined, with a separator between them; missing where one of them is."""
        if not dt.is_string(self._parent.item_dtype):
            raise FrameTypeError(f"join is for lists of text, got {self._parent.dtype}.")
        return self._apply("list_join", dt.String(self._parent.item_dtype.nullable), sep=sep)

    def get(self, i: int) -> Any:
        """The item at a place, from the end where negative; raises on computing where a list is too short."""
        return self._apply("list_get", self._parent.item_dtype, place=i)

    def slice(self, start: int | None = None, stop: int | None = None) -> Any:
        """Items from start to stop, as in Python."""
        return self._apply("list_slice", self._free(), start=start, stop=stop)

    def _free(self) -> dt.List:
        """The lists' type without a fixed size."""
        return dt.List(self._parent.item_dtype, self._parent.is_nullable)

    def vmap(self, fun: Callable[[Column], Column]) -> Any:
        """A function of all items at once.

        Args:
            fun: from a column of the items of all lists to a column of as many.

        Example:
            >>> from flambeau.data.frame import column
            >>> list(column([[1, 2, None], [], [4]]).list.vmap(lambda items: items + 1))
            [[2, 3, None], [], [5]]
        """
        call = _Items(fun, self._parent.item_dtype)
        item = call.result_dtype()
        return self._apply("items_result", dt.List(item), function=call)

    def map(self, fun: Callable[[Any], Any], dtype: dt.DType | None = None) -> Any:
        """A function of each item; `dtype` is the type of the resulting lists, by default this column's."""
        if dtype is not None:
            return self._call(fun, "map", dtype)
        mine = self._parent.dtype
        assert isinstance(mine, dt.List)  # what makes a column this one
        nullable = dt.List(mine.item_dtype.with_null(), mine.nullable, mine.fixed_size)
        return self._parent._fitted(lambda fitting: self._unrun(fun, "map", fitting), mine, nullable)

    def filter(self, pred: Callable[[Any], Any]) -> Any:
        """The items for which a function answers true."""
        return self._call(pred, "filter", self._free())

    def reduce(self, fun: Callable[[Any, Any], Any], initializer: Any = None, dtype: dt.DType | None = None) -> Any:
        """The items of each list folded to one value, of the items' type unless told otherwise.

        Upstream: begins with None where no initializer is given; here with the first item, as `functools.reduce`.
        """
        more = () if initializer is None else (initializer,)
        return self._call(fun, "reduce", dtype or self._parent.item_dtype, more)

    def flatmap(self, fun: Callable[[Any], Sequence[Any]], dtype: dt.DType | None = None) -> Any:
        """The items' lists joined; `dtype` is the type of the resulting lists, by default this column's."""
        return self._call(fun, "flatmap", dtype or self._free())

    def _call(self, function: Any, what: str, dtype: dt.DType, more: tuple[Any, ...] = ()) -> Any:
        return self._parent._now(self._unrun(function, what, dtype, more))

    def _unrun(self, function: Any, what: str, dtype: dt.DType, more: tuple[Any, ...] = ()) -> Any:
        of = self._parent.dtype
        return self._apply("per_item_list", dtype, function=function, of=of, what=what, more=more)


class _Items:
    """A function from columns to columns, on series."""

    def __init__(self, function: Callable[[Column], Column], item: dt.DType) -> None:
        self.function, self.item = function, item

    def result_dtype(self) -> dt.DType:
        """Type of the items that the function makes, told from no items at all."""
        made = self.function(column_from([], self.item))
        if not isinstance(made, Column):
            raise FrameTypeError(f"vmap: the function made {type(made).__name__}, expected a column.")
        return made.dtype

    def __call__(self, items: pl.Series) -> pl.Series:
        return self.function(column_of(items, self.item))._series()

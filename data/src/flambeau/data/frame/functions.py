"""Functions of users on columns: by row and by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._inference import batch_result, infer_dtype_from_prefix, infer_dype_from_callable_hint
from flambeau.data.frame._plan import ONE, Apply, Derived, Term
from flambeau.data.frame.batches import list_parts
from flambeau.data.frame.column_base import ColumnBase
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.execution import compute_one, in_memory, materialise
from flambeau.data.frame.formats import FORMATS, BatchCall

NaAction = Literal["ignore"] | None


class Functions(ColumnBase):
    """What columns and frames share about functions of users.

    Functions are part of the plan, and run where its rows are: at once where they are in memory, later where they are
    on disk, on the machines of a cluster where they are there. A cluster gets them by cloudpickle: what they refer to
    must be importable there, or defined in the program's main module.
    """

    def map(
        self,
        arg: Mapping[Any, Any] | Callable[..., Any],
        na_action: NaAction = None,
        dtype: dt.DType | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """Each row's value, mapped by a dictionary or a function.

        Args:
            arg: a dictionary: what it does not hold becomes missing (a `defaultdict` makes a value); or a function.
            na_action: "ignore" leaves missing values missing; otherwise they are looked up, or passed as None.
            dtype: type of the result. By default what the function's annotation says, the type of the dictionary's
                values, or the type of this column, nullable where the function makes missing values.
            columns: for frames: the columns whose values the function gets as separate arguments. Without it, a
                function of a frame gets a row as one named tuple.

        Example:
            >>> from flambeau.data.frame import column, dtypes
            >>> list(column([1, 2, None]).map({1: 111}))
            [111, None, None]
            >>> list(column([1, 2, None]).map(str, dtype=dtypes.string))
            ['1', '2', 'None']
        """
        if isinstance(arg, Mapping):
            return self._look_up(arg, na_action, dtype, columns)
        if not callable(arg):
            raise FrameTypeError(f"map needs a dictionary or a function, got {type(arg).__name__}.")
        known = dtype or infer_dype_from_callable_hint(arg)[0]
        found = known or self._default_type(columns)
        skip = na_action == "ignore"
        if skip and any(one.dtype.nullable for one in self._arguments(columns)):
            found = found.with_null()
        if known is not None or isinstance(found, dt.Struct):
            return self._now(self._call_rows(arg, found, skip, columns))
        return self._fitted(lambda fitting: self._call_rows(arg, fitting, skip, columns), found, found.with_null())

    def _fitted(self, make: Callable[[dt.DType], Any], dtype: dt.DType, nullable: dt.DType) -> Any:
        """What a function makes whose type nobody gave: nullable where values, in memory, turn out to be missing."""
        if dtype == nullable or not in_memory(self._rows):
            return self._now(make(dtype))
        made = self._now(make(nullable))
        held = made._series()
        missing = held.null_count() + (list_parts(held)[1].null_count() if isinstance(dtype, dt.List) else 0)
        return made if missing else made._apply("as_is", dtype)

    def _look_up(self, table: Mapping[Any, Any], na_action: NaAction, dtype: Any, columns: Any) -> Any:
        arguments = self._arguments(columns)
        if dtype is None:
            dtype = dt.common_dtype(infer_dtype_from_prefix(list(table.values())), dt.Void()) if table else None
        if dtype is None or dt.is_void(dtype):
            dtype = self._default_type(columns).with_null()
        of = [one.dtype for one in arguments]
        skip = na_action == "ignore"
        term = Apply("look_up", tuple(arguments), dtype, table=table, of=of, skip_null=skip)
        return self._now(self._made(self._rows, term))

    def _call_rows(self, function: Any, dtype: dt.DType, skip_null: bool, columns: Sequence[str] | None) -> Any:
        arguments = self._arguments(columns)
        of = [one.dtype for one in arguments]
        term = Apply("per_row", tuple(arguments), dtype, function=function, of=of, skip_null=skip_null, star=True)
        return self._made(self._rows, term)

    def _default_type(self, columns: Sequence[str] | None) -> dt.DType:
        arguments = self._arguments(columns)
        return arguments[0].dtype if len(arguments) == 1 else self.dtype

    def _now(self, made: Any) -> Any:
        """Run a user's function now, once, where that asks no files and no cluster."""
        if in_memory(self._rows):
            materialise(self._rows)
            for term in made._columns().values():
                compute_one(self._rows, _call_below(term))
        return made

    def transform(
        self,
        func: Callable[..., Any],
        /,
        dtype: dt.DType | None = None,
        format: str = "column",
        columns: Sequence[str] | None = None,
    ) -> Any:
        """A function of batches of rows.

        Args:
            func: gets the column (or `columns`, as separate arguments) and returns as many rows: a column, a list, a
                NumPy or Arrow array, a tensor. It may be called for parts of the rows, in any size.
            dtype: type of the result. By default what the function's annotation says (`-> list[int]`), or the type of
                this column.
            format: what the function gets: "column", "python" (lists), "numpy", "arrow" or "torch" (what `to_tensor`
                gives).
            columns: for frames: the columns that the function gets; without it, it gets the frame.

        Raises:
            ValueError: the function returns another number of rows.
        """
        if format not in FORMATS:
            raise FrameValueError(f"format is one of {[*FORMATS]}, got {format!r}.")
        arguments = self._arguments(columns) if columns is not None else [self._term]
        found = dtype or batch_result(func) or (arguments[0].dtype if len(arguments) == 1 else self.dtype)
        of = [one.dtype for one in arguments]
        term = Apply("per_batch", tuple(arguments), found, call=BatchCall(func, format), of=of)
        made = self._now(self._made(self._rows, term))
        if (
            found.nullable
            or isinstance(found, dt.Struct)
            or not in_memory(self._rows)
            or not made._series().null_count()
        ):
            return made
        return made._apply("as_is", found.with_null())

    def flatmap(
        self,
        arg: Mapping[Any, Any] | Callable[..., Any],
        na_action: NaAction = None,
        dtype: dt.DType | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """Each row's value mapped to a list of rows, all in one column; see `map`.

        `dtype` is the type of a row of the result; by default this column's.
        """
        if isinstance(arg, Mapping):
            arg = arg.get
        item = (dtype or self._default_type(columns)).with_null()
        lists = self._call_rows(_Lists(arg, na_action == "ignore"), dt.List(item), False, columns)
        rows = Derived(self._rows, {ONE: lists._term}, "spread", (lists._term,), dtype=_single(item), rowwise=True)
        made = self._made(rows, rows.references()[ONE])
        return made if item == (dtype or item) else made.cast(dtype)

    def reduce(
        self,
        fun: Callable[[Any, Any], Any],
        initializer: Any = None,
        finalizer: Callable[[Any], Any] | None = None,
    ) -> Any:
        """All rows folded to one value, from the first.

        Args:
            fun: from what was folded so far and a row's value to what is folded then.
            initializer: what to begin with; the first row's value where it is None.
            finalizer: applied to the result.

        Raises:
            TypeError: there are no rows, and nothing to begin with.
        """
        rows = iter(self)
        empty = object()
        value = next(rows, empty) if initializer is None else initializer
        if value is empty:
            raise FrameTypeError("reduce of no rows with no initial value.")
        for one in rows:
            value = fun(value, one)
        return value if finalizer is None else finalizer(value)


def _call_below(term: Term) -> Term:
    """The call that a field of a function's records comes from; anything else itself."""
    while isinstance(term, Apply) and term.operation == "field" and isinstance(term.inputs[0], Apply):
        term = term.inputs[0]
    return term


def _single(item: dt.DType) -> dt.Struct:
    return dt.Struct([dt.Field(ONE, item)])


class _Lists:
    """A flattening function: what it gives as a list; a missing value as one missing row, where it is to be left."""

    def __init__(self, function: Callable[..., Any], ignore: bool) -> None:
        self.function, self.ignore = function, ignore

    def __call__(self, *values: Any) -> list[Any]:
        if self.ignore and any(one is None for one in values):
            return [None]
        made = self.function(*values)
        return [] if made is None else list(made)

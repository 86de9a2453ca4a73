"""Frames: named columns of one length, which are columns of records themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from flambeau.core.errors import close_names
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._physical import arrow_schema
from flambeau.data.frame._plan import Apply, Constant, Record, Rows, Table, Term, field_of, select
from flambeau.data.frame.arithmetic import constant
from flambeau.data.frame.column import Column
from flambeau.data.frame.column_base import ColumnBase
from flambeau.data.frame.column_classes import column_from, frame_of
from flambeau.data.frame.errors import FrameNameError, FrameTypeError, FrameValueError
from flambeau.data.frame.execution import align, compute, count
from flambeau.data.frame.export import arrow_array
from flambeau.data.frame.expression import Expression, eval_expression
from flambeau.data.frame.formatting import frame_text
from flambeau.data.frame.groups import GroupedDataFrame
from flambeau.data.frame.interchange import pandas_module

_VALID = "\x1fvalid"


class DataFrame(Column):
    """A frame; `frame.dataframe` makes one.

    Columns cannot be changed, but a frame's columns can be replaced and added: `frame["c"] = frame["a"] + 1`.
    """

    def __init__(self, rows: Rows, fields: Mapping[str, Term], valid: Term | None = None) -> None:
        super().__init__(rows, Constant(None, dt.Void()))
        self._fields = dict(fields)
        self._valid = valid

    @property
    def _term(self) -> Term:
        return Record(self._fields, self._valid)

    @_term.setter
    def _term(self, value: Term) -> None:
        """A frame's term is made of its fields."""

    @classmethod
    def _of_term(cls, rows: Rows, term: Term) -> Self:
        if isinstance(term, Record):
            return cls(rows, term.fields, term.valid)
        assert isinstance(term.dtype, dt.Struct)  # frames are made of structs only
        fields = {one.name: field_of(term, one.name) for one in term.dtype.fields}
        valid = Apply("is_valid", (term,), dt.boolean, how="all") if term.dtype.nullable else None
        return cls(rows, fields, valid)

    def _columns(self) -> dict[str, Term]:
        return {**self._fields, **({} if self._valid is None else {_VALID: self._valid})}

    def _over(self, rows: Rows) -> Self:
        references = rows.references()
        valid = references.pop(_VALID, None)
        return type(self)(rows, {name: references[name] for name in self._fields}, valid)

    def _on_rows(self, rows: Rows) -> Any:
        return type(self)(rows, self._fields, self._valid)

    def _with(self, fields: Mapping[str, Term]) -> Self:
        return type(self)(self._rows, fields, self._valid)

    def _series(self) -> pl.Series:
        values = self._values()
        made = values.select([*self._fields]).to_struct("") if self._fields else pl.Series("", [{}] * len(self))
        return made if self._valid is None else made.set(~values.get_column(_VALID), None)

    # What it is.

    @property
    def dtype(self) -> dt.Struct:
        """Names and types of the columns."""
        fields = [dt.Field(name, one.dtype) for name, one in self._fields.items()]
        return dt.Struct(fields, nullable=self._valid is not None)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return [*self._fields]

    @property
    def null_count(self) -> int:
        """Missing rows; see each column for its missing values."""
        if self._valid is None:
            return 0
        return int((~compute(self._rows, {_VALID: self._valid}).to_series()).sum())

    def __contains__(self, key: object) -> bool:
        return key in self._fields

    def __repr__(self) -> str:
        return frame_text(self, self.columns)

    # Columns.

    def get_column(self, column: str) -> Any:
        """A column by its name.

        Raises:
            KeyError: there is none.
        """
        if column not in self._fields:
            near = close_names(column, self._fields)
            hint = f" Close names: {', '.join(near)}." if near else ""
            raise FrameNameError(f"no column {column!r} among {self.columns}.{hint}")
        term = self._fields[column]
        if self._valid is not None:
            nullable = term.dtype.with_null() if not isinstance(term.dtype, dt.Struct) else term.dtype
            term = Apply("if_else", (self._valid, term, Constant(None, nullable)), nullable)
        return self._made(self._rows, term)

    def get_columns(self, columns: Sequence[str]) -> Self:
        """A frame of some columns, in the order of the names."""
        self._check(columns)
        return self._with({name: self._fields[name] for name in columns})

    def slice_columns(self, start: str | None, stop: str | None) -> Self:
        """A frame of the columns from one on, before another."""
        self._check([one for one in (start, stop) if one is not None])
        names = self.columns
        first = 0 if start is None else names.index(start)
        last = len(names) if stop is None else names.index(stop)
        return self.get_columns(names[first:last])

    def _check(self, columns: Sequence[str]) -> None:
        if unknown := [one for one in columns if one not in self._fields]:
            self.get_column(unknown[0])  # says what there is

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise FrameTypeError(f"columns are named by text, got {name!r}.")
        if isinstance(value, Expression):
            value = eval_expression(value, {"me": self})
        self._fields[name] = self._aligned(value)

    def _aligned(self, value: Any) -> Term:
        if isinstance(value, bool | int | float | str):
            return constant(value, dt.Void())
        if value is None:
            raise FrameTypeError("a column of None alone has no type; give column([None] * rows, dtype).")
        column: ColumnBase = value if isinstance(value, ColumnBase) else column_from(value)
        if not self._fields and isinstance(self._rows, Table) and not count(self._rows):
            # The first column brings the rows.
            self._rows = column._rows
            return column._term
        return align(self._rows, column._rows, column._term)

    def copy(self) -> Self:
        """A frame of the same columns, to which others can be added; no values are copied."""
        return self._with(self._fields)

    def drop(self, columns: str | Sequence[str]) -> Self:
        """A frame without some columns."""
        names = _names(columns)
        self._check(names)
        return self._with({name: one for name, one in self._fields.items() if name not in names})

    def keep(self, columns: str | Sequence[str]) -> Self:
        """A frame of some columns, in the order of this one."""
        names = _names(columns)
        self._check(names)
        return self._with({name: one for name, one in self._fields.items() if name in names})

    def rename(self, mapper: Mapping[str, str]) -> Self:
        """A frame with columns under other names.

        Raises:
            KeyError: there is no column of a name.
            ValueError: two columns would have one name.
        """
        self._check([*mapper])
        names = [mapper.get(name, name) for name in self._fields]
        if len(set(names)) != len(names):
            raise FrameValueError(f"rename would make columns {names}; each name may occur once.")
        return self._with(dict(zip(names, self._fields.values(), strict=True)))

    def reorder(self, columns: Sequence[str]) -> Self:
        """A frame of the same columns in another order."""
        if sorted(columns) != sorted(self._fields):
            raise FrameValueError(f"reorder needs each of {self.columns} once, got {[*columns]}.")
        return self.get_columns(columns)

    def pipe(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function makes of this frame."""
        return func(self, *args, **kwargs)

    def select(self, *args: str, **kwargs: Any) -> Self:
        """A frame of chosen and computed columns.

        Args:
            *args: names; "*" for all, "-name" for all chosen so far without one.
            **kwargs: new columns: expressions of `me`, columns, values.

        Example:
            >>> from flambeau.data.frame import dataframe, me
            >>> dataframe({"a": [1, 2], "b": [3, 4]}).select("*", "-a", c=me["a"] + me["b"]).columns
            ['b', 'c']
        """
        chosen: dict[str, Term] = {}
        for name in args:
            if name == "*":
                chosen.update(self._fields)
            elif name.startswith("-") and name not in self._fields:
                self._check([name[1:]])
                chosen.pop(name[1:], None)
            else:
                self._check([name])
                chosen[name] = self._fields[name]
        made = self._with(chosen)
        for name, value in kwargs.items():
            made._fields[name] = self._aligned(eval_expression(value, {"me": self}))
        return made

    def where(self, *conditions: Any) -> Self:
        """The rows for which all conditions hold: columns of booleans, or expressions of `me`."""
        if not conditions:
            return self
        held = [eval_expression(one, {"me": self}) for one in conditions]
        for one in held:
            if not isinstance(one, Column) or not dt.is_boolean(one.dtype):
                raise FrameTypeError(f"a condition is a column of booleans, got {one!r:.80}.")
        terms = tuple(align(self._rows, one._rows, one._term) for one in held)
        made: Self = self._keep(Apply("all_true", terms, dt.boolean))
        return made

    # Rows.

    def _sort_keys(self, by: Sequence[str] | str | None) -> list[Term]:
        names = self.columns if by is None else _names(by)
        self._check(names)
        return [self._fields[name] for name in names]

    def _arguments(self, columns: Sequence[str] | None) -> list[Term]:
        if columns is None:
            return [self._term]
        self._check(columns)
        return [self._fields[name] for name in columns]

    # Column by column.

    def _each(self, make: Callable[[Any], Any]) -> Self:
        made = {name: make(self._made(self._rows, one)) for name, one in self._fields.items()}
        return self._with({name: align(self._rows, one._rows, one._term) for name, one in made.items()})

    def _binary(self, kind: Callable[[str, Term, Term], Term], name: str, other: Any, swap: bool) -> Any:
        if isinstance(other, Expression):
            return NotImplemented
        if isinstance(other, DataFrame) and other.columns != self.columns:
            raise FrameValueError(f"frames of the same columns combine, got {self.columns} and {other.columns}.")
        fields: dict[str, Term] = {}
        for column in self._fields:
            mine: Any = self._made(self._rows, self._fields[column])
            theirs = other[column] if isinstance(other, DataFrame) else other
            result = mine._binary(kind, name, theirs, swap)
            fields[column] = result._term
        return self._with(fields)

    def __neg__(self) -> Any:
        return self._each(lambda one: -one)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return self._each(lambda one: ~one)

    def __abs__(self) -> Any:
        return self.abs()

    def abs(self) -> Any:
        """Amounts without sign, of every column."""
        return self._each(lambda one: one.abs())

    def ceil(self) -> Any:
        """The next whole number up, in every column."""
        return self._each(lambda one: one.ceil())

    def floor(self) -> Any:
        """The next whole number down, in every column."""
        return self._each(lambda one: one.floor())

    def round(self, decimals: int = 0) -> Any:
        """Rounded to so many decimals, halves to the even neighbour, in every column."""
        return self._each(lambda one: one.round(decimals))

    def log(self) -> Any:
        """Natural logarithms, of every column."""
        return self._each(lambda one: one.log())

    def exp(self) -> Any:
        """Euler's number to the power of the values, of every column."""
        return self._each(lambda one: one.exp())

    def clip(self, low: float | None = None, high: float | None = None) -> Any:
        """Held between two bounds, in every column."""
        return self._each(lambda one: one.clip(low, high))

    def cumsum(self) -> Any:
        """Running sums of every column."""
        return self._each(lambda one: one.cumsum())

    def cumprod(self) -> Any:
        """Running products of every column."""
        return self._each(lambda one: one.cumprod())

    def cummin(self) -> Any:
        """The least value up to each row, of every column."""
        return self._each(lambda one: one.cummin())

    def cummax(self) -> Any:
        """The greatest value up to each row, of every column."""
        return self._each(lambda one: one.cummax())

    def cast(self, dtype: dt.DType) -> Any:
        """Every column in the type of its name."""
        if not isinstance(dtype, dt.Struct):
            raise FrameTypeError(f"a frame is cast to a Struct, got {dtype}.")
        if dtype == self.dtype:
            return self
        wanted = dtype.with_null(self.dtype.nullable)
        names = [one.name for one in wanted.fields]
        if set(names) != set(self.columns):
            raise FrameTypeError(f"data fields are {self.columns} while dtype fields are {names}.")
        return self._with({name: self[name].cast(wanted.get(name))._term for name in names})

    def fill_null(self, fill_value: Any) -> Any:
        """Missing values replaced.

        Args:
            fill_value: one value for every column, or a dictionary of them by column; others stay as they are.
        """
        if not isinstance(fill_value, Mapping):
            return self._each(lambda one: one.fill_null(fill_value))
        self._check([*fill_value])
        filled = {name: self._made(self._rows, self._fields[name]).fill_null(one) for name, one in fill_value.items()}
        return self._with({**self._fields, **{name: one._term for name, one in filled.items()}})

    def drop_null(self, how: Literal["any", "all"] | None = None) -> Any:
        """Rows without missing values ("any", as is done by default), or with at least one value ("all")."""
        if how not in (None, "any", "all"):
            raise FrameValueError(f"how is 'any' or 'all', got {how!r}.")
        test = "any" if how == "all" else "all"
        terms = tuple(self._columns()[name] for name in self._fields)
        kept = self._keep(Apply("is_valid", terms, dt.boolean, how=test))
        if test == "any":
            return kept
        return kept._each(
            lambda one: one if isinstance(one, DataFrame) else one._apply("as_is", one.dtype.with_null(False))
        )

    def isin(self, values: Any) -> Any:
        """Whether each value is among some: one list for all columns, or a dictionary of them by column."""
        if not isinstance(values, Mapping):
            among = list(values)
            return self._each(lambda one: one.isin(among))
        self._check([*values])
        return self._with({name: self[name].isin(values.get(name, []))._term for name in self._fields})

    def all(self) -> bool:
        """Whether all values of all columns that are there are true."""
        return all(self[name].all() for name in self._fields)

    def any(self) -> bool:
        """Whether any value of any column that is there is true."""
        return any(self[name].any() for name in self._fields)

    def _summary(self, name: str) -> Any:
        made: dict[str, ColumnBase] = {}
        for one in self._fields:
            value = getattr(self[one], name)()
            dtype = dt.Float64(nullable=True) if isinstance(value, float) or value is None else None
            if value is not None and name in ("min", "max", "mode"):
                dtype = self[one].dtype
            made[one] = column_from([value], dtype)
        return _frame(made)

    def min(self) -> Any:
        """The least value of every column, as a frame of one row."""
        return self._summary("min")

    def max(self) -> Any:
        """The greatest value of every column, as a frame of one row."""
        return self._summary("max")

    def sum(self) -> Any:
        """The sum of every column, as a frame of one row."""
        return self._summary("sum")

    def mean(self) -> Any:
        """The mean of every column, as a frame of one row."""
        return self._summary("mean")

    def std(self) -> Any:
        """The standard deviation (n - 1) of every column, as a frame of one row."""
        return self._summary("std")

    def median(self) -> Any:
        """The median of every column, as a frame of one row."""
        return self._summary("median")

    def mode(self) -> Any:
        """The commonest value of every column, as a frame of one row."""
        return self._summary("mode")

    def nunique(self, drop_null: bool = True) -> Any:
        """How many values every column has, as a frame of the columns "column" and "unique"."""
        rows = []
        for name in self._fields:
            series = self[name]._series()
            rows.append((name, (series.drop_nulls() if drop_null else series).n_unique()))
        return column_from(rows, dt.Struct([dt.Field("column", dt.string), dt.Field("unique", dt.int64)]))

    def describe(
        self,
        percentiles: Sequence[float] | None = None,
        include_columns: Sequence[dt.DType] | None = None,
        exclude_columns: Sequence[dt.DType] | None = None,
        *,
        percentiles_: Sequence[float] | None = None,
        include: Sequence[dt.DType] | None = None,
        exclude: Sequence[dt.DType] | None = None,
    ) -> Any:
        """Statistics of the columns of numbers; see `NumericalColumn.describe`.

        Args:
            percentiles: percentages; 25, 50 and 75 by default.
            include_columns: types of the columns described, nullable or not; all numbers by default.
            exclude_columns: types left out.
            percentiles_: an older name for `percentiles`.
            include: another name for `include_columns`.
            exclude: another name for `exclude_columns`.

        Returns:
            A frame of the column "metric" and one column for each described.

        Raises:
            TypeError: types that are not in a list, or of which there is no mean.
        """
        percentiles = percentiles_ if percentiles is None else percentiles
        included = _types("include_columns", include if include_columns is None else include_columns)
        excluded = _types("exclude_columns", exclude if exclude_columns is None else exclude_columns) or set()
        if bad := [one for one in included or () if not dt.is_numerical(one)]:
            raise FrameTypeError(f"describe is for numbers, include_columns has {bad[0]}.")
        made: dict[str, ColumnBase] = {}
        for name, term in self._fields.items():
            plain = term.dtype.with_null(False)
            if not dt.is_numerical(plain) or plain in excluded or (included is not None and plain not in included):
                continue
            rows = self[name].describe(percentiles).to_pylist()
            if "metric" not in made:
                made["metric"] = column_from([one for one, _ in rows], dt.string)
            made[name] = column_from([value for _, value in rows], dt.Float64(nullable=True))
        return _frame(made)

    def groupby(
        self, by: str | Sequence[str], sort: bool = False, drop_null: bool = True, *, dropna: bool | None = None
    ) -> GroupedDataFrame:
        """The rows in groups of equal keys.

        Args:
            by: names of the columns that are the keys: numbers, booleans or text.
            sort: order the groups by their keys; by default they come as they first occur.
            drop_null: leave out rows of which a key is missing; otherwise missing keys are equal.
            dropna: another name for `drop_null`.

        Returns:
            Groups, of which numbers are asked: `.sum()`, `.agg(...)`, `.size`, `["name"]`, or a loop over them. The
            rows are computed now.

        Raises:
            KeyError: there is no column of a name.
            TypeError: no key, or one of lists, maps or records.

        Example:
            >>> from flambeau.data.frame import dataframe
            >>> frame = dataframe({"a": ["x", "y", "x"], "b": [1, 2, 3]})
            >>> [tuple(row) for row in frame.groupby("a").sum()]
            [('x', 4), ('y', 2)]
        """
        keys = _names(by)
        self._check(keys)
        if bad := [name for name in keys if not dt.is_primitive(self._fields[name].dtype)]:
            raise FrameTypeError(f"groupby: {bad[0]!r} is {self._fields[bad[0]].dtype}, expected numbers or text.")
        if not keys:
            raise FrameTypeError("groupby needs the name of at least one column, got none.")
        values = self._values()
        if self._valid is not None:
            values = values.filter(pl.col(_VALID))
        if drop_null if dropna is None else dropna:
            values = values.drop_nulls(keys)
        items = [name for name in self._fields if name not in keys]
        fields = [dt.Field(name, one.dtype) for name, one in self._fields.items()]
        return GroupedDataFrame(values, dt.Struct(fields), keys, items, sort=sort)

    # Leaving.

    def to_polars(self) -> Any:
        """The frame of Polars that holds the columns, without a copy."""
        return self._values().select([*self._fields])

    def lazy(self) -> Any:
        """The query of Polars that makes the columns; nothing is computed."""
        return select(self._rows, self._fields)

    def to_arrow(self) -> Any:
        """An Arrow table that shares the frame's memory."""
        values = self._values()
        dtype = dt.Struct([dt.Field(name, one.dtype) for name, one in self._fields.items()])
        arrays = [arrow_array(values.get_column(one.name), one.dtype) for one in dtype.fields]
        return pa.Table.from_arrays(arrays, schema=arrow_schema(dtype))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The frame for any library that takes Arrow streams; nothing is copied."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """The frame as an Arrow array of records."""
        return arrow_array(self._series(), self.dtype).__arrow_c_array__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas frame, backed by Arrow, so that whole numbers stay whole where some are missing."""
        return self.to_arrow().to_pandas(types_mapper=pandas_module().ArrowDtype)

    def to_tensor(self, conversion: Any = None) -> Any:
        """A named tuple of tensors, one for each column; see `Column.to_tensor`.

        Args:
            conversion: a function of the frame, or a dictionary of functions of its columns by name; columns that it
                does not name are converted by default.
        """
        from flambeau.data.frame.pytorch.tensors import DefaultTensorConversion

        if not isinstance(conversion, Mapping):
            return (conversion or DefaultTensorConversion())(self)
        self._check([*conversion])
        held = self.collect()  # all columns in one go
        return self.dtype.py_type(*(held[name].to_tensor(conversion.get(name)) for name in self._fields))


def _types(name: str, given: Any) -> set[dt.DType] | None:
    if given is None:
        return None
    if not isinstance(given, list | tuple) or not all(isinstance(one, dt.DType) for one in given):
        raise FrameTypeError(f"describe: {name} is a list of column types, got {given!r}.")
    return {one.with_null(False) for one in given}


def _frame(columns: Mapping[str, ColumnBase]) -> Any:
    """Columns of one length, in memory, as a frame."""
    held = pl.DataFrame([one._series().alias(name) for name, one in columns.items()])
    return frame_of(held, dt.Struct([dt.Field(name, one.dtype) for name, one in columns.items()]))


def _names(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)

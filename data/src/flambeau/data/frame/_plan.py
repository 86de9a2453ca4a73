"""What a frame remembers: which rows it has, and the term of each column over them.

A frame is `Rows` and one `Term`, an expression over them, per column. Operations that keep rows only write a longer
expression; operations that choose, order or make rows write a new `Rows` whose parent is the old one. Nothing is
computed until values are asked for, and everything is data: it can be printed, pickled, and run again over other rows
of the same type, a block at a time. That is how one program serves one machine and many.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.aggregates import Aggregate
from flambeau.data.frame.operations import OPERATIONS
from flambeau.data.frame.row_operations import STEPS

# Rows are shared by the frames over them, which threads may extend.
_attaching = threading.Lock()

ONE = "value"
"""Name of the column of rows that have but one, which has no name."""


class Term:
    """A column over some rows.

    Attributes:
        dtype: type of the column.
        inputs: the expressions that it is computed from.
        rowwise: whether a row of the result depends on the same row of the inputs alone, all the way down.
    """

    __slots__ = ("__weakref__", "dtype", "inputs", "rowwise")

    def __init__(self, dtype: dt.DType, inputs: tuple[Term, ...] = (), rowwise: bool = True) -> None:
        self.dtype = dtype
        self.inputs = inputs
        self.rowwise: bool = rowwise and all(one.rowwise for one in inputs)

    def polars(self, known: Mapping[Term, str]) -> pl.Expr:
        """For Polars; `known` names columns that hold the values of some expressions already."""
        return pl.col(known[self]) if self in known else self._polars(known)

    def _polars(self, known: Mapping[Term, str]) -> pl.Expr:
        raise NotImplementedError  # every kind of expression below has its own

    def walk(self) -> Iterator[Term]:
        """This expression and all below it, each once."""
        seen: set[int] = set()
        waiting: list[Term] = [self]
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen.add(id(one))
                yield one
                waiting += one.inputs


class Reference(Term):
    """A column of the rows themselves."""

    __slots__ = ("name",)

    def __init__(self, name: str, dtype: dt.DType) -> None:
        super().__init__(dtype)
        self.name = name

    def _polars(self, known: Mapping[Term, str]) -> pl.Expr:
        return pl.col(self.name)

    def __str__(self) -> str:
        return f"me[{self.name!r}]"


class Constant(Term):
    """The same value in every row."""

    __slots__ = ("value",)

    def __init__(self, value: Any, dtype: dt.DType) -> None:
        super().__init__(dtype)
        self.value = value

    def _polars(self, known: Mapping[Term, str]) -> pl.Expr:
        if isinstance(self.dtype, dt.List | dt.Map | dt.Struct):
            return pl.lit(pl.Series([self.value], dtype=physical(self.dtype)))
        return pl.lit(self.value, dtype=physical(self.dtype))

    def __str__(self) -> str:
        return repr(self.value)


class Apply(Term):
    """An operation, by its name in `operations`, on columns.

    `options` are its other arguments: plain values, types, a user's function.
    """

    __slots__ = ("operation", "options")

    def __init__(
        self,
        operation: str,
        inputs: tuple[Term, ...],
        dtype: dt.DType,
        *,
        rowwise: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(dtype, inputs, rowwise)
        self.operation = operation
        self.options = options

    def _polars(self, known: Mapping[Term, str]) -> pl.Expr:
        operands = [one.polars(known) for one in self.inputs]
        return OPERATIONS[self.operation](self.dtype, *operands, **self.options)

    def __str__(self) -> str:
        arguments = [str(one) for one in self.inputs]
        arguments += [f"{key}={getattr(value, '__name__', value)!s}" for key, value in self.options.items()]
        return f"{self.operation}({', '.join(arguments)})"


class Record(Term):
    """A column of records made of other columns: a frame within a frame.

    `valid` tells which rows have a record, None that all have.
    """

    __slots__ = ("fields", "valid")

    def __init__(self, fields: Mapping[str, Term], valid: Term | None = None) -> None:
        dtype = dt.Struct([dt.Field(name, one.dtype) for name, one in fields.items()], valid is not None)
        super().__init__(dtype, (*fields.values(), *(() if valid is None else (valid,))))
        self.fields = dict(fields)
        self.valid = valid

    def _polars(self, known: Mapping[Term, str]) -> pl.Expr:
        made = pl.struct([one.polars(known).alias(name) for name, one in self.fields.items()])
        return made if self.valid is None else pl.when(self.valid.polars(known)).then(made)

    def __str__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {one}' for name, one in self.fields.items())}}}"


def field_of(record: Term, name: str) -> Term:
    """One field of a column of records; missing where the record is."""
    if isinstance(record, Record) and record.valid is None:
        return record.fields[name]
    dtype = record.dtype
    assert isinstance(dtype, dt.Struct)  # frames are made of structs only
    return Apply("field", (record,), dtype.get(name).with_null(dtype.nullable or dtype.get(name).nullable), name=name)


class Rows:
    """Rows that expressions refer to; the columns they have are known by name and type.

    Attributes:
        dtype: names and types of the columns.
        frame: the columns' values where they are in memory.
        streams: whether they are on disk, and better read as a stream than at once.
    """

    streams = False

    def __init__(self, dtype: dt.Struct, frame: pl.DataFrame | None = None) -> None:
        self.dtype = dtype
        self.frame = frame
        self.computed: WeakKeyDictionary[Term, pl.Series] = WeakKeyDictionary()
        self._beside: list[dt.Field] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "computed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, computed=WeakKeyDictionary())

    @property
    def attached(self) -> bool:
        """Whether values are held beside the rows' own columns."""
        return bool(self._beside)

    def whole_dtype(self) -> dt.Struct:
        """Names and types of the columns, and of the values held beside them."""
        if not self._beside:
            return self.dtype
        return dt.Struct([*self.dtype.fields, *self._beside])

    def references(self) -> dict[str, Term]:
        """An expression for each column."""
        return {one.name: Reference(one.name, one.dtype) for one in self.dtype.fields}

    def lazy(self) -> pl.LazyFrame:
        """The rows as a query of Polars."""
        if self.frame is not None:
            return self.frame.lazy()
        return self._lazy()

    def _lazy(self) -> pl.LazyFrame:
        raise NotImplementedError  # every kind of rows below has its own

    @property
    def parents(self) -> tuple[Rows, ...]:
        """The rows that these are made from."""
        return ()

    @property
    def engine(self) -> Engine | None:
        """What computes columns over these rows, where it is not this process."""
        return None

    def attach(self, series: pl.Series, dtype: dt.DType) -> Term:
        """Hold values beside the rows, which must be in memory; returns the expression that refers to them."""
        assert self.frame is not None  # callers materialise first
        with _attaching:
            name = f"\x1f{len(self._beside)}"
            self._beside.append(dt.Field(name, dtype))
            self.frame = self.frame.with_columns(series.alias(name)) if self.frame.width else series.to_frame(name)
        return Reference(name, dtype)


class Engine(Protocol):
    """What computes over rows that are elsewhere, on a cluster."""

    def compute(self, rows: Rows, columns: Mapping[str, Term]) -> pl.DataFrame:
        """The values of columns over rows that come from the engine's."""

    def count(self, rows: Rows) -> int:
        """How many rows there are."""

    def aggregate(self, rows: Rows, column: Term, one: Aggregate) -> Any:
        """One number about a column."""


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


class Table(Rows):
    """Rows in memory."""

    def __init__(self, frame: pl.DataFrame, dtype: dt.Struct) -> None:
        super().__init__(dtype, frame)


class Derived(Rows):
    """Rows chosen, ordered or made from others.

    Attributes:
        parent: where they come from.
        fields: the columns that they have, as expressions over the parent's rows.
        step: name in `row_operations.STEPS` of what happens to them.
        keys: further expressions over the parent's rows that the step uses.
        options: the step's other arguments.
        rowwise: whether a block of rows can be done without the others.
    """

    def __init__(
        self,
        parent: Rows,
        fields: Mapping[str, Term],
        step: str,
        keys: tuple[Term, ...] = (),
        *,
        dtype: dt.Struct | None = None,
        rowwise: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(dtype or dt.Struct([dt.Field(name, one.dtype) for name, one in fields.items()]))
        self.parent = parent
        self.fields = dict(fields)
        self.step = step
        self.keys = keys
        self.options = options
        self.rowwise = rowwise and all(one.rowwise for one in (*fields.values(), *keys))

    @property
    def parents(self) -> tuple[Rows, ...]:
        return (self.parent,)

    def _lazy(self) -> pl.LazyFrame:
        return self.after(self.parent)

    def after(self, parent: Rows) -> pl.LazyFrame:
        """The same step over other rows of the parent's type."""
        keys = {f"\x1fkey{place}": one for place, one in enumerate(self.keys)}
        query = select(parent, {**self.fields, **keys})
        return STEPS[self.step](query, list(self.fields), list(keys), **self.options)


class Stacked(Rows):
    """The rows of several frames, one after another."""

    def __init__(self, parts: list[tuple[Rows, Mapping[str, Term]]], dtype: dt.Struct) -> None:
        super().__init__(dtype)
        self.parts = parts

    @property
    def parents(self) -> tuple[Rows, ...]:
        return tuple(rows for rows, _ in self.parts)

    def _lazy(self) -> pl.LazyFrame:
        return pl.concat([select(rows, fields) for rows, fields in self.parts])


def used_columns(source: Rows, rows: Rows, columns: Mapping[str, Term]) -> dict[str, dt.DType]:
    """Names and types of the source's columns that a plan reads; one of them where it reads none."""
    needed = _named(columns.values())
    while isinstance(rows, Derived) and rows is not source:
        needed = _named([*_kept(rows, needed).values(), *rows.keys])
        rows = rows.parent
    used = {one.name: one.dtype for one in source.dtype.fields if one.name in needed}
    return used or {one.name: one.dtype for one in source.dtype.fields[:1]}


def moved(rows: Rows, columns: Mapping[str, Term], source: Rows, onto: Rows) -> Rows:
    """The same steps over other rows in the source's place, for some columns and what they need."""
    return _moved(rows, _named(columns.values()), source, onto)


def _moved(rows: Rows, needed: set[str], source: Rows, onto: Rows) -> Rows:
    if rows is source:
        return onto
    assert isinstance(rows, Derived)  # callers move chains of steps
    fields = _kept(rows, needed)
    parent = _moved(rows.parent, _named([*fields.values(), *rows.keys]), source, onto)
    dtype = dt.Struct([one for one in rows.dtype.fields if one.name in fields])
    return Derived(parent, fields, rows.step, rows.keys, dtype=dtype, rowwise=rows.rowwise, **rows.options)


def _kept(rows: Derived, needed: set[str]) -> dict[str, Term]:
    """The fields that are needed; the first where none is, for there are rows all the same."""
    kept = {name: one for name, one in rows.fields.items() if name in needed}
    return kept or dict(list(rows.fields.items())[:1])


def _named(terms: Iterable[Term]) -> set[str]:
    return {one.name for term in terms for one in term.walk() if isinstance(one, Reference)}

"""Frames on a cluster: the plan that Polars runs here, run there by Ray Data, a block of rows at a time.

What a row makes of itself (arithmetic, text, hashing, user functions, conditions) runs on the cluster's machines in
`map_batches`, with Polars inside, so that results are those of one machine. So do counting, sums, means and the like,
whose parts are put together here. What needs all rows at once (sorting, duplicates, running sums, medians) gathers the
rows it needs on the calling machine, after everything before it ran on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._physical import arrow_schema, physical
from flambeau.data.frame._plan import Derived, Rows, Stacked, Table, Term
from flambeau.data.frame.aggregates import Aggregate
from flambeau.data.frame.errors import FrameError, FrameTypeError, missing
from flambeau.data.frame.running import collect, root, select
from flambeau.data.frame.scanning import Scan

if TYPE_CHECKING:
    from flambeau.data.frame.column import Column


class ClusterError(FrameError, RuntimeError):
    """Something that frames on a cluster cannot do; the message says what to do instead."""


class Scaled(Rows):
    """Rows in a Ray dataset.

    Attributes:
        dataset: where the rows are.
    """

    def __init__(self, dataset: Any, dtype: dt.Struct) -> None:
        super().__init__(dtype)
        self.dataset = dataset

    def __getstate__(self) -> dict[str, Any]:
        # A block's program is run over other rows; the dataset must not travel with it.
        return {**super().__getstate__(), "dataset": None}

    def _lazy(self) -> pl.LazyFrame:
        return self.compute(self, self.references()).lazy()

    def compute(self, rows: Rows, columns: Mapping[str, Term]) -> pl.DataFrame:
        """The values of columns over rows that come from these."""
        if all(one.rowwise for one in columns.values()) and (made := self.stream(rows, columns)) is not None:
            return self._gather(made, _dtype_of(columns))
        self.gather(rows)
        return collect(select(rows, columns))

    def gather(self, rows: Rows) -> None:
        """Bring rows into this machine's memory, with all that can be done before on the cluster."""
        if rows.frame is not None:
            return
        made = self.stream(rows, rows.references())
        if made is not None:
            rows.frame = self._gather(made, rows.dtype)
        else:
            for one in rows.parents:
                self.gather(one)
            rows.frame = collect(rows.lazy())

    def stream(self, rows: Rows, columns: Mapping[str, Term]) -> Any:
        """The dataset of columns that blocks can compute on their own; None where they cannot."""
        chain: list[Derived] = []
        while isinstance(rows, Derived) and rows.frame is None:
            chain.insert(0, rows)
            rows = rows.parent
        if not isinstance(rows, Scaled):
            return None
        dataset = rows.dataset
        steps: list[Derived] = []
        for one in chain:
            if _is_head(one):
                dataset = self._mapped(dataset, steps, one.parent, one.fields)
                dataset = dataset.limit(one.options["start"] + one.options["length"])
                if one.options["start"]:
                    return None
                steps = [_after_head(one)]
            elif one.rowwise:
                steps.append(one)
            else:
                return None
        last = chain[-1] if chain else rows
        return self._mapped(dataset, steps, last, columns)

    def _mapped(self, dataset: Any, steps: Sequence[Derived], rows: Rows, columns: Mapping[str, Term]) -> Any:
        program = Program(steps[0].parent if steps else rows, rows, columns)
        return dataset.map_batches(program, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)

    def _gather(self, dataset: Any, dtype: dt.Struct) -> pl.DataFrame:
        import ray

        tables = [ray.get(one) for one in dataset.to_arrow_refs()]
        wanted = {one.name: physical(one.dtype) for one in dtype.fields}
        frames = [_held(one, wanted) for one in tables if one.num_rows]
        return pl.concat(frames) if frames else pl.DataFrame(schema=wanted)

    def count(self, rows: Rows) -> int:
        """How many rows there are."""
        parts = self._parts(rows, {"": _first_term(rows)}, {"rows": pl.len()})
        return self.gathered_height(rows) if parts is None else int(parts.get_column("rows").sum())

    def gathered_height(self, rows: Rows) -> int:
        """How many rows there are, where only all of them together tell."""
        self.gather(rows)
        assert rows.frame is not None  # it was gathered
        return rows.frame.height

    def aggregate(self, rows: Rows, column: Term, one: Aggregate) -> Any:
        """One number about a column, put together from the blocks' parts."""
        assert one.partial is not None and one.combine is not None  # callers ask for such
        parts = self._parts(rows, {"value": column}, one.partial) if column.rowwise else None
        if parts is None:
            return one.whole(self.compute(rows, {"": column}).to_series())
        return one.combine(parts)

    def _parts(self, rows: Rows, columns: Mapping[str, Term], parts: Mapping[str, pl.Expr]) -> pl.DataFrame | None:
        made = self.stream(rows, columns)
        if made is None:
            return None
        made = made.map_batches(Parts(dict(parts)), batch_format="pyarrow", batch_size=None)
        import ray

        tables = [ray.get(one) for one in made.to_arrow_refs()]
        frames = [_frame(one) for one in tables if one.num_rows]
        if frames:
            return pl.concat(frames, how="vertical_relaxed")
        empty = pl.DataFrame(schema={name: physical(one.dtype) for name, one in columns.items()})
        return empty.select(value.alias(name) for name, value in parts.items())


class Program:
    """What happens to one block: the plan from some rows on, over the block's."""

    def __init__(self, source: Rows, rows: Rows, columns: Mapping[str, Term]) -> None:
        import cloudpickle

        self.names = {one.name: one.dtype for one in source.dtype.fields}
        # Plans hold functions of users, which plain pickling would look up by name.
        self.plan = cloudpickle.dumps((_bare(rows, source), dict(columns)))

    def __call__(self, block: pa.Table) -> pa.Table:
        """The columns over a block's rows."""
        import cloudpickle

        rows, columns = cloudpickle.loads(self.plan)
        values = collect(select(_on(rows, self._table(block)), columns))
        dtype = _dtype_of(columns)
        return pa.Table.from_arrays(
            [_arrow(values.get_column(one.name), one.dtype) for one in dtype.fields], schema=arrow_schema(dtype)
        )

    def _table(self, block: pa.Table) -> Table:
        wanted = {name: physical(one) for name, one in self.names.items()}
        return Table(_held(block, wanted), dt.Struct([dt.Field(name, one) for name, one in self.names.items()]))


class Parts:
    """What a block tells about a column."""

    def __init__(self, parts: dict[str, pl.Expr]) -> None:
        self.parts = parts

    def __call__(self, block: pa.Table) -> pa.Table:
        """One row of parts."""
        from flambeau.data.frame.aggregates import wide

        frame = _frame(block)
        frame = pl.DataFrame([wide(one).alias(one.name) if one.dtype.is_float() else one for one in frame])
        return frame.select(one.alias(name) for name, one in self.parts.items()).to_arrow()


def _arrow(series: pl.Series, dtype: dt.DType) -> pa.Array:
    from flambeau.data.frame.leaving import arrow_array

    return arrow_array(series, dtype)


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # a table makes a frame
    return frame


def _held(table: pa.Table, wanted: Mapping[str, Any]) -> pl.DataFrame:
    """A block with the columns of a plan's rows, held as plans hold them."""
    if not wanted:
        return pl.DataFrame()
    frame = _frame(table.select(list(wanted)))
    return frame.cast({name: kind for name, kind in wanted.items() if frame.schema[name] != kind})


def _dtype_of(columns: Mapping[str, Term]) -> dt.Struct:
    return dt.Struct([dt.Field(name, one.dtype) for name, one in columns.items()])


def _first_term(rows: Rows) -> Term:
    references = rows.references()
    if not references:
        raise ClusterError("a frame without columns has no rows to count; scale a frame that has some.")
    return next(iter(references.values()))


def _is_head(one: Derived) -> bool:
    return one.step == "part" and not one.rowwise and all(term.rowwise for term in (*one.fields.values(), *one.keys))


def _after_head(one: Derived) -> Derived:
    """What is left of taking the first rows once the cluster has taken them: nothing but their names."""
    return Derived(
        Scaled(None, one.dtype),
        Rows(one.dtype).references(),
        "same",
        rowwise=True,
    )


def _bare(rows: Rows, source: Rows) -> Rows:
    """A plan without its values, which would travel to every block: its source stands for any rows."""
    if rows is source:
        return _Hole(rows.dtype)
    assert isinstance(rows, Derived)  # programs are chains of steps
    return _moved(rows, _bare(rows.parent, source))


class _Hole(Rows):
    """Where a block's rows go in a plan."""


def _on(rows: Rows, source: Rows) -> Rows:
    """A plan over other rows at its beginning."""
    if isinstance(rows, _Hole):
        return source
    assert isinstance(rows, Derived)  # programs are chains of steps
    return _moved(rows, _on(rows.parent, source))


def _moved(rows: Derived, parent: Rows) -> Derived:
    return Derived(parent, rows.fields, rows.step, rows.keys, dtype=rows.dtype, rowwise=rows.rowwise, **rows.options)


def _ray(ray: Any) -> Any:
    """The module of Ray, with Ray Data.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import ray as module
        import ray.data
    except ImportError as error:
        raise missing("ray", "ray") from error
    return module


def _dataset(rows: Rows, ray: Any, blocks: int | None) -> Any:
    """The rows that plans begin with, as a Ray dataset."""
    if isinstance(rows, Scaled):
        return rows.dataset
    ray = _ray(ray)
    if isinstance(rows, Scan) and rows.frame is None and rows.kind == "parquet" and not rows.options:
        dataset = ray.data.read_parquet(rows.files, file_extensions=None)
    elif rows.frame is not None or not isinstance(rows, Scan):
        dataset = ray.data.from_arrow(list(_cut(rows, ray, blocks)))
    else:
        dataset = ray.data.from_arrow(list(_cut(Table(collect(rows.lazy(), streaming=True), rows.dtype), ray, blocks)))
    # Rows keep their order, as on one machine.
    dataset.context.execution_options.preserve_order = True
    return dataset


def _cut(rows: Rows, ray: Any, blocks: int | None) -> Iterator[pa.Table]:
    from flambeau.data.frame.running import materialise

    frame = materialise(rows)
    if blocks is None:
        blocks = max(int(ray.cluster_resources().get("CPU", 1)), 1) if ray.is_initialized() else 1
    size = max(-(-frame.height // max(blocks, 1)), 1)
    for start in range(0, max(frame.height, 1), size):
        part = frame.slice(start, size).select(one.name for one in rows.dtype.fields)
        yield pa.Table.from_arrays(
            [_arrow(part.get_column(one.name), one.dtype) for one in rows.dtype.fields],
            schema=arrow_schema(rows.dtype),
        )


def _rooted(rows: Rows, ray: Any, blocks: int | None) -> Rows:
    """The same plan over the cluster's copy of the rows it begins with."""
    if isinstance(rows, Stacked):
        parts = [(_rooted(one, ray, blocks), fields) for one, fields in rows.parts]
        return Stacked(parts, rows.dtype)
    # Values beside the rows were computed here, and go along with the rows.
    if isinstance(rows, Derived) and not rows.attached:
        return _moved(rows, _rooted(rows.parent, ray, blocks))
    dtype = rows.whole_dtype()
    whole = Table(rows.frame, dtype) if rows.frame is not None else rows
    return Scaled(_dataset(whole, ray, blocks), dtype)


def scaled(one: Column, ray: Any, blocks: int | None) -> Any:
    """A column or frame over the cluster's copy of the rows it begins with; what `Column.scale` says."""
    if ray is not None and hasattr(ray, "map_batches"):
        beginning = root(one._rows)
        schema = ray.schema().base_schema
        if lacking := [field.name for field in beginning.dtype.fields if field.name not in schema.names]:
            raise FrameTypeError(f"the dataset has no column {lacking[0]!r}; it has {schema.names}.")
        ray.context.execution_options.preserve_order = True
        rows = _replaced(one._rows, Scaled(ray, beginning.dtype))
    else:
        rows = _rooted(one._rows, ray, blocks)
    return one._on_rows(rows)


def _replaced(rows: Rows, source: Rows) -> Rows:
    if isinstance(rows, Derived):
        return _moved(rows, _replaced(rows.parent, source))
    return source


def to_dataset(rows: Rows, columns: Mapping[str, Term], ray: Any, blocks: int | None) -> Any:
    """A Ray dataset of columns; what `Interchange.to_ray` says."""
    ray = _ray(ray)
    names = {name or "value": one for name, one in columns.items()}
    moved = _rooted(rows, ray, blocks)
    beginning = root(moved)
    assert isinstance(beginning, Scaled)  # `_rooted` made it so
    made = beginning.stream(moved, names) if all(one.rowwise for one in names.values()) else None
    if made is not None:
        return made
    values = beginning.compute(moved, names)
    return _dataset(Table(values, _dtype_of(names)), ray, blocks)

"""Frames on a cluster: the plan that Polars runs here, run there by Ray Data, a block of rows at a time.

What a row makes of itself (arithmetic, text, hashing, user functions, conditions) runs on the cluster's machines in
`map_batches`, with Polars inside, so that results are those of one machine. So do counting, sums, means and the like,
whose parts are put together here. What needs all rows at once (sorting, duplicates, running sums, medians) gathers the
rows it needs on the calling machine, after everything before it ran on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl, run
from flambeau.data.frame._physical import arrow_schema, physical
from flambeau.data.frame._plan import ONE, Derived, Rows, Stacked, Table, Term, moved, select, used_columns
from flambeau.data.frame.aggregates import Aggregate, wide
from flambeau.data.frame.errors import FrameError, FrameTypeError, missing
from flambeau.data.frame.execution import materialise, root
from flambeau.data.frame.export import arrow_array
from flambeau.data.frame.row_groups import RowGroup, groups_of, read_group
from flambeau.data.frame.scanning import READERS, Scan


class ClusterError(FrameError, RuntimeError):
    """Something that frames on a cluster cannot do; the message says what to do instead."""


class Scaled(Rows):
    """Rows in a Ray dataset.

    Attributes:
        dataset: where the rows are; or which parts of which files hold them, where there is a `reading`.
        reading: how to read such a part.
    """

    def __init__(self, dataset: Any, dtype: dt.Struct, reading: Reading | None = None) -> None:
        super().__init__(dtype)
        self.dataset = dataset
        self.reading = reading

    def __getstate__(self) -> dict[str, Any]:
        # A block's program is run over other rows; the dataset must not travel with it.
        return {**super().__getstate__(), "dataset": None}

    @property
    def engine(self) -> Scaled:
        """These rows themselves: they know how to compute on the cluster."""
        return self

    def _lazy(self) -> pl.LazyFrame:
        return self.compute(self, self.references()).lazy()

    def compute(self, rows: Rows, columns: Mapping[str, Term]) -> pl.DataFrame:
        """The values of columns over rows that come from these."""
        if all(one.rowwise for one in columns.values()) and (made := self.stream(rows, columns)) is not None:
            return self._gather(made, _dtype_of(columns))
        self.gather(rows)
        return run(select(rows, columns))

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
            rows.frame = run(rows.lazy())

    def stream(self, rows: Rows, columns: Mapping[str, Term]) -> Any:
        """The dataset of columns that blocks can compute on their own; None where they cannot."""
        chain: list[Derived] = []
        while isinstance(rows, Derived) and rows.frame is None:
            chain.insert(0, rows)
            rows = rows.parent
        if not isinstance(rows, Scaled):
            return None
        dataset, reading = rows.dataset, rows.reading
        source: Rows = rows
        for one in chain:
            if _is_head(one):
                # The first rows: the cluster stops when it has them.
                dataset = _mapped(dataset, Program(source, one.parent, one.fields, reading))
                dataset, reading = dataset.limit(one.options["length"]), None
                source = one
            elif not one.rowwise:
                return None
        return _mapped(dataset, Program(source, chain[-1] if chain else rows, columns, reading))

    def _gather(self, dataset: Any, dtype: dt.Struct) -> pl.DataFrame:
        import ray

        tables = [ray.get(one) for one in dataset.to_arrow_refs()]
        wanted = {one.name: physical(one.dtype) for one in dtype.fields}
        frames = [_held(one, wanted) for one in tables if one.num_rows]
        return pl.concat(frames) if frames else pl.DataFrame(schema=wanted)

    def count(self, rows: Rows) -> int:
        """How many rows there are."""
        parts = self._parts(rows, {ONE: _first_term(rows)}, {"rows": pl.len()})
        return self.gathered_height(rows) if parts is None else int(parts.get_column("rows").sum())

    def gathered_height(self, rows: Rows) -> int:
        """How many rows there are, where only all of them together tell."""
        self.gather(rows)
        assert rows.frame is not None  # it was gathered
        return rows.frame.height

    def aggregate(self, rows: Rows, column: Term, one: Aggregate) -> Any:
        """One number about a column, put together from the blocks' parts."""
        assert one.partial is not None and one.combine is not None  # callers ask for such
        parts = self._parts(rows, {ONE: column}, one.partial) if column.rowwise else None
        if parts is None:
            return one.whole(self.compute(rows, {ONE: column}).to_series())
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
    """What happens to one block: the plan from some rows on, over the block's.

    Args:
        source: the rows that the block's take the place of.
        rows: the rows that the columns are of, by steps from the source.
        columns: what comes of a block.
        reading: how the block's rows are read, where it holds but their places in files.
    """

    def __init__(self, source: Rows, rows: Rows, columns: Mapping[str, Term], reading: Reading | None) -> None:
        import cloudpickle

        self.used = used_columns(source, rows, columns)
        self.dtype = dt.Struct([dt.Field(name, one) for name, one in self.used.items()])
        self.reading = None if reading is None else Reading(reading.kind, reading.options, self.dtype)
        # Plans hold functions of users, which plain pickling would look up by name.
        self.plan = cloudpickle.dumps((moved(rows, columns, source, _Hole(source.dtype)), dict(columns)))

    def __call__(self, block: pa.Table) -> pa.Table:
        """The columns over a block's rows."""
        import cloudpickle

        rows, columns = cloudpickle.loads(self.plan)
        values = run(select(_on(rows, self._table(block)), columns))
        dtype = _dtype_of(columns)
        return pa.Table.from_arrays(
            [arrow_array(values.get_column(one.name), one.dtype) for one in dtype.fields], schema=arrow_schema(dtype)
        )

    def _table(self, block: pa.Table) -> Table:
        wanted = {name: physical(one) for name, one in self.used.items()}
        held = _held(block, wanted) if self.reading is None else self.reading(block, wanted)
        return Table(held, self.dtype)


class Reading:
    """How rows are read of which a block holds but the places, in files of one kind: their row groups, or all (-1)."""

    def __init__(self, kind: str, options: dict[str, Any], dtype: dt.Struct) -> None:
        self.kind, self.options, self.dtype = kind, options, dtype

    def __call__(self, block: pa.Table, wanted: Mapping[str, Any]) -> pl.DataFrame:
        """The rows at a block's places."""
        frames = [self._part(one, wanted) for one in block.to_pylist()]
        return pl.concat(frames) if frames else pl.DataFrame(schema=wanted)

    def _part(self, place: Mapping[str, Any], wanted: Mapping[str, Any]) -> pl.DataFrame:
        if place["group"] >= 0:
            return read_group(RowGroup(**place), self.dtype)
        query = READERS[self.kind]([place["file"]], **self.options).select([*wanted])
        return run(query.cast(dict(wanted)))

    def places(self, files: Sequence[str]) -> list[dict[str, Any]]:
        """The parts of files: their row groups where they have such."""
        if self.kind not in ("parquet", "arrow") or self.options:
            return [vars(RowGroup(file, -1, 0, 0)) for file in files]
        found = [vars(one) for file in files for one in groups_of(file)]
        return found or [vars(RowGroup(files[0], -1, 0, 0))]


class Parts:
    """What a block tells about a column."""

    def __init__(self, parts: dict[str, pl.Expr]) -> None:
        self.parts = parts

    def __call__(self, block: pa.Table) -> pa.Table:
        """One row of parts."""
        frame = _frame(block)
        frame = pl.DataFrame([wide(one).alias(one.name) if one.dtype.is_float() else one for one in frame])
        return frame.select(one.alias(name) for name, one in self.parts.items()).to_arrow()


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


def _mapped(dataset: Any, program: Program) -> Any:
    return dataset.map_batches(program, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


def _is_head(one: Derived) -> bool:
    rowwise = all(term.rowwise for term in (*one.fields.values(), *one.keys))
    return one.step == "part" and one.options["start"] == 0 and rowwise


class _Hole(Rows):
    """Where a block's rows go in a plan, which travels without the rows that it was recorded over."""


def _on(rows: Rows, source: Rows) -> Rows:
    """A plan over other rows at its beginning."""
    if isinstance(rows, _Hole):
        return source
    assert isinstance(rows, Derived)  # programs are chains of steps
    return _over(rows, _on(rows.parent, source))


def _over(rows: Derived, parent: Rows) -> Derived:
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


def _beginning(rows: Rows, ray: Any, blocks: int | None) -> Scaled:
    """The rows that a plan begins with, on the cluster."""
    if isinstance(rows, Scaled):
        return rows
    ray = _ray(ray)
    reading = Reading(rows.kind, rows.options, rows.dtype) if isinstance(rows, Scan) and rows.frame is None else None
    if reading is not None:
        assert isinstance(rows, Scan)  # it has files to be read
        places = reading.places(rows.files)
        dataset = ray.data.from_items(places, override_num_blocks=len(places))
    else:
        dataset = ray.data.from_arrow(list(_cut(rows, ray, blocks)))
    return Scaled(_ordered(dataset), rows.whole_dtype(), reading)


def _ordered(dataset: Any) -> Any:
    """A dataset whose rows keep their order, and whose errors their type, as on one machine."""
    dataset.context.execution_options.preserve_order = True
    dataset.context.raise_original_map_exception = True
    return dataset


def _cut(rows: Rows, ray: Any, blocks: int | None) -> Iterator[pa.Table]:
    frame = materialise(rows)
    if blocks is None:
        blocks = max(int(ray.cluster_resources().get("CPU", 1)), 1) if ray.is_initialized() else 1
    size = max(-(-frame.height // max(blocks, 1)), 1)
    for start in range(0, max(frame.height, 1), size):
        part, dtype = frame.slice(start, size), rows.whole_dtype()
        yield pa.Table.from_arrays(
            [arrow_array(part.get_column(one.name), one.dtype) for one in dtype.fields], schema=arrow_schema(dtype)
        )


def _rooted(rows: Rows, ray: Any, blocks: int | None) -> Rows:
    """The same plan over the cluster's copy of the rows it begins with."""
    if isinstance(rows, Stacked):
        parts = [(_rooted(one, ray, blocks), fields) for one, fields in rows.parts]
        return Stacked(parts, rows.dtype)
    # Values beside the rows were computed here, and go along with the rows.
    if isinstance(rows, Derived) and not rows.attached:
        return _over(rows, _rooted(rows.parent, ray, blocks))
    return _beginning(rows, ray, blocks)


def scaled(rows: Rows, columns: Mapping[str, Term], ray: Any, blocks: int | None) -> Rows:
    """Rows over the cluster's copy of the rows they begin with; what `Interchange.scale` says."""
    if ray is not None and hasattr(ray, "map_batches"):
        beginning = root(rows)
        names = ray.schema().names
        if lacking := [name for name in used_columns(beginning, rows, columns) if name not in names]:
            raise FrameTypeError(f"the dataset has no column {lacking[0]!r}; it has {names}.")
        return _replaced(rows, Scaled(_ordered(ray), beginning.dtype))
    return _rooted(rows, ray, blocks)


def _replaced(rows: Rows, source: Rows) -> Rows:
    if isinstance(rows, Derived):
        return _over(rows, _replaced(rows.parent, source))
    return source


def to_dataset(rows: Rows, columns: Mapping[str, Term], ray: Any, blocks: int | None) -> Any:
    """A Ray dataset of columns; what `Interchange.to_ray` says."""
    ray = _ray(ray)
    moved = _rooted(rows, ray, blocks)
    beginning = root(moved)
    assert isinstance(beginning, Scaled)  # `_rooted` made it so
    made = beginning.stream(moved, columns) if all(one.rowwise for one in columns.values()) else None
    if made is not None:
        return made
    values = beginning.compute(moved, columns)
    return _beginning(Table(values, _dtype_of(columns)), ray, blocks).dataset

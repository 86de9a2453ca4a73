"""Frames from files as a node of `flambeau.data.nodes` and as a DataPipe: batch after batch, resumed at any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._physical import held_frame
from flambeau.data.frame._plan import Derived, Rows, Table, moved, used_columns
from flambeau.data.frame.column_classes import frame_of
from flambeau.data.frame.dataframe import DataFrame
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.row_groups import Order, RowGroups
from flambeau.data.frame.scanning import paths_of
from flambeau.data.nodes import BaseNode

SCHEMA = 1
Plan = Callable[[DataFrame], Any] | DataFrame | None


def reader(
    files: str | Path | Sequence[str | Path],
    batch_size: int,
    columns: Sequence[str] | None = None,
    plan: Plan = None,
    shuffle_row_groups: bool = False,
    seed: int = 0,
    *,
    drop_last: bool = False,
    rank: int = 0,
    world_size: int = 1,
) -> FrameReader:
    """Batches of rows of files, as a node; `.datapipe()` gives the same as a DataPipe.

    Args:
        files: Parquet or Arrow IPC files: a path or URL, several, a folder of *.parquet, or a pattern.
        batch_size: rows read for a batch; the last may have fewer.
        columns: names of the columns to read; what the plan uses where it is a frame, else all.
        plan: what is done to each batch: a function of a frame, whose result is what is given (a frame, tensors); or a
            frame made by `scan_parquet` and operations that need no row but their own. A plan that chooses rows makes
            smaller batches.
        shuffle_row_groups: read the row groups of all files in another order in each pass.
        seed: of that order.
        drop_last: leave out the last batch where it has fewer rows.
        rank: which of the processes that share the batches this is: it gets every batch whose number leaves `rank`
            when divided by `world_size`.
        world_size: how many there are.

    Returns:
        A node whose state is where in the files reading goes on: file, row group and row. A state taken with one
        `world_size` can be loaded with another, if all processes had given as many batches: each batch that is left
        is then given once.

    Example:
        >>> import tempfile
        >>> from flambeau.data.frame import column, dataframe
        >>> import pyarrow.parquet as pq
        >>> path = tempfile.mkdtemp() + "/rows.parquet"
        >>> pq.write_table(dataframe({"a": list(range(5))}).to_arrow(), path)
        >>> node = reader(path, 2, plan=lambda frame: list(frame["a"] * 10))
        >>> next(node)
        [0, 10]
        >>> state = node.state_dict()
        >>> node.reset(state)
        >>> list(node)
        [[20, 30], [40]]
    """
    batches = Batches(files, batch_size, columns, plan, shuffle_row_groups, seed, drop_last)
    if not 0 <= rank < world_size:
        raise FrameValueError(f"rank is {rank} of {world_size} processes; expected 0 to {world_size - 1}.")
    return FrameReader(batches, rank, world_size)


class Batches:
    """What is read, whatever reads it; the arguments of `reader`."""

    def __init__(
        self,
        files: str | Path | Sequence[str | Path],
        batch_size: int,
        columns: Sequence[str] | None,
        plan: Plan,
        shuffle: bool,
        seed: int,
        drop_last: bool,
    ) -> None:
        if batch_size < 1:
            raise FrameValueError(f"batch_size is {batch_size}, expected at least 1.")
        if columns is None and isinstance(plan, DataFrame):
            columns = _used(plan)
        self.groups = RowGroups(paths_of(files, "parquet"), columns)
        self.batch_size, self.plan = batch_size, plan
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last

    def order(self, epoch: int) -> Order:
        """The row groups in the order of a pass."""
        return self.groups.order(epoch, self.shuffle, self.seed)

    def batch(self, order: Order, start: int) -> Any:
        """What the plan makes of the batch that begins at a row of the pass."""
        read = order.read(start, min(start + self.batch_size, order.rows))
        frame = frame_of(read, order.dtype)
        if self.plan is None:
            return frame
        return _planned(self.plan, frame) if isinstance(self.plan, DataFrame) else self.plan(frame)

    def has(self, order: Order, start: int) -> bool:
        """Whether a batch begins at a row of the pass."""
        return start + (self.batch_size if self.drop_last else 1) <= order.rows

    def state(self, order: Order, epoch: int, row: int) -> dict[str, Any]:
        """Where reading goes on, as plain values."""
        return {"schema": SCHEMA, "epoch": epoch, "seed": self.seed, **order.locate(min(row, order.rows))}

    def found(self, state: dict[str, Any]) -> tuple[int, Order, int]:
        """Epoch, order and row of a state.

        Raises:
            ValueError: it is of another version, seed, or set of files.
        """
        if state.get("schema") != SCHEMA:
            raise FrameValueError(f"the state has schema {state.get('schema')}, this version reads {SCHEMA}.")
        if state["seed"] != self.seed:
            raise FrameValueError(f"the state was taken with seed {state['seed']}, this reader has {self.seed}.")
        order = self.order(state["epoch"])
        return state["epoch"], order, order.find(state["file"], state["row_group"], state["row"])

    def __len__(self) -> int:
        whole, rest = divmod(self.groups.rows, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)


class FrameReader(BaseNode[Any]):
    """What `reader` gives: a node of batches; each reset without a state begins the next pass."""

    def __init__(self, batches: Batches, rank: int, world_size: int) -> None:
        super().__init__()
        self.batches, self.rank, self.world_size = batches, rank, world_size
        self._epoch = -1

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Begin the next pass, or go on from a state."""
        super().reset(initial_state)
        if initial_state is None:
            self._epoch, self._row = self._epoch + 1, 0
            self._order = self.batches.order(self._epoch)
        else:
            self._epoch, self._order, self._row = self.batches.found(initial_state)

    def next(self) -> Any:
        """The next batch of this process."""
        start = self._row + self.rank * self.batches.batch_size
        if not self.batches.has(self._order, start):
            raise StopIteration
        made = self.batches.batch(self._order, start)
        self._row += self.world_size * self.batches.batch_size
        return made

    def get_state(self) -> dict[str, Any]:
        """Where reading goes on: {"schema", "epoch", "seed", "file", "row_group", "row"}."""
        return self.batches.state(self._order, self._epoch, self._row)

    def datapipe(self) -> FrameReaderDataPipe:
        """The same batches as a DataPipe, of this process."""
        import_module("flambeau.data.datapipes.iter")  # gives DataPipes their methods
        return FrameReaderDataPipe(self.batches, self.rank, self.world_size)


class FrameReaderDataPipe(IterDataPipe[Any]):
    """The batches of `reader` as a DataPipe; DataLoader's workers and ranks share them among themselves.

    Where `shuffle_row_groups` is set, DataLoader gives each pass an order of its own, which `torch.manual_seed` and the
    reader's `seed` determine together.
    """

    state_fields: ClassVar[tuple[str, ...]] = ("_epoch", "_place")

    def __init__(self, batches: Batches, rank: int = 0, world_size: int = 1) -> None:
        super().__init__()
        self.batches = batches
        self._given = (rank, world_size)
        self._groups: dict[int, tuple[int, int]] = {}
        self._epoch = -1
        self._next_epoch: int | None = None
        self._place: dict[str, Any] | None = None

    def is_shardable(self) -> bool:
        """Yes: batches are shared, not filtered."""
        return True

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = 0) -> None:
        """Share batches with other workers (and, by another group, ranks), as `sharding_filter` does samples."""
        self._groups[int(getattr(sharding_group, "value", sharding_group))] = (num_of_instances, instance_id)

    def _share(self) -> tuple[int, int]:
        rank, size = self._given
        for _, (count, place) in sorted(self._groups.items()):
            rank, size = rank * count + place, size * count
        return rank, size

    def set_seed(self, seed: int) -> FrameReaderDataPipe:
        """Let a seed number the next pass, and so order its row groups; what DataLoader calls before each pass.

        Without it passes are numbered from 0: a worker process, which begins anew with each pass, would repeat itself.
        """
        self._next_epoch = seed % (1 << 63)
        return self

    def reset(self) -> None:
        """Begin the next pass."""
        self._epoch = self._epoch + 1 if self._next_epoch is None else self._next_epoch
        self._next_epoch = None
        self._place = None

    def __iter__(self) -> Iterator[Any]:
        order, row = self.batches.order(self._epoch), 0
        if self._place is not None:
            _, order, row = self.batches.found(self._place)
        rank, size = self._share()
        while self.batches.has(order, row + rank * self.batches.batch_size):
            made = self.batches.batch(order, row + rank * self.batches.batch_size)
            row += size * self.batches.batch_size
            self._place = self.batches.state(order, self._epoch, row)
            yield made

    def __len__(self) -> int:
        rank, size = self._share()
        return max(-(-(len(self.batches) - rank) // size), 0)


def _chain(frame: DataFrame) -> tuple[Rows, list[Derived]]:
    """The rows that a frame's plan begins with, and the steps from there."""
    rows, steps = frame._rows, list[Derived]()
    while isinstance(rows, Derived):
        if not rows.rowwise:
            raise FrameTypeError(f"a reader's plan is done batch by batch, which {rows.step!r} cannot be; do it after.")
        steps.insert(0, rows)
        rows = rows.parent
    for one in (term for name in frame.columns for term in frame._fields[name].walk()):
        if not one.rowwise:
            raise FrameTypeError(f"a reader's plan is done batch by batch, which {one} cannot be; do it after.")
    return rows, steps


def _used(frame: DataFrame) -> list[str]:
    """Names of the columns that a plan reads."""
    source, _ = _chain(frame)
    return [*used_columns(source, frame._rows, frame._columns())]


def _planned(plan: DataFrame, frame: DataFrame) -> DataFrame:
    """A frame's plan over the rows of another."""
    source, _ = _chain(plan)
    columns = plan._columns()
    dtype = dt.Struct([dt.Field(name, one) for name, one in used_columns(source, plan._rows, columns).items()])
    rows = moved(plan._rows, columns, source, Table(held_frame(frame.to_polars(), dtype), dtype))
    made: DataFrame = plan._on_rows(rows)
    return made

"""Tables on disk with a cache in memory: where the rows of a batch are, and what tables hold."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import CacheAlgorithm
from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import BlockFile, Bytes, Rows
from flambeau.rec.fbgemm_gpu.tbe.ssd._ids import RECORD, IdTable
from flambeau.rec.fbgemm_gpu.tbe.ssd._initial import UniformRows
from flambeau.rec.fbgemm_gpu.tbe.ssd._row_cache import Arena, CacheCounts, Region
from flambeau.rec.fbgemm_gpu.tbe.ssd._row_format import RowFormat
from flambeau.rec.fbgemm_gpu.tbe.ssd._store import StoredTable, TableStore
from flambeau.rec.ops import tbe

__all__ = ["Located", "TableSpec", "TieredTables"]

_FIRST_ROWS = 1024  # of tables that grow


@dataclass(frozen=True)
class TableSpec:
    """A table.

    Args:
        rows: how many; of a virtual table ids are below it.
        columns: of each.
        lower: rows begin as uniform random numbers, at least this,
        upper: and below this.
        virtual: whether rows are made when their ids first come up.
    """

    rows: int
    columns: int
    lower: float
    upper: float
    virtual: bool = False


@dataclass
class _Asked:
    """What a batch asks of a region."""

    region: int
    rows: Rows  # each once; ids, of a virtual table
    inverse: Rows  # for each index, in the order of `slices`, which of them it is
    slices: list[slice]


@dataclass
class Located:
    """A batch whose rows are in memory, and what it takes to find them again."""

    lookup: tbe.Lookup
    asked: list[_Asked]
    evictions: list[int]
    complete: bool  # whether all ids have rows


class TieredTables:
    """Tables in a folder, and the cache over them.

    Args:
        folder: see `TableStore`.
        specs: of the tables.
        dtype: of rows.
        by_element: of each state of the optimizer, whether it has a number for each element, or one for each row.
        cache_rows: of all tables together.
        algorithm: who leaves the cache.
        seed: of initial rows.
        resident_bytes: see `TableStore`.
    """

    def __init__(
        self,
        folder: Path,
        specs: Sequence[TableSpec],
        dtype: torch.dtype,
        by_element: Sequence[bool],
        cache_rows: int,
        algorithm: CacheAlgorithm = CacheAlgorithm.LRU,
        seed: int = 0,
        resident_bytes: int = 1 << 30,
    ) -> None:
        self.specs, self.lock, self.counts = list(specs), threading.RLock(), CacheCounts()
        self.forms = [
            RowFormat(spec.columns, dtype, tuple(spec.columns if whole else 1 for whole in by_element))
            for spec in specs
        ]
        self.ids: dict[int, IdTable] = {}
        stored: dict[str, StoredTable] = {}
        initial: dict[str, Callable[[Rows], Bytes]] = {}
        for number, (spec, form) in enumerate(zip(specs, self.forms, strict=True)):
            facts = dataclasses.asdict(spec) | {"dtype": str(dtype), "states": list(form.states)}
            rows = _FIRST_ROWS if spec.virtual else spec.rows
            stored[f"table{number}"] = StoredTable(rows, form.record_bytes, facts, spec.virtual)
            initial[f"table{number}"] = _Initial(self, number)
            if spec.virtual:
                stored[f"ids{number}"] = StoredTable(_FIRST_ROWS, RECORD.itemsize, {}, grows=True)
                initial[f"ids{number}"] = _no_ids
        self.store = TableStore(folder, stored, initial, seed, resident_bytes)
        for number, spec in enumerate(specs):
            if spec.virtual:
                self.ids[number] = IdTable(self.store.tables[f"ids{number}"])
                self.file(number).grow(self.ids[number].file.rows)
        self._place_tables(cache_rows, algorithm)
        self.arena = Arena(self.regions, dtype, by_element)
        self._by_element = list(by_element)

    def _place_tables(self, cache_rows: int, algorithm: CacheAlgorithm) -> None:
        """Tables that are equally wide share a region; one that grows has its own."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, spec in enumerate(self.specs):
            groups.setdefault((spec.columns, number if spec.virtual else -1), []).append(number)
        self.regions: list[Region] = []
        self._region_of, self._base_of = [0] * len(self.specs), [0] * len(self.specs)
        for numbers in groups.values():
            rows = sum(self.specs[number].rows for number in numbers)
            share = max(min(cache_rows * len(numbers) // len(self.specs), rows), 1)
            files = [self.file(number) for number in numbers]
            region = Region(files, self.forms[numbers[0]], share, algorithm, self.counts)
            for number, base in zip(numbers, region.bases, strict=False):
                self._region_of[number], self._base_of[number] = len(self.regions), base
            self.regions.append(region)

    def file(self, table: int) -> BlockFile:
        """The file of a table."""
        return self.store.tables[f"table{table}"]

    def region(self, table: int) -> Region:
        """Where rows of a table are cached."""
        return self.regions[self._region_of[table]]

    def initial_rows(self, table: int, rows: Rows) -> np.ndarray:
        """What rows, or ids, of a table begin with: float32."""
        spec = self.specs[table]
        return UniformRows(self.store.seed * 1000003 + table, spec.columns, spec.lower, spec.upper)(rows)

    # ----- batches ----------------------------------------------------------------------------------------------------

    def locate(self, lookup: tbe.Lookup, tables: Sequence[int], *, allocate: bool) -> Located:
        """Fetch the rows of a batch, and say where in memory they are.

        Args:
            lookup: indices that are rows, or ids, of their tables.
            tables: of each feature.
            allocate: whether ids that have no rows are given some; else they read as they would begin.
        """
        ends = lookup.offsets[lookup.bag_starts].tolist()
        indices = lookup.indices.numpy()
        parts: dict[int, list[tuple[slice, int]]] = {}
        for feature, table in enumerate(tables):
            mine = slice(ends[feature], ends[feature + 1])
            parts.setdefault(self._region_of[table], []).append((mine, self._base_of[table]))
        asked = []
        for number, slices in sorted(parts.items()):
            together = np.concatenate([indices[mine].astype(np.int64) + base for mine, base in slices])
            rows, inverse = np.unique(together, return_inverse=True)
            asked.append(_Asked(number, rows, inverse.reshape(-1), [mine for mine, _ in slices]))
        self.counts.calls += 1
        self.counts.requested += len(indices)
        located = Located(lookup, asked, [], complete=False)
        self._resolve(located, tables, allocate=allocate)
        return located

    def relocate(self, located: Located, tables: Sequence[int]) -> None:
        """Have the rows of a batch in memory again, and rows for all its ids."""
        same = located.evictions == [region.evictions for region in self.regions]
        if not (same and located.complete):
            self._resolve(located, tables, allocate=True)

    def _resolve(self, located: Located, tables: Sequence[int], *, allocate: bool) -> None:
        wanted = [0] * len(self.regions)
        for asked in located.asked:
            wanted[asked.region] = len(asked.rows)
        self.arena.make_room(wanted)
        slots = np.empty(located.lookup.indices.numel(), np.int64)
        located.complete = True
        for asked in located.asked:
            found, complete = self._slots(asked, allocate=allocate)
            located.complete &= complete
            of_index, at = found[asked.inverse], 0
            for mine in asked.slices:
                count = mine.stop - mine.start
                slots[mine] = of_index[at : at + count]
                at += count
        located.lookup = dataclasses.replace(
            located.lookup,
            weights=self.arena.weights,
            layout=self._layout(located.lookup.layout, tables),
            indices=torch.from_numpy(slots),
        )
        located.evictions = [region.evictions for region in self.regions]

    def _slots(self, asked: _Asked, *, allocate: bool) -> tuple[Rows, bool]:
        region = self.regions[asked.region]
        table = self._region_of.index(asked.region)
        if table not in self.ids:
            return region.resolve(asked.rows), True
        ids = self.ids[table]
        if allocate:
            rows, new = ids.add(asked.rows)
            if region.files[0].rows < ids.file.rows:
                region.files[0].grow(ids.file.rows)
            region.extend()
            ids.touch(rows)
            return region.resolve(rows, new, self.initial_records(table, asked.rows[new])), True
        rows = ids.find(asked.rows)
        known = rows >= 0
        slots = np.empty(len(rows), np.int64)
        slots[known] = region.resolve(rows[known])
        if not known.all():
            lent = region.borrow(int((~known).sum()))
            region._fill(lent, self.initial_records(table, asked.rows[~known]))
            slots[~known] = lent
        return slots, bool(known.all())

    def initial_records(self, table: int, rows: Rows) -> Bytes:
        """Records that rows, or ids, of a table begin with."""
        return self.forms[table].initial(lambda numbers: self.initial_rows(table, numbers), rows)

    def _layout(self, layout: Tensor, tables: Sequence[int]) -> Tensor:
        arena, places = self.arena, [self._region_of[table] for table in tables]
        facts = [
            [arena.elements[place], self.regions[place].capacity, self.regions[place].form.columns, arena.slots[place]]
            for place in places
        ]
        made = torch.tensor(facts, dtype=torch.int64).reshape(-1, 4).t()
        return torch.cat([made, layout[4:]]).contiguous()

    def states(self, tables: Sequence[int]) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """What the optimizer keeps of cached rows, where each feature's begins in it, and in numbers of rows."""
        places = [self._region_of[table] for table in tables]
        elements = torch.tensor([self.arena.elements[place] for place in places], dtype=torch.int64)
        slots = torch.tensor([self.arena.slots[place] for place in places], dtype=torch.int64)
        return self.arena.states, [elements if whole else slots for whole in self._by_element], slots

    def mark(self, located: Located) -> None:
        """Note that the rows of a batch are trained."""
        for asked, found in zip(located.asked, self._slots_of(located), strict=True):
            self.regions[asked.region].dirty[found] = True

    def _slots_of(self, located: Located) -> list[Rows]:
        slots = located.lookup.indices.numpy()
        return [np.concatenate([slots[mine] for mine in asked.slices]) for asked in located.asked]

    # ----- tables -----------------------------------------------------------------------------------------------------

    def numbers(self, table: int, rows: Rows) -> Rows:
        """Rows of a table as its region counts them."""
        return rows + self._base_of[table]

    def read(self, table: int, rows: Rows) -> Bytes:
        """Records as they are now."""
        with self.lock:
            return self.region(table).read(self.numbers(table, rows))

    def read_part(self, table: int, rows: Rows, part: int) -> Tensor:
        """Rows (part 0) or states of the optimizer as they are now: (len(rows), numbers)."""
        return self.forms[table].unpack(self.read(table, rows), part)

    def write_part(self, table: int, rows: Rows, part: int, values: Tensor) -> None:
        """Overwrite rows (part 0) or states of the optimizer, of each row once."""
        with self.lock:
            region, numbers = self.region(table), self.numbers(table, rows)
            records = region.read(numbers)
            self.forms[table].pack(records, part, values)
            region.write(numbers, records)

    def rows_of(self, table: int, ids: Rows) -> Rows:
        """The rows of ids, each once; of a virtual table, rows are made for those that have none."""
        if table not in self.ids:
            return ids.astype(np.int64)
        region, known = self.region(table), self.ids[table]
        rows, new = known.add(ids)
        region.files[0].grow(known.file.rows)
        region.extend()
        if new.any():
            region.write(rows[new], self.initial_records(table, ids[new]))
        known.touch(rows[new])
        return rows

    def read_ids(self, table: int, ids: Rows, part: int) -> Tensor:
        """Rows (part 0) or states of ids; those that have none read as they would begin."""
        if table not in self.ids:
            return self.read_part(table, ids.astype(np.int64), part)
        with self.lock:
            rows = self.ids[table].find(ids)
            known = rows >= 0
            records = np.empty((len(ids), self.forms[table].record_bytes), np.uint8)
            records[known] = self.region(table).read(rows[known])
            records[~known] = self.initial_records(table, ids[~known])
        return self.forms[table].unpack(records, part)

    def flush(self) -> None:
        """Write what is in memory alone to the files; it is not a checkpoint yet."""
        with self.lock:
            for region in self.regions:
                region.flush()
            for ids in self.ids.values():
                ids.flush()

    def clear(self) -> None:
        """Write back, and empty the cache."""
        with self.lock:
            self.flush()
            for region in self.regions:
                region.clear()

    def remove(self, table: int, rows: Rows) -> None:
        """Rows of a virtual table leave it."""
        with self.lock:
            self.region(table).drop(rows)
            self.ids[table].remove(rows)

    def commit(self, note: bytes) -> None:
        """Make a checkpoint."""
        with self.lock:
            self.flush()
            self.store.commit(note)

    def close(self) -> None:
        """Let go of the files."""
        with self.lock:
            self.store.close()


class _Initial:
    def __init__(self, tables: TieredTables, table: int) -> None:
        self._tables, self._table = tables, table

    def __call__(self, rows: Rows) -> Bytes:
        return self._tables.initial_records(self._table, rows)


def _no_ids(rows: Rows) -> Bytes:
    return np.zeros((len(rows), RECORD.itemsize), np.uint8)

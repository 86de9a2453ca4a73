"""Rows that batches looked up, by table and batch."""

from __future__ import annotations

import abc
from collections.abc import Iterable

import torch
from torch import Tensor

from flambeau.rec.distributed.model_tracker.types import IndexedLookup, RawIndexedLookup, UniqueRows, UpdateMode
from flambeau.rec.errors import OptionError

__all__ = ["DeltaStore", "DeltaStoreTrec", "RawIdTrackerStore"]


def unique_rows(lookups: Iterable[IndexedLookup], mode: UpdateMode) -> UniqueRows:
    """The rows of some look-ups, each once, in order of their ids.

    Args:
        lookups: oldest first.
        mode: which state counts of a row that was looked up several times.
    """
    parts = list(lookups)
    ids, places = torch.cat([one.ids for one in parts]).unique(return_inverse=True)
    if mode is UpdateMode.NONE:
        return UniqueRows(ids, None)
    states = torch.cat([_given(one) for one in parts])
    first = mode is UpdateMode.FIRST
    at = torch.arange(len(places), device=places.device)
    chosen = torch.full((len(ids),), len(places) if first else -1, device=places.device)
    chosen.scatter_reduce_(0, places, at, "amin" if first else "amax")
    return UniqueRows(ids, states[chosen])


def _given(one: IndexedLookup) -> Tensor:
    if one.states is None or len(one.states) != len(one.ids):
        count = "none" if one.states is None else len(one.states)
        raise OptionError(
            f"batch {one.batch_idx} has states of {count} rows, expected {len(one.ids)}, one for each id."
        )
    return one.states


class DeltaStore(abc.ABC):
    """Keeps rows that batches looked up.

    Args:
        updateMode: which state counts of a row that was looked up several times.
    """

    def __init__(self, updateMode: UpdateMode = UpdateMode.NONE) -> None:
        self.updateMode = updateMode

    @abc.abstractmethod
    def append(
        self,
        batch_idx: int,
        fqn: str,
        ids: Tensor,
        states: Tensor | None = None,
        raw_ids: Tensor | None = None,
        runtime_meta: Tensor | None = None,
    ) -> None:
        """Keep rows of a table.

        Args:
            batch_idx: number of the batch that looked them up; not below that of the one before.
            fqn: path of the table.
            ids: (L,), the rows.
            states: (L, ...), what to keep of each.
            raw_ids: (L,), ids that were mapped to them.
            runtime_meta: (L, ...), what came with those.
        """

    @abc.abstractmethod
    def delete(self, up_to_idx: int | None = None) -> None:
        """Forget the rows of batches before one; of all batches by default."""

    @abc.abstractmethod
    def compact(self, start_idx: int, end_idx: int) -> None:
        """Keep each row of some batches once.

        Args:
            start_idx: the first batch.
            end_idx: the batch behind the last one.
        """

    @abc.abstractmethod
    def get_unique(self, from_idx: int = 0) -> dict[str, UniqueRows]:
        """Of each table with rows of a batch or a later one, these rows, each once."""


class DeltaStoreTrec(DeltaStore):
    """Keeps rows, and states of them, in memory.

    Args:
        updateMode: which state counts of a row that was looked up several times.
    """

    def __init__(self, updateMode: UpdateMode = UpdateMode.NONE) -> None:
        super().__init__(updateMode)
        self.per_fqn_lookups: dict[str, list[IndexedLookup]] = {}

    def append(
        self,
        batch_idx: int,
        fqn: str,
        ids: Tensor,
        states: Tensor | None = None,
        raw_ids: Tensor | None = None,
        runtime_meta: Tensor | None = None,
    ) -> None:
        """Keep rows of a table; see `DeltaStore.append`. Ids before their mapping are not kept."""
        self.per_fqn_lookups.setdefault(fqn, []).append(IndexedLookup(batch_idx, ids, states))

    def delete(self, up_to_idx: int | None = None) -> None:
        """Forget the rows of batches before one; of all batches by default."""
        if up_to_idx is None:
            self.per_fqn_lookups.clear()
            return
        for fqn, lookups in list(self.per_fqn_lookups.items()):
            kept = [one for one in lookups if one.batch_idx >= up_to_idx]
            if kept:
                self.per_fqn_lookups[fqn] = kept
            else:
                del self.per_fqn_lookups[fqn]

    def compact(self, start_idx: int, end_idx: int) -> None:
        """Keep each row of some batches once; see `DeltaStore.compact`."""
        if start_idx > end_idx:
            raise OptionError(f"start_idx is {start_idx}, behind end_idx, {end_idx}.")
        for fqn, lookups in self.per_fqn_lookups.items():
            before = [one for one in lookups if one.batch_idx < start_idx]
            within = [one for one in lookups if start_idx <= one.batch_idx < end_idx]
            behind = [one for one in lookups if one.batch_idx >= end_idx]
            if len(within) > 1 or (within and not within[0].compact):
                rows = unique_rows(within, self.updateMode)
                within = [IndexedLookup(within[-1].batch_idx, rows.ids, rows.states, compact=True)]
            self.per_fqn_lookups[fqn] = [*before, *within, *behind]

    def get_indexed_lookups(self, start_idx: int, end_idx: int) -> dict[str, list[IndexedLookup]]:
        """Of each table, the look-ups of some batches.

        Args:
            start_idx: the first batch.
            end_idx: the batch behind the last one.
        """
        return {
            fqn: [one for one in lookups if start_idx <= one.batch_idx < end_idx]
            for fqn, lookups in self.per_fqn_lookups.items()
        }

    def get_unique(self, from_idx: int = 0) -> dict[str, UniqueRows]:
        """Of each table with rows of a batch or a later one, these rows, each once."""
        found = {}
        for fqn, lookups in self.per_fqn_lookups.items():
            later = [one for one in lookups if one.batch_idx >= from_idx]
            if later:
                found[fqn] = unique_rows(later, self.updateMode)
        return found


class RawIdTrackerStore(DeltaStore):
    """Keeps rows together with the ids that were mapped to them.

    Args:
        updateMode: accepted for upstream's sake; states are not kept.
    """

    def __init__(self, updateMode: UpdateMode = UpdateMode.NONE) -> None:
        super().__init__(updateMode)
        self.per_fqn_lookups: dict[str, list[RawIndexedLookup]] = {}

    def append(
        self,
        batch_idx: int,
        fqn: str,
        ids: Tensor,
        states: Tensor | None = None,
        raw_ids: Tensor | None = None,
        runtime_meta: Tensor | None = None,
    ) -> None:
        """Keep rows of a table; see `DeltaStore.append`."""
        self.per_fqn_lookups.setdefault(fqn, []).append(RawIndexedLookup(batch_idx, ids, raw_ids, runtime_meta))

    def delete(self, up_to_idx: int | None = None) -> None:
        """Forget the rows of batches before one; of all batches by default."""
        if up_to_idx is None:
            self.per_fqn_lookups.clear()
            return
        for fqn, lookups in list(self.per_fqn_lookups.items()):
            self.per_fqn_lookups[fqn] = [one for one in lookups if one.batch_idx >= up_to_idx]
            if not self.per_fqn_lookups[fqn]:
                del self.per_fqn_lookups[fqn]

    def compact(self, start_idx: int, end_idx: int) -> None:
        """Nothing is put together: which id came when is what is kept."""

    def get_indexed_lookups(self, start_idx: int, end_idx: int) -> dict[str, list[RawIndexedLookup]]:
        """Of each table, the look-ups of some batches.

        Args:
            start_idx: the first batch.
            end_idx: the batch behind the last one.
        """
        return {
            fqn: [one for one in lookups if start_idx <= one.batch_idx < end_idx]
            for fqn, lookups in self.per_fqn_lookups.items()
        }

    def get_unique(self, from_idx: int = 0) -> dict[str, UniqueRows]:
        """Of each table with rows of a batch or a later one, these rows, each once."""
        found = {}
        for fqn, lookups in self.per_fqn_lookups.items():
            later = [one.ids for one in lookups if one.batch_idx >= from_idx]
            if later:
                found[fqn] = UniqueRows(torch.cat(later).unique(), None)
        return found

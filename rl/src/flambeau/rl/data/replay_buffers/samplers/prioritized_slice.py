"""Draws of slices whose first rows are drawn by priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers.samplers.base import no_items
from flambeau.rl.data.replay_buffers.samplers.prioritized import PrioritizedSampler
from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau.rl.data.replay_buffers.samplers._trajectories import TrajectoryIndex
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["PrioritizedSliceSampler"]


class PrioritizedSliceSampler(SliceSampler, PrioritizedSampler):
    """Draws the first rows of slices as `PrioritizedSampler` draws items, of those that leave room for a whole slice.

    A second tree holds the priorities of these rows alone; it is kept up while rows are written and weighed, so that a
    draw does not look at the storage. Each row of a slice has the first row's "priority_weight".

    Args:
        max_capacity: how many places the storage has.
        alpha: see `PrioritizedSampler`.
        beta: see `PrioritizedSampler`.
        eps: see `PrioritizedSampler`.
        dtype: see `PrioritizedSampler`.
        reduction: see `PrioritizedSampler`.
        num_slices: see `SliceSampler`.
        slice_len: see `SliceSampler`.
        end_key: see `SliceSampler`.
        end_keys: see `SliceSampler`.
        traj_key: see `SliceSampler`.
        ends: see `SliceSampler`.
        trajectories: see `SliceSampler`.
        cache_values: see `SliceSampler`.
        truncated_key: see `SliceSampler`.
        init_key: see `SliceSampler`.
        strict_length: see `SliceSampler`; without it, a trajectory that is too short gives all its rows.
        compile: accepted for code written for upstream.
        span: how many rows a slice may lack at its trajectory's end (True: all but one); slices begin in their
            trajectory in any case.
        max_priority_within_buffer: see `PrioritizedSampler`.

    Raises:
        TypeError, RuntimeError, ValueError: as `SliceSampler` and `PrioritizedSampler`.
    """

    _draws_sequences: ClassVar[bool] = True

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: Any = None,
        end_keys: Sequence[Any] | None = None,
        traj_key: Any = None,
        ends: Tensor | None = None,
        trajectories: Tensor | None = None,
        cache_values: bool = False,
        truncated_key: Any = ("next", "truncated"),
        init_key: Any = "is_init",
        strict_length: bool = True,
        compile: bool | dict[str, Any] = False,
        span: Any = False,
        max_priority_within_buffer: bool = False,
    ) -> None:
        SliceSampler.__init__(
            self,
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            ends=ends,
            trajectories=trajectories,
            cache_values=cache_values,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
            compile=compile,
            span=span,
        )
        PrioritizedSampler.__init__(self, max_capacity, alpha, beta, eps, dtype, reduction, max_priority_within_buffer)

    def _init(self) -> None:
        PrioritizedSampler._init(self)
        self._start_tree = type(self._sum_tree)(self._max_capacity, self._device)
        self._allowed = np.zeros(self._max_capacity, bool)
        # The index and slice length that `_allowed` was made for, and how far.
        self._made_for: Any = None
        self._made_to = self._made_open = 0

    # Drawing

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw slices: places, "priority_weight" (rows,) and what marks the slices' ends.

        Raises:
            RuntimeError: the storage is empty, a batch cannot be made of slices, no trajectory is long enough, no item
                has a priority above 0, or the storage holds no tensordicts.
        """
        length, count = self._slices(batch_size)
        if not len(storage):
            raise no_items()
        index, _ = self._candidates(storage, length)
        self._keep_up(storage, index, length)
        places, weights = self._draw(self._start_tree, len(storage), count)
        columns, starts, lengths, offsets = self._trajectories_of(index, places.cpu().numpy())
        picked, found = self._rows_of(storage, index, columns, starts, lengths, offsets, length)
        taken = np.minimum(length, lengths - offsets)
        return picked, {"priority_weight": weights.repeat_interleave(torch.from_numpy(taken)), **found}

    def _trajectories_of(self, index: TrajectoryIndex, places: Any) -> tuple[Any, Any, Any, Any]:
        """Column, first row and length of the trajectories that places are in, and how far in they are."""
        width = len(index.columns)
        columns, rows = places % width, places // width
        # Rows are numbered on and on: the one at a place is the youngest of its numbers that was written.
        rows = index.next_row - 1 - (index.next_row - 1 - rows) % index.size
        starts, stops = np.empty_like(rows), np.empty_like(rows)
        for at in np.unique(columns):
            chosen, column = columns == at, index.columns[at]
            every_start = np.append(column.starts, column.open_since)
            every_stop = np.append(column.stops, index.next_row - 1)
            number = np.searchsorted(every_stop, rows[chosen])
            starts[chosen], stops[chosen] = every_start[number], every_stop[number]
        return columns, starts, stops - starts + 1, rows - starts

    # Which rows a slice may begin with

    def _keep_up(self, storage: Storage, index: TrajectoryIndex, length: int) -> None:
        key = (index, length)
        known = self._made_for is not None and self._made_for[0] is index and self._made_for[1] == length
        if not known or storage.publication is not None or index.next_row - self._made_to >= index.size:
            since = index.oldest
            self._allowed[:] = False
        elif index.next_row == self._made_to:
            return
        else:
            since = max(self._made_open, index.oldest)
        width = len(index.columns)
        rows = np.arange(since, index.next_row)
        allowed = np.zeros((len(rows), width), bool)
        for at, column in enumerate(index.columns):
            first = int(np.searchsorted(column.stops, since))
            starts = np.append(column.starts[first:], column.open_since)
            stops = np.append(column.stops[first:], index.next_row - 1)
            self._allow(allowed[:, at], starts - since, stops - since, length)
        self._write(rows, allowed, index.size, width)
        if since > index.oldest:  # of the oldest trajectory, rows may have gone
            oldest = np.arange(index.oldest, min(index.oldest + length, since))
            allowed = np.zeros((len(oldest), width), bool)
            for at, column in enumerate(index.columns):
                starts = column.starts[: len(oldest)] - index.oldest
                stops = column.stops[: len(oldest)] - index.oldest
                self._allow(allowed[:, at], starts, stops, length)
            self._write(oldest, allowed, index.size, width)
        self._made_for, self._made_to = key, index.next_row
        self._made_open = min(column.open_since for column in index.columns)

    def _allow(self, allowed: Any, starts: Any, stops: Any, length: int) -> None:
        """Mark the rows that slices may begin with, of trajectories from starts to stops."""
        right = length - 1 if self.span[1] is True else int(self.span[1])
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            last = min(stop - length + 1 + right, stop)
            if stop - start + 1 < length and not self.span[1]:
                last = start if not self.strict_length else start - 1
            if last >= start:
                allowed[max(start, 0) : max(last + 1, 0)] = True

    def _write(self, rows: Any, allowed: Any, size: int, width: int) -> None:
        places = ((rows % size)[:, None] * width + np.arange(width)).reshape(-1)
        self._allowed[places] = allowed.reshape(-1)
        index = torch.from_numpy(places)
        self._start_tree[index] = self._sum_tree[index] * torch.from_numpy(self._allowed[places])

    def _set(self, index: Tensor, mass: Any) -> None:
        PrioritizedSampler._set(self, index, mass)
        allowed = torch.from_numpy(self._allowed[index.cpu().numpy()])
        self._start_tree[index] = self._sum_tree[index] * allowed

    def mark_update(self, index: Any, *, storage: Storage | None = None) -> None:
        """Items at places were changed: they get the highest priority, and ends of trajectories are looked up anew."""
        PrioritizedSampler.mark_update(self, index, storage=storage)
        SliceSampler.mark_update(self, index, storage=storage)

    # State

    def _empty(self) -> None:
        PrioritizedSampler._empty(self)
        SliceSampler.mark_update(self, None)

    def __getstate__(self) -> dict[str, Any]:
        state = SliceSampler.__getstate__(self)
        state["_made_for"] = None
        return state

    def state_dict(self) -> dict[str, Any]:
        """The trees, the exponents and the highest priority."""
        return PrioritizedSampler.state_dict(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        PrioritizedSampler.load_state_dict(self, state_dict)
        self._made_for = None
        SliceSampler.mark_update(self, None)

    def dumps(self, path: Any) -> None:
        """Write the state below a folder."""
        PrioritizedSampler.dumps(self, path)

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        PrioritizedSampler.loads(self, path)
        self._made_for = None
        SliceSampler.mark_update(self, None)

    def __repr__(self) -> str:
        return PrioritizedSampler.__repr__(self)

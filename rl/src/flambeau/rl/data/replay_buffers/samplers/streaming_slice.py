"""Slices in the order in which they were written, then draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flambeau.rl.data.replay_buffers.samplers.base import dump_json, load_json, no_items
from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau.rl.data.replay_buffers.samplers._trajectories import Pieces, TrajectoryIndex
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["StreamingSliceSampler"]


class StreamingSliceSampler(SliceSampler):
    """Gives each slice of what is written once, oldest first; what a batch lacks is drawn as `SliceSampler` draws.

    Trajectories are cut from their beginning on into slices of `slice_len` rows; fewer rows at a trajectory's end, and
    rows that were written over before their turn, come in draws only. So every batch has what is new in it, however
    large the buffer is.

    Args:
        slice_len: how many rows a slice has.
        end_key: see `SliceSampler`.
        end_keys: see `SliceSampler`.
        traj_key: see `SliceSampler`.
        cache_values: see `SliceSampler`.
        truncated_key: see `SliceSampler`.
        init_key: see `SliceSampler`.
        strict_length: see `SliceSampler`.
        pad_output: see `SliceSampler`.
        compile: accepted for code written for upstream.
        span: see `SliceSampler`.
        use_gpu: accepted for code written for upstream.

    Raises:
        TypeError, RuntimeError, ValueError: as `SliceSampler`.
    """

    def __init__(
        self,
        *,
        slice_len: int,
        end_key: Any = None,
        end_keys: Sequence[Any] | None = None,
        traj_key: Any = None,
        cache_values: bool = False,
        truncated_key: Any = ("next", "truncated"),
        init_key: Any = "is_init",
        strict_length: bool = True,
        pad_output: bool = False,
        compile: bool | dict[str, Any] = False,
        span: Any = False,
        use_gpu: Any = False,
    ) -> None:
        super().__init__(
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            cache_values=cache_values,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
            pad_output=pad_output,
            compile=compile,
            span=span,
            use_gpu=use_gpu,
        )
        self._fresh = 0  # of the rows that were written last, how many were in no slice yet

    def add(self, index: Any) -> None:
        """An item was written at a place: it waits for its turn."""
        self._fresh += 1

    def extend(self, index: Any) -> None:
        """Items were written at places: they wait for their turn."""
        self._fresh += len(index)

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Take slices: places, and what marks their ends.

        Raises:
            RuntimeError: the storage is empty or has several dimensions of places, a batch cannot be made of slices, no
                trajectory is long enough, or the storage holds no tensordicts.
        """
        if storage.ndim > 1:
            raise RuntimeError(
                f"A StreamingSliceSampler follows one stream of rows; the storage has {storage.ndim} dimensions of "
                "places. Use one buffer for each environment, or a SliceSampler."
            )
        length, count = self._slices(batch_size)
        if not len(storage):
            raise no_items()
        index = self._index(storage)
        starts, lengths, offsets = self._oldest_fresh(index, length, count)
        lacking = count - len(starts)
        if lacking:
            index, found = self._candidates(storage, length)
            drawn = torch.randint(found.count, (lacking,), generator=self._rng).numpy()
            _, more_starts, more_lengths = found.at(drawn)
            starts, lengths = np.concatenate((starts, more_starts)), np.concatenate((lengths, more_lengths))
            offsets = np.concatenate((offsets, self._offsets(more_lengths, length)))
        return self._rows_of(storage, index, np.zeros_like(starts), starts, lengths, offsets, length)

    def _oldest_fresh(self, index: TrajectoryIndex, length: int, count: int) -> tuple[Any, Any, Any]:
        """Up to `count` slices that were not given yet: where their trajectories start, their lengths, offsets."""
        column = index.columns[0]
        at = max(index.next_row - self._fresh, index.oldest)
        found: list[tuple[int, int, int]] = []
        while len(found) < count:
            start, stop = _trajectory_at(column, at, index.next_row)
            if at + length <= stop:
                found.append((start, stop - start, at - start))
                at += length
            elif stop == index.next_row:  # goes on; the rest waits for more
                break
            else:
                at = stop
        self._fresh = index.next_row - at
        slices = np.array(found, np.int64).reshape(-1, 3)
        return slices[:, 0], slices[:, 1], slices[:, 2]

    def _empty(self) -> None:
        super()._empty()
        self._fresh = 0

    def state_dict(self) -> dict[str, Any]:
        """How many of the last rows wait for their turn."""
        return {"_fresh": self._fresh}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        self._fresh = int(state_dict["_fresh"])

    def dumps(self, path: Path) -> None:
        """Write the state below a folder, as JSON."""
        dump_json(path, self.state_dict())

    def loads(self, path: Path) -> None:
        """Read the state from a folder that `dumps` wrote."""
        self.load_state_dict(load_json(path))


def _trajectory_at(column: Pieces, row: int, end: int) -> tuple[int, int]:
    """First row of the trajectory that a row is in, and the row behind its last; `end` for one that goes on."""
    at = int(np.searchsorted(column.stops, row))
    if at < len(column):
        return max(int(column.starts[at]), 0), int(column.stops[at]) + 1
    return column.open_since, end

"""Draws of slices of trajectories."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers.samplers._fragments import Fragments
from flambeau.rl.data.replay_buffers.samplers._marks import Marks
from flambeau.rl.data.replay_buffers.samplers._trajectories import Candidates, TrajectoryIndex
from flambeau.rl.data.replay_buffers.samplers.base import Sampler, no_items

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["SliceSampler"]

_DONE = ("next", "done")
_WAIT_S = 50e-6
_AUTOMATIC = ("episode", ("collector", "traj_ids"))


class SliceSampler(Sampler):
    """Draws trajectories uniformly, with replacement, and from each a slice whose start is uniform as well.

    A batch is the slices one behind another. It comes with `truncated_key`, true at the last row of each slice, and
    with "done" and "terminated" beside it. Where trajectories begin and end is kept up while rows are written: how
    long a draw takes does not depend on how many rows there are.

    Args:
        num_slices: how many slices make up a batch, whose size must be divisible by it.
        slice_len: how many rows a slice has; exactly one of the two must be given.
        end_key: the entry that is true at a trajectory's last row; by default ("next", "done").
        end_keys: several such entries, of which any ends a trajectory; those that are not stored are left out.
        traj_key: the entry that numbers trajectories; by default "episode" or ("collector", "traj_ids") if one of them
            is stored and no end key is given.
        step_key: with `fragmented`, the entry that numbers a trajectory's steps.
        fragmented: whether a trajectory's rows may be stored in any order, told by `traj_key` and `step_key`.
        ends: end flags of all rows, instead of stored ones; needs `cache_values`.
        trajectories: numbers of the trajectories of all rows, instead of stored ones; needs `cache_values`.
        cache_values: accepted for code written for upstream; what is known of stored rows is always kept.
        truncated_key: where the ends of slices are marked; None for nowhere.
        init_key: an entry of "this row begins a trajectory", which is set at the beginning of each slice where the
            storage has it; None leaves it.
        strict_length: whether trajectories that are too short are left out; else they make shorter slices.
        pad_output: without `strict_length`, repeat the last row of a shorter slice; ("collector", "mask") tells.
        compile: accepted for code written for upstream.
        span: whether a slice may begin before its trajectory, or end behind it, by up to so many rows (True: all but
            one), and is cut there; a pair for both sides.
        use_gpu: accepted for code written for upstream.

    Raises:
        TypeError: not exactly one of `num_slices` and `slice_len`.
        RuntimeError: arguments that exclude one another.
        ValueError: `pad_output` with `strict_length`.
    """

    _draws_sequences: ClassVar[bool] = True

    def __init__(
        self,
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: Any = None,
        end_keys: Sequence[Any] | None = None,
        traj_key: Any = None,
        step_key: Any = "step_count",
        fragmented: bool = False,
        ends: Tensor | None = None,
        trajectories: Tensor | None = None,
        cache_values: bool = False,
        truncated_key: Any = ("next", "truncated"),
        init_key: Any = "is_init",
        strict_length: bool = True,
        pad_output: bool = False,
        compile: bool | dict[str, Any] = False,
        span: Any = False,
        use_gpu: Any = False,
    ) -> None:
        if (num_slices is None) == (slice_len is None):
            raise TypeError(
                "Either num_slices or slice_len must be given, and not both. "
                f"Got num_slices={num_slices} and slice_len={slice_len}."
            )
        for name, value in (("num_slices", num_slices), ("slice_len", slice_len)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1.")
        if end_key is not None and end_keys is not None:
            raise RuntimeError("end_key and end_keys exclude one another: give one key, or all that end a trajectory.")
        if pad_output and strict_length:
            raise ValueError("pad_output=True has no effect with strict_length=True, which leaves short slices out.")
        given = [name for name, value in (("ends", ends), ("trajectories", trajectories)) if value is not None]
        keyed = end_key is not None or end_keys is not None or traj_key is not None
        if given and keyed:
            raise RuntimeError(
                f"`{given[0]}` says where trajectories end already; leave out `end_key`, `end_keys` and `traj_key`."
            )
        if len(given) > 1:
            raise RuntimeError("`ends` and `trajectories` were both given; one of them is enough.")
        if given and not cache_values:
            raise RuntimeError(f"`{given[0]}` is given once and for all, which needs `cache_values=True`.")
        if fragmented and traj_key is None:
            raise RuntimeError(
                "fragmented=True needs traj_key, which tells what trajectory a row belongs to; flags at ends do not."
            )
        if fragmented and span:
            raise NotImplementedError(
                "Slices of fragmented trajectories have all their rows: leave `span` out, or `fragmented`."
            )
        self.num_slices, self.slice_len = num_slices, slice_len
        self.step_key, self.fragmented = step_key, fragmented
        self._traj_key_auto = not given and not keyed
        self.end_keys = None if end_keys is None else list(end_keys)
        self.end_key = None if given or end_keys is not None else (_DONE if end_key is None else end_key)
        self.traj_key = traj_key
        self.truncated_key = truncated_key
        self.init_key = init_key
        self.cache_values = cache_values
        self.strict_length, self.pad_output = strict_length, pad_output
        self.compile, self.use_gpu = compile, use_gpu
        self.span = tuple(span) if isinstance(span, (tuple, list)) else (span, span)
        self._ends, self._trajectories = ends, trajectories
        self._marks: Marks | None = None
        self._fragments: Fragments | None = None

    # Drawing

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw slices: places, and what marks their ends.

        Raises:
            RuntimeError: the storage is empty, a batch cannot be made of slices, no trajectory is long enough, or the
                storage holds no tensordicts.
        """
        length, count = self._slices(batch_size)
        if not len(storage):
            raise no_items()
        if self.fragmented:
            return self._sample_fragmented(storage, length, count)
        index, found = self._candidates(storage, length)
        drawn = torch.randint(found.count, (count,), generator=self._rng).numpy()
        columns, starts, lengths = found.at(drawn)
        return self._cut(storage, index, columns, starts, lengths, length)

    def _candidates(self, storage: Storage, length: int) -> tuple[TrajectoryIndex, Candidates]:
        """The trajectories, and those of them that slices of some length can be drawn from."""
        while True:
            index = self._index(storage)
            found = index.candidates(length if self.strict_length else 1)
            if found.count:
                return index, found
            if self._marks is None or not self._marks.lags:
                raise self._too_short(index, length)
            time.sleep(_WAIT_S)  # a process that is about to write is holding back what others wrote behind it

    def _slices(self, batch_size: int) -> tuple[int, int]:
        """How long a slice is, and how many there are."""
        if self.num_slices is not None:
            if batch_size % self.num_slices:
                raise RuntimeError(
                    "Slices of one length cannot fill the batch: "
                    f"batch_size={batch_size} and num_slices={self.num_slices}."
                )
            return batch_size // self.num_slices, self.num_slices
        assert self.slice_len is not None
        if batch_size % self.slice_len:
            raise RuntimeError(
                "A batch holds whole slices only, and these do not fill it: "
                f"batch_size={batch_size} and slice_len={self.slice_len}."
            )
        return self.slice_len, batch_size // self.slice_len

    def _too_short(self, index: Any, length: int) -> RuntimeError:
        shortest, longest = index.lengths()
        return RuntimeError(
            "No trajectory is as long as a slice "
            f"({length} rows; there are {shortest} to {longest}). Take shorter slices, or strict_length=False."
        )

    def _offsets(self, lengths: Any, length: int) -> Any:
        """Where in trajectories slices begin, drawn uniformly; below 0 where `span` lets them."""
        left, right = (length - 1 if side is True else int(side) for side in self.span)
        room = np.maximum(lengths - length, 0) + 1 + left + right
        drawn = torch.rand(len(lengths), generator=self._rng)
        return (drawn * torch.from_numpy(room)).floor().to(torch.int64).numpy() - left

    def _cut(
        self, storage: Storage, index: TrajectoryIndex, columns: Any, starts: Any, lengths: Any, length: int
    ) -> tuple[Any, dict[Any, Any]]:
        """Slices of trajectories, each from a start that is drawn."""
        return self._rows_of(storage, index, columns, starts, lengths, self._offsets(lengths, length), length)

    def _rows_of(
        self,
        storage: Storage,
        index: TrajectoryIndex,
        columns: Any,
        starts: Any,
        lengths: Any,
        offsets: Any,
        length: int,
    ) -> tuple[Any, dict[Any, Any]]:
        rows, taken, last, first, info = self._lay_out(starts, lengths, offsets, length)
        places = torch.from_numpy(rows % index.size)
        picked: tuple[Tensor, ...] = (places,)
        if storage.ndim > 1:
            shape = storage.shape
            assert shape is not None
            owners = np.repeat(columns, taken)
            picked = (places, *torch.unravel_index(torch.from_numpy(owners), tuple(shape[1:])))
        return picked, self._info(storage, picked, last, first, info)

    def _lay_out(
        self, starts: Any, lengths: Any, offsets: Any, length: int
    ) -> tuple[Any, Any, Tensor, Tensor, dict[Any, Any]]:
        """Rows of slices one behind another, how many each has, which are last and first, and a mask of padding."""
        steps = np.arange(length)
        begin = np.maximum(offsets, 0)
        taken = np.minimum(offsets + length, lengths) - begin
        first = (starts + begin)[:, None]
        if self.pad_output or (taken == length).all():
            used = taken[:, None] - 1
            rows = first + (np.minimum(steps, used) if self.pad_output else steps)
            last = torch.from_numpy((steps == used).reshape(-1))
            begun = torch.zeros(rows.size, dtype=torch.bool)
            begun[::length] = True
            info = {"mask": torch.from_numpy((steps <= used).reshape(-1))} if self.pad_output else {}
            return rows.reshape(-1), np.full_like(taken, length), last, begun, info
        kept = steps < taken[:, None]
        last = torch.from_numpy((steps == taken[:, None] - 1)[kept])
        begun = torch.from_numpy(np.broadcast_to(steps == 0, kept.shape)[kept])
        return (first + steps)[kept], taken, last, begun, {}

    def _info(
        self, storage: Storage, picked: tuple[Tensor, ...], last: Tensor, first: Tensor, found: dict[Any, Any]
    ) -> dict[Any, Any]:
        """What marks the slices' ends and beginnings, in upstream's order."""
        mask = found.pop("mask", None)
        info: dict[Any, Any] = {}
        if self.truncated_key is not None:
            done_key, terminated_key = _beside(self.truncated_key, "done"), _beside(self.truncated_key, "terminated")
            truncated = last.unsqueeze(-1)
            done = self._entry(storage, done_key, picked)
            if done is None:
                done = truncated.clone()
            else:
                # Marks have the shape of the stored flags.
                if done.shape != truncated.shape:
                    truncated = truncated.reshape(-1, *[1] * (done.ndim - 1)).expand(done.shape).clone()
                done = done | truncated
            terminated = self._entry(storage, terminated_key, picked)
            info[self.truncated_key] = truncated
            info[done_key] = done
            info[terminated_key] = torch.zeros_like(truncated) if terminated is None else terminated
        if self.init_key is not None:
            begun = self._entry(storage, self.init_key, picked)
            if begun is not None:
                info[self.init_key] = begun | first.reshape(-1, *[1] * (begun.ndim - 1))
        if mask is not None:
            info["collector", "mask"] = mask
        return info

    def _entry(self, storage: Storage, key: Any, picked: tuple[Tensor, ...]) -> Tensor | None:
        """Rows of one entry of what is stored."""
        stored = _collection(storage)
        value = None if stored is None else stored.get(key, None)
        if not isinstance(value, Tensor):
            return None
        found = value.as_subclass(Tensor)[picked if len(picked) > 1 else picked[0]]
        return found.cpu()

    def _sample_fragmented(self, storage: Storage, length: int, count: int) -> tuple[Any, dict[Any, Any]]:
        if storage.ndim > 1:
            raise NotImplementedError("fragmented=True is for storages with one dimension of places.")
        if self._fragments is None:
            self._fragments = Fragments(self.traj_key, self.step_key)
        runs = self._fragments.runs(storage)
        enough = runs.sizes >= (length if self.strict_length else 1)
        starts, lengths = runs.starts[enough], runs.sizes[enough]
        if not len(starts):
            raise self._too_short(runs, length)
        drawn = torch.randint(len(starts), (count,), generator=self._rng).numpy()
        chosen = lengths[drawn]
        offsets = self._offsets(chosen, length)
        rows, _, last, first, info = self._lay_out(starts[drawn], chosen, offsets, length)
        # Rows of a run stand one behind another in the runs' order, which gives their places.
        rows = (torch.from_numpy(runs.places[rows]),)
        return rows, self._info(storage, rows, last, first, info)

    # Where trajectories are

    def _index(self, storage: Storage) -> TrajectoryIndex:
        """The trajectories as they are stored now."""
        if self._traj_key_auto and self.traj_key is None:
            stored = _collection(storage)
            if stored is not None:
                self.traj_key = next((key for key in _AUTOMATIC if stored.get(key, None) is not None), None)
            self._traj_key_auto = stored is None
        if self._marks is None:
            given = self._ends if self._ends is not None else self._trajectories
            if given is None:
                keys = [self.traj_key] if self.traj_key is not None else self.end_keys or [self.end_key]
                several = self.traj_key is None and self.end_keys is not None
                self._marks = Marks(keys, by_identity=self.traj_key is not None, missing_allowed=several)
            else:
                self._marks = Marks([], by_identity=self._ends is None, given=given)
        return self._marks.index(storage)

    def mark_update(self, index: Any, *, storage: Storage | None = None) -> None:
        """Rows were changed: where trajectories end is looked up anew."""
        if self._marks is not None:
            self._marks.forget()
        if self._fragments is not None:
            self._fragments.forget()

    def _empty(self) -> None:
        self.mark_update(None)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_marks"] = state["_fragments"] = None  # every process looks for itself
        return state

    def __repr__(self) -> str:
        shown = ("num_slices", "slice_len", "end_key", "end_keys", "traj_key", "step_key", "fragmented")
        words = [f"{name}={getattr(self, name)}" for name in (*shown, "truncated_key", "strict_length", "pad_output")]
        return f"{type(self).__name__}({', '.join(words)})"


def _beside(key: Any, name: str) -> Any:
    """The entry of another name next to one."""
    return (*key[:-1], name) if isinstance(key, tuple) else name


def _collection(storage: Any) -> Any:
    """The tensordict that a storage keeps, None where it keeps something else."""
    stored = getattr(storage, "_storage", None)
    if stored is None and hasattr(storage, "_known") and storage._known():
        stored = storage._storage
    return stored if stored is not None and is_tensor_collection(stored) else None

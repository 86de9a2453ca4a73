"""Trajectories in rings of rows, and the forms that stored episodes have on disk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from flambeau.data.tensordict import NonTensorData, TensorDict, is_tensor_collection

__all__ = [
    "DEFAULT_DONE_KEYS",
    "Flat2TED",
    "H5Combine",
    "H5Split",
    "Nested2TED",
    "TED2Flat",
    "TED2Nested",
    "find_start_stop_traj",
    "pin_memory_output",
    "tree_iter",
    "unravel_index",
]

DEFAULT_DONE_KEYS = ("done", "truncated", "terminated")


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Flat places as one index a dimension."""
    return torch.unravel_index(indices, shape)


def tree_iter(pytree: Any) -> Iterator[Any]:
    """The leaves of a pytree; those of a tensordict are its tensors."""
    if is_tensor_collection(pytree) and not isinstance(pytree, Tensor):
        yield from pytree.values(True, True)
        return
    yield from tree_flatten(pytree)[0]


def pin_memory_output(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a buffer's method: what it returns is pinned where the buffer says `pin_memory`."""

    @functools.wraps(fun)
    def pinned(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = fun(self, *args, **kwargs)
        if not self._pin_memory:
            return found
        return tree_map(lambda leaf: leaf.pin_memory() if hasattr(leaf, "pin_memory") else leaf, found)

    return pinned


def find_start_stop_traj(
    *,
    trajectory: Tensor | None = None,
    end: Tensor | None = None,
    at_capacity: bool,
    cursor: int | Tensor | range | None = None,
    device: torch.device | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Where the trajectories in a ring of rows start and stop.

    Args:
        trajectory: (rows, *columns), numbers of trajectories.
        end: (rows, *columns), bool, true at each trajectory's last row; exactly one of the two must be given.
        at_capacity: whether the ring is full, so that a trajectory may go on from its end to its beginning.
        cursor: of a full ring, the place that was written last, or places: the trajectory there ends.
        device: where the results live.

    Returns:
        Start and stop, (trajectories, dimensions) int64 places, ordered by column and then by stop, and lengths
        (trajectories,).

    Raises:
        TypeError: not exactly one of `trajectory` and `end`.
    """
    if (trajectory is None) == (end is None):
        raise TypeError("find_start_stop_traj: give either `trajectory` or `end`.")
    if trajectory is not None:
        following = torch.roll(trajectory, -1, 0)
        ends = trajectory != following
        if not at_capacity:
            ends[-1:] = True
    else:
        assert end is not None
        ends = end.clone().to(torch.bool)
        if not at_capacity:
            ends[-1:] = True
    if ends.ndim == 0:
        raise RuntimeError("find_start_stop_traj: expected at least one dimension, of rows.")
    if at_capacity and cursor is not None:
        last = cursor[-1] if isinstance(cursor, range) else cursor
        last = int(last.reshape(-1)[-1]) if isinstance(last, Tensor) else int(last)
        ends[last] = True
    rows, shape = len(ends), ends.shape[1:]
    by_column = ends.reshape(rows, -1).t()
    # A column without any end is one trajectory, which stops where the rows do.
    by_column = by_column.clone()
    by_column[~by_column.any(1), -1] = True
    column, stop = by_column.nonzero(as_tuple=True)
    start = torch.roll(stop, 1) + 1
    first = torch.ones_like(column, dtype=torch.bool)
    first[1:] = column[1:] != column[:-1]
    counts = torch.bincount(column, minlength=len(by_column))
    lasts = stop[counts.cumsum(0) - 1]
    start[first] = (lasts + 1)[: int(first.sum())] if at_capacity else torch.zeros(int(first.sum()), dtype=stop.dtype)
    start = start % rows
    lengths = (stop - start) % rows + 1
    others = torch.unravel_index(column, shape) if len(shape) else ()
    places = [torch.stack([part, *others], -1).to(device=device) for part in (start, stop)]
    return places[0], places[1], lengths.to(device=device)


class TED2Flat:
    """Episodes without their duplicated observations: `obs` has one more row an episode, in place of `("next", obs)`.

    What is under "next" and not an observation, the rewards and flags, moves to the root; flags of the root, which are
    those of the step before, are left out. Rows come in the order in which they were written. The rows of an episode
    must follow one another: `("next", obs)` of a row is taken from the row behind it.

    Args:
        done_key: the entry that ends episodes.
        shift_key: where the ring's next place is kept, of rows along the first dimension.
        is_full_key: where it is kept whether the ring is full.
        done_keys: names of flags.
        reward_keys: names of rewards.
    """

    def __init__(
        self,
        done_key: Any = ("next", "done"),
        shift_key: str = "shift",
        is_full_key: str = "is_full",
        done_keys: Sequence[Any] = ("done", "truncated", "terminated"),
        reward_keys: Sequence[Any] = ("reward",),
    ) -> None:
        self.done_key, self.shift_key, self.is_full_key = done_key, shift_key, is_full_key
        self.done_keys, self.reward_keys = set(done_keys), set(reward_keys)
        self._shift: int | None = None
        self._is_full: bool | None = None
        self._dims = 1

    @property
    def shift(self) -> int | None:
        """The ring's next place; None for rows that are in order."""
        return self._shift

    @shift.setter
    def shift(self, value: int | None) -> None:
        self._shift = value

    @property
    def is_full(self) -> bool | None:
        """Whether all places are taken; None for yes."""
        return self._is_full

    @is_full.setter
    def is_full(self, value: bool | None) -> None:
        self._is_full = value

    def __call__(self, data: TensorDict, path: Path | None = None) -> TensorDict:
        """The flat form of a storage's content, with all places.

        Args:
            data: [rows, *columns], in the TorchRL Episode Data format.
            path: accepted for code written for upstream.

        Raises:
            KeyError: no flags that end episodes.
        """
        rows = int(data.shape[0])
        full = self._is_full is not False
        shift = rows if self._shift is None else self._shift
        taken = rows if full else shift
        ordered, ends = _ordered(data, shift if full else 0, self._dims, self.done_key, taken)
        flat = TensorDict({}, [])
        flat.set_non_tensor(self.is_full_key, full)
        flat.set_non_tensor(self.shift_key, shift)
        flat.set_non_tensor("_storage_shape", list(data.shape[: self._dims]))
        place, stops = _places(ends)
        following = ordered.get("next", None) if "next" in ordered else TensorDict({}, ordered.batch_size)
        for key, value in ordered.items(True, True):
            names = key if isinstance(key, tuple) else (key,)
            if names[0] == "next":
                if _last(names) in self.done_keys | self.reward_keys or ordered.get(names[1:], None) is None:
                    flat.set(names[1:], value)
            elif _last(names) in self.done_keys:
                continue
            elif following.get(names, None) is None or _last(names) in self.reward_keys:
                flat.set(names, value)
            else:
                made = value.new_zeros((len(place) + len(stops), *value.shape[1:]))
                made[place] = value
                made[place[stops] + 1] = following.get(names)[stops]
                flat.set(names, made)
        return flat


class Flat2TED:
    """The way back from `TED2Flat`; flags of the root are false.

    Args:
        done_key: the entry that ends episodes, in the flat form.
        shift_key: see `TED2Flat`.
        is_full_key: see `TED2Flat`.
        done_keys: see `TED2Flat`.
        reward_keys: see `TED2Flat`.
    """

    def __init__(
        self,
        done_key: Any = "done",
        shift_key: str = "shift",
        is_full_key: str = "is_full",
        done_keys: Sequence[Any] = ("done", "truncated", "terminated"),
        reward_keys: Sequence[Any] = ("reward",),
    ) -> None:
        self.done_key, self.shift_key, self.is_full_key = done_key, shift_key, is_full_key
        self.done_keys, self.reward_keys = set(done_keys), set(reward_keys)

    def __call__(self, data: TensorDict, out: TensorDict | None = None) -> TensorDict:
        """The rows as they stood in the storage.

        Args:
            data: the flat form.
            out: where they are written to; None for new tensors.

        Raises:
            KeyError: an entry that the flat form always has is missing.
        """
        shape = list(_plain(data.get("_storage_shape")))
        shift, full = int(_plain(data.get(self.shift_key))), bool(_plain(data.get(self.is_full_key)))
        rows = int(shape[0])
        columns = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        taken = rows if full else shift
        done = data.get(self.done_key)
        ends = _with_last(done.reshape(rows * columns, -1).any(-1), rows, columns, taken)
        place, stops = _places(ends)
        total = rows * columns
        made = TensorDict({}, [total])
        own = {self.shift_key, self.is_full_key, "_storage_shape"}
        for key, value in data.items(True, True):
            names = key if isinstance(key, tuple) else (key,)
            if names[0] in own or not isinstance(value, Tensor):
                continue
            value = value.as_subclass(Tensor)
            last = _last(names)
            if last in self.done_keys:
                made.set(names, torch.zeros_like(value))
                made.set(("next", *names), value)
            elif last in self.reward_keys:
                made.set(("next", *names), value)
            elif len(value) == total + len(stops):
                made.set(names, value[place])
                behind = value[(place + 1).clamp_max(len(value) - 1)]
                behind[~_taken(rows, columns, taken)] = 0
                made.set(("next", *names), behind)
            else:
                made.set(names, value)
        found = made.reshape(columns, rows).transpose(0, 1).reshape(*shape) if columns > 1 else made
        if full and shift % rows:
            found = found.roll(shift, 0) if hasattr(found, "roll") else found[(torch.arange(rows) - shift) % rows]
        if len(shape) > 1:
            found = found.contiguous()
        return found if out is None else out.update_(found)


class TED2Nested(TED2Flat):
    """Episodes as rows of nested tensors: (episodes, steps of each, ...); see `TED2Flat` for what becomes of entries.

    Args:
        args: see `TED2Flat`.
        kwargs: see `TED2Flat`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def __call__(self, data: TensorDict, path: Path | None = None) -> TensorDict:
        """The nested form of a storage's content; places that were not written are left out.

        Args:
            data: [rows, *columns], in the TorchRL Episode Data format.
            path: a folder that the values are mapped to; None for memory.

        Raises:
            KeyError: no flags that end episodes.
        """
        flat = super().__call__(data)
        shape = list(_plain(flat.get("_storage_shape")))
        rows, columns = int(shape[0]), int(np.prod(shape[1:])) if len(shape) > 1 else 1
        shift, full = int(_plain(flat.get(self.shift_key))), bool(_plain(flat.get(self.is_full_key)))
        taken = rows if full else shift
        done = flat.get(self.done_key[1:] if isinstance(self.done_key, tuple) else self.done_key)
        ends = _with_last(done.reshape(rows * columns, -1).any(-1), rows, columns, taken)
        here = _taken(rows, columns, taken)
        stops = ends[here].nonzero().squeeze(-1)
        lengths = torch.diff(stops, prepend=stops.new_full((1,), -1))
        nested = TensorDict({}, [len(lengths)])
        for name in (self.shift_key, self.is_full_key, "_storage_shape"):
            nested.set_non_tensor(name, _plain(flat.get(name)))
        place, _ = _places(ends)
        for key, value in flat.items(True, True):
            if not isinstance(value, Tensor):
                continue
            more = len(value) == rows * columns + len(stops)
            chosen = _with_ends(place, ends, here) if more else here.nonzero().squeeze(-1)
            values = value.as_subclass(Tensor)[chosen]
            nested.set(key, _rows_of(_mapped(values, path, key), lengths + 1 if more else lengths))
        return nested


class Nested2TED(Flat2TED):
    """The way back from `TED2Nested`; flags of the root are false, and places that were not written are zeros."""

    def __call__(self, data: TensorDict, out: TensorDict | None = None) -> TensorDict:
        """The rows as they stood in the storage.

        Args:
            data: the nested form.
            out: where they are written to; None for new tensors.

        Raises:
            KeyError: an entry that the nested form always has is missing.
        """
        shape = list(_plain(data.get("_storage_shape")))
        rows, columns = int(shape[0]), int(np.prod(shape[1:])) if len(shape) > 1 else 1
        shift, full = int(_plain(data.get(self.shift_key))), bool(_plain(data.get(self.is_full_key)))
        here = _taken(rows, columns, rows if full else shift)
        done = data.get(self.done_key)
        lengths = done.offsets().diff()
        flat = TensorDict({}, [])
        for name in (self.shift_key, self.is_full_key, "_storage_shape"):
            flat.set_non_tensor(name, _plain(data.get(name)))
        ends = torch.zeros(rows * columns, dtype=torch.bool)
        ends[here.nonzero().squeeze(-1)[lengths.cumsum(0) - 1]] = True
        place, stops = _places(ends)
        for key, value in data.items(True, True):
            if not isinstance(value, Tensor):
                continue
            rows_: Any = value
            values = rows_.values()
            more = bool((rows_.offsets().diff() == lengths + 1).all())
            made = values.new_zeros((rows * columns + (len(stops) if more else 0), *values.shape[1:]))
            made[_with_ends(place, ends, here) if more else here.nonzero().squeeze(-1)] = values
            flat.set(key, made)
        return super().__call__(flat, out)


class H5Split(TED2Flat):
    """A tensordict for each episode of the nested form, under "traj_0", "traj_1", ..., with views of its tensors."""

    def __call__(self, data: TensorDict) -> TensorDict:  # type: ignore[override]
        """The episodes by their names.

        Args:
            data: as `TED2Nested` gives it.
        """
        split = TensorDict({}, [])
        tensors = {key: value for key, value in data.items(True, True) if isinstance(value, Tensor)}
        for at in range(data.batch_size[0]):
            episode = TensorDict({}, [])
            for key, value in tensors.items():
                each: Any = value
                first, last = each.offsets()[at : at + 2].tolist()
                episode.set(key, each.values()[first:last])
            split.set(f"traj_{at}", episode)
        for name in (self.shift_key, self.is_full_key, "_storage_shape"):
            split.set_non_tensor(name, _plain(data.get(name)))
        return split


class H5Combine:
    """The way back from `H5Split`: the nested form, of episodes in memory or in a file."""

    def __call__(self, data: Any, out: TensorDict | None = None) -> TensorDict:
        """The nested form.

        Args:
            data: episodes under "traj_0", "traj_1", ..., and what describes the storage.
            out: where it is written to; None for a new one.
        """
        keys = list(data.keys())
        names = sorted((key for key in keys if key.startswith("traj_")), key=lambda key: int(key[5:]))
        found = TensorDict({}, [len(names)]) if out is None else out
        for key in data.get(names[0]).keys(True, True) if names else ():
            parts = [torch.as_tensor(data.get(name).get(key)) for name in names]
            lengths = torch.tensor([len(part) for part in parts])
            found.set(key, _rows_of(torch.cat(parts), lengths))
        for key in keys:
            if not key.startswith("traj_"):
                found.set_non_tensor(key, _plain(data.get(key)))
        return found


def _with_ends(place: Tensor, ends: Tensor, here: Tensor) -> Tensor:
    """Where the observations of the taken rows stand in the flat form, with the last ones of episodes."""
    taken = place[here]
    return torch.cat([taken, taken[ends[here]] + 1]).sort().values


def _rows_of(values: Tensor, lengths: Tensor) -> Tensor:
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def _mapped(values: Tensor, path: Path | None, key: Any) -> Tensor:
    """Values in memory, or in a file of a folder."""
    if path is None:
        return values
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    name = key if isinstance(key, str) else ".".join(key)
    storage: Any = torch.UntypedStorage.from_file(
        str(folder / f"{name}.memmap"), shared=True, nbytes=values.nbytes or 1
    )
    mapped: Any = torch.empty(0, dtype=values.dtype)
    found: Tensor = mapped.set_(storage, 0, values.shape).copy_(values)
    return found


def _plain(value: Any) -> Any:
    return value.data if isinstance(value, NonTensorData) else value


def _last(names: tuple[str, ...]) -> str:
    return names[-1]


def _ordered(data: TensorDict, shift: int, dims: int, done_key: Any, taken: int) -> tuple[TensorDict, Tensor]:
    """The rows in the order they were written, column by column, and which of them end an episode."""
    if data.get(done_key, None) is None:
        raise KeyError(
            f"TED2Flat: the storage has no entry {done_key!r}, which ends episodes; there are "
            f"{', '.join(map(repr, data.keys(True, True)))}."
        )
    rows = int(data.shape[0])
    if shift % rows:
        data = data[(torch.arange(rows) + shift) % rows]
    columns = 1
    if dims > 1:
        columns = int(np.prod(data.shape[1:dims]))
        data = data.reshape(rows, columns).transpose(0, 1).reshape(rows * columns)
    ends = data.get(done_key).reshape(rows * columns, -1).any(-1)
    return data, _with_last(ends, rows, columns, taken)


def _with_last(ends: Tensor, rows: int, columns: int, taken: int) -> Tensor:
    """The row that was written last ends its episode, and rows that were not written end none."""
    ends = ends.as_subclass(Tensor).clone().reshape(columns, rows)
    ends[:, taken:] = False
    if taken:
        ends[:, taken - 1] = True
    return ends.reshape(-1)


def _taken(rows: int, columns: int, taken: int) -> Tensor:
    return (torch.arange(rows) < taken).repeat(columns)


def _places(ends: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row's observation stands, with one more behind each end; and the rows that are ends."""
    before = ends.cumsum(0) - ends.to(torch.int64)
    return torch.arange(len(ends)) + before, ends.nonzero().squeeze(-1)

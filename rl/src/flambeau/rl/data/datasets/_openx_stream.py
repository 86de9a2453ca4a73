"""Trajectories of Open X-Embodiment as they come, without a copy of all of them on the disk."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from flambeau.core.hub import fetch
from flambeau.data.tensordict import NonTensorStack, TensorDict, is_leaf_nontensor
from flambeau.rl.data.datasets._openx_episodes import episodes, steps_of
from flambeau.rl.data.replay_buffers.storages.base import Storage
from flambeau.rl.data.replay_buffers.writers.base import ImmutableDatasetWriter

__all__ = ["TrajectoryStream"]

_WAITING = 16


class TrajectoryStream(Storage):
    """Trajectories, shard after shard; a shard is on the disk while it is read.

    Args:
        shards: files, or addresses of files.
        shuffle: whether shards come in random order, and of each sixteen trajectories a random one.
        slice_len: how many steps are given of a trajectory.
        num_slices: how many trajectories make up a batch; at most one of the two.
        pad: what steps behind a trajectory's end are filled with, where it is shorter; None for an error.
    """

    def __init__(
        self,
        shards: Callable[[], list[str | Path]],
        *,
        shuffle: bool,
        slice_len: int | None,
        num_slices: int | None,
        pad: float | None,
    ) -> None:
        super().__init__(1)
        self._shards, self.shuffle = shards, shuffle
        self.slice_len, self.num_slices, self.pad = slice_len, num_slices, pad
        self._coming: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        """All trajectories once, or a slice of each where `slice_len` was given."""
        for trajectory in self._trajectories():
            yield trajectory if self.slice_len is None else self._slice(trajectory, self.slice_len)

    def batch(self, batch_size: int) -> Any:
        """Slices of the trajectories that come next, one behind the other.

        Raises:
            StopIteration: too few trajectories are left; the next batch begins anew.
            RuntimeError: a trajectory is too short, or the size is not divisible.
        """
        if self.num_slices is not None:
            count, rest = self.num_slices, batch_size % self.num_slices
        else:
            length = self.slice_len or batch_size
            count, rest = batch_size // length, batch_size % length
        if rest or not count:
            parts_of = f"{count} slices" if self.num_slices else f"slices of {self.slice_len}"
            raise RuntimeError(f"batch_size={batch_size} is not divisible into {parts_of}.")
        if self._coming is None:
            self._coming = self._trajectories()
        parts = []
        for trajectory in self._coming:
            parts.append(self._slice(trajectory, batch_size // count))
            if len(parts) == count:
                return torch.cat(parts)
        self._coming = None
        raise StopIteration

    def _slice(self, trajectory: Any, length: int) -> Any:
        """Steps that follow one another, from a random one on; the last is marked as truncated."""
        lacking = length - trajectory.shape[0]
        if lacking > 0:
            if self.pad is None:
                raise RuntimeError(
                    f"A trajectory has {trajectory.shape[0]} steps, fewer than a slice of {length}; make slices "
                    f"shorter, or give `pad`."
                )
            return torch.cat([trajectory, _filled(trajectory, lacking, self.pad)])
        start = int(torch.randint(-lacking + 1, (), generator=self._rng))
        part = trajectory[start : start + length].clone()
        if not part["next", "done"][-1]:
            part["next", "done"][-1] = part["next", "truncated"][-1] = True
        return part

    def _trajectories(self) -> Iterator[Any]:
        number, waiting = 0, []
        for shard in self._ordered(self._shards()):
            with _on_disk(shard) as path:
                for where, recorded in episodes(path):
                    waiting.append(_as_tensordict(steps_of(recorded, number, where)))
                    number += 1
                    if len(waiting) >= (_WAITING if self.shuffle else 1):
                        yield waiting.pop(self._any(len(waiting)))
        while waiting:
            yield waiting.pop(self._any(len(waiting)))

    def _ordered(self, shards: list[Any]) -> list[Any]:
        if not self.shuffle:
            return shards
        return [shards[at] for at in torch.randperm(len(shards), generator=self._rng).tolist()]

    def _any(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self._rng)) if self.shuffle else 0

    # What storages have besides

    def _refuse(self) -> NoReturn:
        raise RuntimeError(ImmutableDatasetWriter.WRITING_ERR)

    def __len__(self) -> int:
        raise TypeError("How many steps a stream has is not known; download the data set, or iterate.")

    def get(self, index: Any) -> Any:
        """Refuse: trajectories come in an order of their own.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("A stream has no places; iterate over it, sample from it, or download the data set.")

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def _empty(self) -> None:
        self._refuse()

    def contains(self, item: Any) -> bool:
        """False: a stream has no places."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Nothing: a stream begins anew."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is taken over."""
        return


class _on_disk:
    """A shard as a file: it is fetched to a temporary folder, which is removed afterwards, unless it is one already."""

    def __init__(self, shard: str | Path) -> None:
        self._shard = shard
        self._folder: Any = None

    def __enter__(self) -> Path:
        if isinstance(self._shard, Path):
            return self._shard
        self._folder = tempfile.TemporaryDirectory(prefix="flambeau-stream-")
        name = self._shard.rpartition("/")[2]
        return fetch(self._shard, root=self._folder.name, filename=name, progress=False)

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _as_tensordict(steps: dict[tuple[str, ...], Any]) -> TensorDict:
    count = len(steps["episode",])
    made = TensorDict({}, [count])
    for key, value in steps.items():
        made.set(key, value if isinstance(value, Tensor) else NonTensorStack(*value))
    return made


def _filled(like: Any, count: int, value: float) -> TensorDict:
    made = TensorDict({}, [count])
    for key, each in like.items(True, True, is_leaf=is_leaf_nontensor):
        if isinstance(each, Tensor):
            made.set(key, torch.full((count, *each.shape[1:]), value).to(each.dtype))
        else:
            made.set(key, NonTensorStack(*[""] * count))
    for flag in ("done", "terminated", "truncated"):  # padding is no step that ended
        for key in (flag, ("next", flag)):
            made.get(key).zero_()
    return made

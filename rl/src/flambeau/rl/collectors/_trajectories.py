"""Whole trajectories, put together from the pieces that batches hold of them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch

from flambeau.rl.collectors._recording import IDS
from flambeau.rl.collectors.utils import padded
from flambeau.rl.envs._keys import as_tuple


def checked_format(traj_format: str | None, trajs_per_batch: int | None, has_replay_buffer: bool) -> str:
    """How batches of trajectories are laid out.

    Args:
        traj_format: what the user said.
        trajs_per_batch: number of trajectories of a batch.
        has_replay_buffer: they go there.

    Raises:
        ValueError: it is no such layout, or batches are not of trajectories.
    """
    if traj_format not in (None, "padded", "cat"):
        raise ValueError(f"traj_format must be 'padded' or 'cat'; got {traj_format!r}.")
    if trajs_per_batch is None:
        if traj_format is not None:
            raise ValueError("traj_format is for batches of whole trajectories; give trajs_per_batch= as well.")
        return "padded"
    if trajs_per_batch < 1:
        raise ValueError(f"trajs_per_batch must be 1 or more; got {trajs_per_batch}.")
    if traj_format is None and not has_replay_buffer:
        warnings.warn(
            "trajs_per_batch without traj_format gives padded trajectories, and with torchrl 0.16 will give them one "
            "behind the other; say traj_format='padded' or traj_format='cat'.",
            FutureWarning,
            stacklevel=4,
        )
    return traj_format or "padded"


class Assembly:
    """Trajectories in the order of the batches that they ended in, and of their numbers.

    Args:
        count: number of trajectories of a batch.
        layout: "padded" or "cat".
        done_keys: ends, below "next".
        postproc: what is called with each batch.
    """

    def __init__(
        self, count: int, layout: str, done_keys: list[Any], postproc: Callable[[Any], Any] | None = None
    ) -> None:
        self.count, self.layout, self.done_keys, self.postproc = count, layout, done_keys, postproc
        self._pieces: dict[int, list[Any]] = {}
        self._whole: deque[Any] = deque()

    def add(self, batch: Any) -> None:
        """Take the pieces of a batch, (*environments, time)."""
        ids = batch.get(IDS)
        done = torch.stack([batch.get(key).reshape(*ids.shape, -1).any(-1) for key in self.done_keys]).any(0)
        time = ids.shape[-1]
        rows, ids, done = batch.reshape(-1, time), ids.reshape(-1, time), done.reshape(-1, time)
        starts = torch.ones_like(done)
        starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
        ended: list[int] = []
        live: set[int] = set()
        for row in range(len(ids)):
            first = starts[row].nonzero().flatten().tolist()
            for begin, end in zip(first, [*first[1:], time], strict=True):
                number = int(ids[row, begin])
                if number < 0:
                    continue
                piece = rows[row, begin:end].clone()
                piece.names = None
                self._pieces.setdefault(number, []).append(piece)
                if done[row, end - 1]:
                    ended.append(number)
                elif end == time or int(ids[row, end]) < 0:
                    live.add(number)
        for number in sorted(ended):
            pieces = self._pieces.pop(number)
            self._whole.append(pieces[0] if len(pieces) == 1 else torch.cat(pieces))
        # A reset ended the others before they were done.
        self._pieces = {number: pieces for number, pieces in self._pieces.items() if number in live}

    def clear(self) -> None:
        """Forget all pieces."""
        self._pieces = {}
        self._whole.clear()

    def take(self, other: Assembly) -> None:
        """Take the whole trajectories of another one."""
        self._whole.extend(other._whole)
        other._whole.clear()

    def trajectories(self, count: int) -> Iterator[Any]:
        """Those that are whole, `count` at a time, one behind the other."""
        while len(self._whole) >= count:
            parts = [self._whole.popleft() for _ in range(count)]
            yield parts[0] if count == 1 else torch.cat(parts)

    def batches(self) -> Iterator[Any]:
        """Batches of those that are whole."""
        while len(self._whole) >= self.count:
            parts = [self._whole.popleft() for _ in range(self.count)]
            batch = torch.cat(parts)
            if self.layout == "padded":
                batch = padded(batch, [len(part) for part in parts], ("collector", "mask"))
            yield batch if self.postproc is None else self.postproc(batch)


class Assemblies:
    """Trajectories of several processes, whose batches come in any order.

    Args:
        workers: number of processes.
        count: number of trajectories of a batch.
        layout: "padded" or "cat".
        postproc: what is called with each batch.
    """

    def __init__(self, workers: int, count: int, layout: str, postproc: Callable[[Any], Any] | None = None) -> None:
        self._of = [Assembly(count, layout, [], postproc) for _ in range(workers)]
        self._all = Assembly(count, layout, [], postproc)

    def add(self, number: int, batch: Any) -> None:
        """Take the pieces of a batch of one process."""
        own = self._of[number]
        if not own.done_keys:
            keys = [key for key in batch.get("next").keys(True, True) if as_tuple(key)[-1] == "done"]
            ends = ["done"] if "done" in keys else keys
            own.done_keys = [("next", *as_tuple(key)) for key in ends]
        own.add(batch)
        self._all.take(own)

    def batches(self) -> Iterator[Any]:
        """Batches of those that are whole."""
        return self._all.batches()

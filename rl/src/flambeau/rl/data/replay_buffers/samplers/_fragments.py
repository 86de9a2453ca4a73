"""Trajectories whose rows are stored in any order, told by numbers of trajectories and of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["Fragments", "Runs"]


@dataclass(frozen=True)
class Runs:
    """Runs of steps that follow one another.

    Args:
        places: places of all rows, run by run.
        starts: where in `places` each run begins.
        sizes: how many rows it has.
    """

    places: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def lengths(self) -> tuple[int, int]:
        """The shortest and the longest run's number of rows."""
        return (int(self.sizes.min()), int(self.sizes.max())) if len(self.sizes) else (0, 0)


class Fragments:
    """Runs of a storage, made anew when something was written.

    Args:
        traj_key: the entry that numbers trajectories.
        step_key: the entry that numbers a trajectory's steps.
    """

    def __init__(self, traj_key: Any, step_key: Any) -> None:
        self._traj_key, self._step_key = traj_key, step_key
        self._runs: Runs | None = None
        self._position: Any = None

    def forget(self) -> None:
        """Look at all rows again next time."""
        self._runs = None

    def runs(self, storage: Storage) -> Runs:
        """The runs that are stored now.

        Raises:
            TypeError: an entry that is no tensor of whole numbers.
            RuntimeError: a step of a trajectory is stored twice.
        """
        position = storage.journal.now
        if self._runs is None or self._position != position or storage.publication is not None:
            self._runs, self._position = self._made(storage), position
        return self._runs

    def _made(self, storage: Storage) -> Runs:
        content = storage.get(slice(None))
        identity, step = (self._numbers(content, key) for key in (self._traj_key, self._step_key))
        order = np.lexsort((step, identity))
        identity, step = identity[order], step[order]
        same = identity[1:] == identity[:-1]
        if (same & (step[1:] == step[:-1])).any():
            at = int(np.argmax(same & (step[1:] == step[:-1])))
            raise RuntimeError(
                f"Step {step[at]} of trajectory {identity[at]} is stored twice; trajectories need numbers of their own "
                f"under {self._traj_key!r}."
            )
        breaks = np.flatnonzero(~(same & (step[1:] == step[:-1] + 1))) + 1
        starts = np.concatenate(([0], breaks)).astype(np.int64)
        lengths = np.diff(np.concatenate((starts, [len(order)]))).astype(np.int64)
        return Runs(order.astype(np.int64), starts, lengths)

    def _numbers(self, content: Any, key: Any) -> NDArray[Any]:
        value = content.get(key, None)
        if not isinstance(value, Tensor) or value.is_floating_point():
            kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"{key=} must be a tensor of whole numbers, one for each row, got {kind}.")
        return value.reshape(-1).cpu().numpy()

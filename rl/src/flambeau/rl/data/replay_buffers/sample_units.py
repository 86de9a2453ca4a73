"""What one drawn item stands for in a batch: itself, or the steps around it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers.storages.base import Storage

__all__ = ["SampleUnit", "Sequence", "Transition"]

Index = Tensor | tuple[Tensor, ...]


class SampleUnit(ABC):
    """Makes the places of a batch of those that a sampler drew, the anchors."""

    @abstractmethod
    def expand(self, index: Index, info: dict[str, Any], storage: Storage) -> tuple[Index, dict[str, Any]]:
        """The places that are read.

        Args:
            index: anchors (N,), or one such index for each dimension of the storage's places.
            info: what the sampler knows of them. What has one entry for each anchor must be made to have one for each
                place.
            storage: where items are read; it is not changed.

        Returns:
            Places, and what is known of them, which becomes entries of batches that are tensordicts.
        """


class Transition(SampleUnit):
    """Each anchor is one item of the batch, as without a unit."""

    def expand(self, index: Index, info: dict[str, Any], storage: Storage) -> tuple[Index, dict[str, Any]]:
        """The anchors themselves.

        Args:
            index: anchors.
            info: what is known of them.
            storage: is not used.
        """
        return index, info


class Sequence(SampleUnit):
    """Each anchor becomes a window: `burn_in` steps before it, `length` from it on, `bootstrap` behind these.

    A batch of N anchors has N * (burn_in + length + bootstrap) items, one window behind the other. Beside them come
    "validity_mask", false for steps that stand in for others beyond an end; "learning_mask", true for the `length`
    steps alone; "anchor_index", the place of the window's anchor; "sequence_id" and "step_in_sequence".

    Windows cross neither the place where a full ring begins anew nor places that were not written.

    Args:
        length: steps that are learned from, 1 or more.
        episode_boundary: at the end of an episode, "pad" repeats its last step; "stop" lets the window begin earlier,
            so that it ends there, and pads where the episode is too short; "include_reset" goes on with the next one.
        done_key: the entry that ends episodes; None where all steps are of one.
        burn_in: steps before the anchor; those before its episode repeat the episode's first step.
        bootstrap: steps behind those that are learned from.
        dilation: places from one step of the window to the next, 1 or more.

    Raises:
        ValueError: a number is too small, or there is no such boundary.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.rl.data import LazyTensorStorage, ReplayBuffer
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> done = torch.zeros(10, 1, dtype=torch.bool)
        >>> done[4] = done[9] = True
        >>> _ = buffer.extend(TensorDict({"obs": torch.arange(10.0), "next": {"done": done}}, [10]))
        >>> index, info = Sequence(2, burn_in=1, bootstrap=1).expand(torch.tensor([5]), {}, buffer.storage)
        >>> index.tolist(), info["validity_mask"].tolist()
        ([5, 5, 6, 7], [False, True, True, True])

    References:
        Kapturowski et al., 2019, Recurrent Experience Replay in Distributed Reinforcement Learning (R2D2), for burn-in.
    """

    def __init__(
        self,
        length: int,
        episode_boundary: Literal["pad", "stop", "include_reset"] = "pad",
        done_key: Any = ("next", "done"),
        burn_in: int = 0,
        bootstrap: int = 0,
        dilation: int = 1,
    ) -> None:
        if episode_boundary not in ("pad", "stop", "include_reset"):
            raise ValueError(f"episode_boundary is {episode_boundary!r}, expected 'pad', 'stop' or 'include_reset'.")
        least = {"length": (length, 1), "burn_in": (burn_in, 0), "bootstrap": (bootstrap, 0), "dilation": (dilation, 1)}
        for name, (value, bound) in least.items():
            if value < bound:
                raise ValueError(f"{name} is {value}, expected {bound} or more.")
        self.length, self.burn_in, self.bootstrap, self.dilation = length, burn_in, bootstrap, dilation
        self.episode_boundary, self.done_key = episode_boundary, done_key

    @property
    def window(self) -> int:
        """Steps of a window."""
        return self.burn_in + self.length + self.bootstrap

    def expand(self, index: Index, info: dict[str, Any], storage: Storage) -> tuple[Index, dict[str, Any]]:
        """The places of the windows around anchors.

        Args:
            index: anchors.
            info: what is known of them; what has one entry for each is repeated over its window.
            storage: of tensordicts, in tensors.

        Raises:
            TypeError: a storage of other items.
            KeyError: these have no entry `done_key`.
        """
        rows = index[0] if isinstance(index, tuple) else index
        lanes = tuple(index[1:]) if isinstance(index, tuple) else ()
        ring = _Ring(storage, self.done_key, lanes)
        anchors = ring.ages(rows)
        first, last = self._bounds(ring, anchors)
        begin = self._shifted(anchors, first, last)
        steps = torch.arange(self.window, device=rows.device)
        wanted = begin[:, None] + (steps - self.burn_in) * self.dilation
        # Nothing before the anchor's episode counts, whatever happens at its end.
        low, high = first[:, None], last[:, None]
        valid = (wanted >= low) & (wanted <= high)
        places = ring.places(wanted.clamp(low, high).reshape(-1))
        count = len(rows)
        learned = (steps >= self.burn_in) & (steps < self.burn_in + self.length)
        repeated = {key: self._repeated(value, count) for key, value in info.items()}
        known = {
            "sequence_id": torch.arange(count, device=rows.device).repeat_interleave(self.window),
            "step_in_sequence": steps.repeat(count),
            "learning_mask": learned.repeat(count),
            "anchor_index": self._each(index),
            "validity_mask": valid.reshape(-1),
        }
        if lanes:
            return (places, *(lane.repeat_interleave(self.window) for lane in lanes)), repeated | known
        return places, repeated | known

    def _bounds(self, ring: _Ring, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """The ages between which the windows of anchors lie: those of their episodes, as far as windows reach."""
        newest = torch.full_like(anchors, ring.taken - 1)
        oldest = torch.zeros_like(anchors)
        if self.done_key is None or self.episode_boundary == "include_reset":
            return oldest, newest
        # "stop" may begin as much earlier as the window is long, and has its burn-in before that.
        reach = 2 * self.dilation * self.window
        back = anchors[:, None] - 1 - torch.arange(reach, device=anchors.device)
        ended = ring.ends(back, self._lanes_of(ring)) & (back >= 0)
        found = torch.where(ended, back + 1, torch.zeros_like(back)).amax(-1)
        first = torch.where(ended.any(-1), found, (anchors - reach).clamp_min(0))
        on = anchors[:, None] + torch.arange(reach, device=anchors.device)
        ends = ring.ends(on, self._lanes_of(ring)) & (on < ring.taken)
        last = torch.where(ends, on, torch.full_like(on, ring.taken - 1)).amin(-1)
        return first, last

    @staticmethod
    def _lanes_of(ring: _Ring) -> tuple[Tensor, ...]:
        return tuple(lane[:, None] for lane in ring.lanes)

    def _shifted(self, anchors: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """Where the steps that are learned from begin."""
        if self.episode_boundary != "stop":
            return anchors
        span = (self.length + self.bootstrap - 1) * self.dilation
        return torch.minimum(anchors, torch.maximum(first, last - span))

    def _each(self, index: Index) -> Tensor:
        whole = torch.stack(list(index), -1) if isinstance(index, tuple) else index
        return whole.repeat_interleave(self.window, 0)

    def _repeated(self, value: Any, count: int) -> Any:
        if isinstance(value, tuple):
            return tuple(self._repeated(each, count) for each in value)
        if isinstance(value, Tensor) and value.ndim and len(value) == count:
            return value.repeat_interleave(self.window, 0)
        return value

    def __repr__(self) -> str:
        names = ("length", "episode_boundary", "done_key", "burn_in", "bootstrap", "dilation")
        return f"Sequence({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


class _Ring:
    """A storage's rows by their age: 0 is the one that was written first of those that are there.

    Args:
        storage: the storage.
        done_key: the entry that ends episodes; None for none.
        lanes: the other dimensions' part of the anchors' index.
    """

    def __init__(self, storage: Any, done_key: Any, lanes: tuple[Tensor, ...]) -> None:
        content = getattr(storage, "_storage", None)
        if content is None or isinstance(content, Tensor) or not is_tensor_collection(content):
            raise TypeError(
                f"Sequence looks for the ends of episodes in a storage of tensordicts; got a {type(storage).__name__} "
                "without. Use a LazyTensorStorage, and extend it with tensordicts."
            )
        self.lanes = lanes
        self.taken = int(storage._rows_taken)
        self.size = int(storage._max_size_along_dim0)
        self.first = int(_behind_last(storage, self.size)) if storage._is_full else 0
        self._done = None
        if done_key is not None:
            self._done = content.get(done_key, None)
            if self._done is None:
                raise KeyError(
                    f"the storage has no entry {done_key!r}, which ends episodes; there are "
                    f"{list(content.keys(True, True))}. Give Sequence another done_key, or None."
                )

    def ages(self, rows: Tensor) -> Tensor:
        """Ages of rows."""
        return (rows - self.first) % self.size

    def places(self, ages: Tensor) -> Tensor:
        """Rows of ages."""
        return (ages + self.first) % self.size

    def ends(self, ages: Tensor, lanes: tuple[Tensor, ...]) -> Tensor:
        """Whether episodes end at ages, which may lie beyond those that there are."""
        assert self._done is not None
        places = self.places(ages).clamp(0, self.size - 1)
        found = self._done[(places, *(lane.expand_as(places) for lane in lanes))]
        ended: Tensor = found.reshape(*places.shape, -1).any(-1).to(places.device)
        return ended


def _behind_last(storage: Any, size: int) -> int:
    from flambeau.rl.data.replay_buffers.checkpointers import _behind

    return _behind(storage, size) % size

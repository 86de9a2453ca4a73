"""The buffer of tensordicts."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase, is_tensor_collection, is_tensorclass
from flambeau.rl.data.replay_buffers.replay_buffers.base import ReplayBuffer
from flambeau.rl.data.replay_buffers.writers.base import Writer
from flambeau.rl.data.replay_buffers.writers.round_robin import TensorDictRoundRobinWriter

__all__ = ["TensorDictReplayBuffer"]


class TensorDictReplayBuffer(ReplayBuffer):
    """A buffer of tensordicts, whose batches hold what the sampler knows of them: "index", "priority_weight", ...

    Args:
        priority_key: the entry of priorities, for prioritized samplers.
        kwargs: see `ReplayBuffer`; the writer is a `TensorDictRoundRobinWriter` by default.
    """

    _default_writer: ClassVar[type[Writer]] = TensorDictRoundRobinWriter

    def __init__(self, *, priority_key: Any = "td_error", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.priority_key = priority_key

    def _priorities(self, data: Any, batch_dims: int) -> Tensor | None:
        """One priority for each item; None where there is no entry."""
        found = data.get(self.priority_key, None)
        if found is None:
            return None
        found = found.detach()
        if found.ndim > batch_dims:
            flat = found.reshape(*found.shape[:batch_dims], -1)
            found = (
                flat.squeeze(-1) if flat.shape[-1] == 1 else _reduced(flat, getattr(self._sampler, "reduction", "max"))
            )
        priorities: Tensor = found
        return priorities

    def add(self, data: Any) -> Any:
        """Add one tensordict; its place. Its priority is taken over if it has one."""
        index = super().add(data)
        if index is not None and self._weighs and is_tensor_collection(data):
            priority = self._priorities(data, 0)
            if priority is not None:
                self.update_priority(index, priority)
        return index

    @property
    def _weighs(self) -> bool:
        from flambeau.rl.data.replay_buffers.samplers.prioritized import PrioritizedSampler

        return isinstance(self._sampler, PrioritizedSampler)

    def extend(self, tensordicts: Any, *, update_priority: bool | None = None) -> Tensor:
        """Add the rows of a tensordict; their places.

        Args:
            tensordicts: a tensordict, or a list of them, which is stacked.
            update_priority: whether the rows' priorities are taken over; by default if they have some.

        Raises:
            ValueError: other data.
        """
        if isinstance(tensordicts, list) and tensordicts and is_tensor_collection(tensordicts[0]):
            tensordicts = torch.stack(tensordicts)
        if not isinstance(tensordicts, TensorDictBase) and not is_tensorclass(tensordicts):
            raise ValueError(
                f"TensorDictReplayBuffer takes tensordicts, got {type(tensordicts).__name__}; use a ReplayBuffer."
            )
        index = super().extend(tensordicts)
        if update_priority is not False and self._weighs:
            dims = self._storage.ndim
            data = tensordicts.transpose(0, self._dim_extend) if self._dim_extend > 0 else tensordicts
            priorities = self._priorities(data, dims)
            if priorities is not None:
                self.update_priority(index, priorities.reshape(-1))
            elif update_priority:
                raise KeyError(f"update_priority=True, but the data has no entry {self.priority_key!r}.")
        return index

    def sample(self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None) -> Any:
        """A batch; see `ReplayBuffer.sample`.

        Args:
            batch_size: how many items; by default as the buffer was told.
            return_info: whether what the sampler knows of them is returned as well.
            include_info: accepted for code written for upstream: it is in the batch in any case.
        """
        data, info = super().sample(batch_size, return_info=True)
        if is_tensor_collection(data):
            locked = data.is_locked
            if locked:
                data.unlock_()
            rows = data.shape[0] if data.ndim else 0
            for key, value in info.items():
                if isinstance(value, tuple):
                    value = torch.stack(value, -1)
                if not isinstance(value, Tensor) or (value.ndim and value.shape[0] != rows):
                    continue
                value = _over_items(value, data.batch_size)
                data.set(key, value if data.device is None else value.to(data.device))
            if locked:
                data.lock_()
        return (data, info) if return_info else data

    def update_tensordict_priority(self, data: Any) -> None:
        """Weigh the items of a batch anew, by the entry `priority_key`, which has one priority for each.

        Raises:
            KeyError: the batch has no "index".
        """
        if not self._weighs:
            return
        priorities = self._priorities(data, data.ndim)
        if priorities is None:
            return
        if data.get("anchor_index", None) is not None:
            self.update_priority(*_of_anchors(data, priorities))
            return
        index = data.get("index", None)
        if index is None:
            raise KeyError(
                'The batch has no entry "index", which tells the places of its items; keep it from `sample`.'
            )
        self.update_priority(index, priorities)


def _of_anchors(data: Any, priorities: Tensor) -> tuple[Tensor, Tensor]:
    """The anchors of windows, and for each the highest priority of its valid steps."""
    windows, anchors = data.get("sequence_id").reshape(-1), data.get("anchor_index")
    priorities = priorities.reshape(-1)
    valid = data.get("validity_mask").reshape(-1)
    count = int(windows.max()) + 1
    best = priorities.new_zeros(count).scatter_reduce_(
        0, windows, torch.where(valid, priorities, torch.zeros_like(priorities)), "amax"
    )
    first = torch.zeros(count, dtype=torch.int64).scatter_reduce_(
        0, windows, torch.arange(len(windows)), "amin", include_self=False
    )
    return anchors.reshape(len(windows), *anchors.shape[data.ndim :])[first], best


def _over_items(value: Tensor, batch_size: torch.Size) -> Tensor:
    """What is known of an item, once for each of the places that it has inside."""
    inner = len(batch_size) - value.ndim
    return value if inner <= 0 else value.reshape(*value.shape, *[1] * inner).expand(*value.shape, *batch_size[-inner:])


def _reduced(values: Tensor, reduction: str) -> Tensor:
    if reduction == "max":
        return values.amax(-1)
    if reduction == "min":
        return values.amin(-1)
    if reduction == "mean":
        return values.mean(-1)
    if reduction == "median":
        return values.median(-1).values
    raise ValueError(f"reduction is {reduction!r}, expected max, min, mean or median.")

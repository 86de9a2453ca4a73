"""Several buffers that are drawn from together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, is_tensor_collection, lazy_stack
from flambeau.rl.data.replay_buffers.replay_buffers.base import ReplayBuffer
from flambeau.rl.data.replay_buffers.samplers.ensemble import SamplerEnsemble
from flambeau.rl.data.replay_buffers.storages.ensemble import StorageEnsemble
from flambeau.rl.data.replay_buffers.writers.ensemble import WriterEnsemble

__all__ = ["ReplayBufferEnsemble"]


class ReplayBufferEnsemble(ReplayBuffer):
    """Draws batches (buffers, items) from several buffers of tensordicts, with ("index", "buffer_ids") in them.

    Each buffer's own sampler and transforms are used; `transform` changes the batch as a whole.

    Args:
        rbs: the buffers.
        storages: instead of buffers, their storages, with `samplers` and `writers`.
        samplers: their samplers.
        writers: their writers.
        transform: changes batches.
        batch_size: how many items a batch has, over all buffers; else `sample` must be told.
        collate_fn: makes a batch of the list of the buffers' parts; by default a stack, a lazy one if they differ.
        collate_fns: one for each buffer, which makes a tensordict of its items; by default the buffers' own.
        p: see `SamplerEnsemble`.
        sample_from_all: see `SamplerEnsemble`.
        num_buffer_sampled: see `SamplerEnsemble`.
        routing_key: an entry of the numbers of buffers, which lets `extend` and `add` write: each row to its buffer.
        routing_dim: instead, a dimension of the data: `extend` writes its first part to the first buffer, and so on.
        generator: of random draws; torch's own by default.
        shared: whether processes share the buffers.
        kwargs: see `ReplayBuffer`.

    Raises:
        TypeError: neither buffers nor their parts, or something else among the buffers.
        RuntimeError: both `p` and `sample_from_all`.
        ValueError: both ways of routing.
    """

    def __init__(
        self,
        *rbs: ReplayBuffer,
        storages: StorageEnsemble | None = None,
        samplers: SamplerEnsemble | None = None,
        writers: WriterEnsemble | None = None,
        transform: Callable[[Any], Any] | None = None,
        batch_size: int | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        collate_fns: Sequence[Callable[[Any], Any]] | None = None,
        p: Tensor | list[float] | Literal["sampleable"] | None = None,
        sample_from_all: bool = False,
        num_buffer_sampled: int | None = None,
        routing_key: Any = None,
        routing_dim: int | None = None,
        generator: torch.Generator | None = None,
        shared: bool = False,
        **kwargs: Any,
    ) -> None:
        for each in rbs:
            if not isinstance(each, ReplayBuffer):
                raise TypeError(f"ReplayBufferEnsemble takes buffers, got a {type(each).__name__}.")
        if routing_key is not None and routing_dim is not None:
            raise ValueError("Rows are routed by routing_key or by routing_dim; give one of them.")
        if rbs:
            storages = StorageEnsemble(*(each._storage for each in rbs), transforms=[_changes(each) for each in rbs])
            samplers = SamplerEnsemble(
                *(each._sampler for each in rbs),
                p=p,
                sample_from_all=sample_from_all,
                num_buffer_sampled=num_buffer_sampled,
            )
            writers = WriterEnsemble(*(each._writer for each in rbs))
            collate_fns = [each._collate_fn for each in rbs] if collate_fns is None else collate_fns
        if storages is None or samplers is None or writers is None:
            raise TypeError("ReplayBufferEnsemble: give buffers, or storages, samplers and writers of some.")
        self._rbs = rbs
        self._collate_fns = list(collate_fns) if collate_fns is not None else [_stacked] * len(storages._storages)
        self._routing_key, self._routing_dim = routing_key, routing_dim
        super().__init__(
            storage=storages,
            sampler=samplers,
            writer=writers,
            transform=transform,
            batch_size=batch_size,
            collate_fn=collate_fn or _stacked,
            generator=generator,
            shared=shared,
            **kwargs,
        )

    @property
    def write_count(self) -> int:
        """How many items were written so far, to all buffers."""
        return sum(int(getattr(each, "_write_count", 0)) for each in self._writer._writers)

    def _draw(self, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        index, info = self._sampler.sample(self._storage, batch_size)
        owners = index["buffer_ids"][:, 0].tolist()
        parts = []
        for owner, data, known in zip(owners, self._storage.take(index), info.pop("_infos"), strict=True):
            if isinstance(data, list) or self._collate_fns[owner] is not _stacked:
                data = self._collate_fns[owner](data)
            if is_tensor_collection(data):
                for key, value in known.items():
                    data.set(key, value)
            parts.append(self._storage.transformed(owner, data))
        info["_data"] = parts
        return index, info

    def _batch(self, size: int) -> tuple[Any, dict[Any, Any], bool]:
        data, info, ran_out = super()._batch(size)
        if is_tensor_collection(data):
            data.set("index", info["index"])
        return data, info, ran_out

    # Buffers

    def __len__(self) -> int:
        """How many buffers there are."""
        return len(self._storage._storages)

    def __getitem__(self, index: Any) -> Any:
        """A buffer at an int, an ensemble of some at a slice or list; with a second index, items of these.

        Raises:
            IndexError: no such buffer.
        """
        if isinstance(index, tuple):
            found = self._storage[index]
            if isinstance(found, list):
                return _stacked([_collated(part, self._collate_fns[0]) for part in found])
            return _collated(found, self._collate_fns[index[0]])
        if isinstance(index, (int, np.integer)):
            if not -len(self._rbs) <= index < len(self._rbs):
                raise IndexError(f"There is no buffer {index}: the ensemble has {len(self._rbs)}.")
            return self._rbs[int(index)]
        numbers = self._storage._numbers(index)
        sampler = self._sampler[numbers]
        return ReplayBufferEnsemble(
            *(self._rbs[at] for at in numbers),
            batch_size=self._batch_size,
            p=sampler.p,
            sample_from_all=sampler.sample_from_all,
            num_buffer_sampled=sampler._num_buffer_sampled,
            routing_key=self._routing_key,
            routing_dim=self._routing_dim,
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        raise RuntimeError("An ensemble is written through its buffers: index one of them first, as in rb[0][index].")

    # Writing

    def add(self, data: Any) -> TensorDict:
        """Add one tensordict to the buffer that its `routing_key` names; where it is.

        Raises:
            RuntimeError: no `routing_key`.
        """
        if self._routing_key is None:
            raise self._unrouted()
        return self.extend(data.unsqueeze(0))[0]

    def extend(self, data: Any, *, update_priority: bool | None = None) -> TensorDict:
        """Add rows, each to its buffer; where they are: "buffer_ids" and "index".

        Raises:
            RuntimeError: the ensemble routes no rows.
            ValueError: a number that is none of a buffer, or not as many parts as buffers.
        """
        if self._routing_dim is not None:
            parts = data.unbind(self._routing_dim)
            if len(parts) != len(self._rbs):
                raise ValueError(
                    f"{len(parts)} parts along dimension {self._routing_dim} for {len(self._rbs)} buffers."
                )
            found = [
                each.extend(part, update_priority=update_priority) for each, part in zip(self._rbs, parts, strict=True)
            ]
            owners = [torch.full((len(places),), at) for at, places in enumerate(found)]
            return TensorDict(
                {"buffer_ids": torch.stack(owners), "index": torch.stack(found)}, [len(parts), len(found[0])]
            )
        if self._routing_key is None:
            raise self._unrouted()
        numbers = data.get(self._routing_key).reshape(-1).to(torch.int64)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self._rbs):
            raise ValueError(f"{self._routing_key!r} has {numbers.unique().tolist()}, expected numbers of buffers.")
        places = torch.zeros_like(numbers)
        for at in numbers.unique().tolist():
            chosen = numbers == at
            places[chosen] = self._rbs[at].extend(data[chosen], update_priority=update_priority)
        return TensorDict({"buffer_ids": numbers, "index": places}, numbers.shape)

    def _unrouted(self) -> RuntimeError:
        return RuntimeError(
            "An ensemble is written through its buffers, unless routing_key or routing_dim says which row goes where."
        )

    def update_priority(self, index: Any, priority: Any) -> None:
        """Weigh items anew, for an index with "buffer_ids" and "index"."""
        priority = torch.as_tensor(priority).expand(index["index"].shape)
        for at, sampler in enumerate(self._sampler._samplers):
            chosen = index["buffer_ids"] == at
            if bool(chosen.any()):
                sampler.update_priority(index["index"][chosen], priority[chosen], storage=self._storage._storages[at])

    def mark_update(self, index: Any) -> None:
        """Items were changed: the samplers of their buffers are told by these."""
        return

    def share(self, shared: bool = True) -> ReplayBufferEnsemble:
        """Let processes share the buffers."""
        for each in self._rbs:
            each.share(shared)
        self.shared = shared
        return self

    def __repr__(self) -> str:
        parts = ("storage", "sampler", "writer", "batch_size", "transform", "collate_fn")
        lines = [f"    {name}={getattr(self, f'_{name}')}".replace("\n", "\n    ") for name in parts]
        return f"{type(self).__name__}(\n" + ", \n".join(lines) + ")"


def _changes(buffer: ReplayBuffer) -> Callable[[Any], Any] | None:
    return buffer._transformed if len(buffer._transform) else None


def _collated(data: Any, collate: Callable[[Any], Any]) -> Any:
    return collate(data) if isinstance(data, list) else data


def _stacked(parts: Any) -> Any:
    """One batch of parts: a stack, a lazy one where their shapes or entries differ."""
    if not isinstance(parts, list) or not is_tensor_collection(parts[0]):
        return torch.stack(parts) if isinstance(parts, list) else parts
    first = {key: value.shape for key, value in parts[0].items(True, True) if isinstance(value, Tensor)}
    for each in parts[1:]:
        if {key: value.shape for key, value in each.items(True, True) if isinstance(value, Tensor)} != first:
            return lazy_stack(parts)
    return torch.stack(parts)

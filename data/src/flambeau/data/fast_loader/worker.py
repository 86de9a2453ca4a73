"""From a list of indices, or of samples, to a batch: what a worker does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.data.fast_loader.assembly import Buffers, assemble
from flambeau.data.nodes._pool import OwnedFunction
from flambeau.data.nodes._remote import RemoteFunction

Layout = Mapping[str, tuple[tuple[int, ...], torch.dtype]]


class BatchMaker:
    """Makes a batch of the samples that a list of indices names, or of the samples themselves.

    Args:
        dataset: map-style, None where the lists hold samples.
        decode: applied to each sample.
        collate_fn: list of samples -> batch; None writes them into buffers.
        layout: name -> (shape, dtype) of one sample, where `fill` writes samples itself.
        fill: (sample, rows by name) -> None.
        buffers: memory for batches.
    """

    def __init__(
        self,
        dataset: Any,
        decode: Callable[[Any], Any] | None,
        collate_fn: Callable[[list[Any]], Any] | None,
        layout: Layout | None,
        fill: Callable[[Any, dict[str, Tensor]], object] | None,
        buffers: Buffers,
    ) -> None:
        self._dataset, self._decode, self._collate_fn = dataset, decode, collate_fn
        self._layout, self._fill = layout, fill
        self.buffers = buffers

    def __call__(self, chosen: list[Any]) -> Any:
        """The batch of what was chosen."""
        samples = self._samples(chosen)
        if self._fill is not None and self._layout is not None:
            return self._filled(samples, len(chosen))
        if self._collate_fn is not None:
            return self._collate_fn(list(samples))
        return assemble(samples, len(chosen), self.buffers)

    def _samples(self, chosen: list[Any]) -> Iterator[Any]:
        if self._dataset is None:
            samples = iter(chosen)
        elif (many := getattr(self._dataset, "__getitems__", None)) is not None:
            samples = iter(many(chosen))
        else:
            samples = map(self._dataset.__getitem__, chosen)
        return samples if self._decode is None else map(self._decode, samples)

    def _filled(self, samples: Iterator[Any], count: int) -> dict[str, Tensor]:
        assert self._layout is not None
        assert self._fill is not None
        batch = {name: self.buffers.empty((count, *shape), dtype) for name, (shape, dtype) in self._layout.items()}
        for row, sample in enumerate(samples):
            self._fill(sample, {name: rows[row] for name, rows in batch.items()})
        return batch


class SharedMemory(Buffers):
    """Buffers that the parent process sees too. They serve every batch: the parent copies it before it asks again."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[tuple[tuple[int, ...], torch.dtype, int], Tensor] = {}
        self._turn = itertools.count()

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]

    def begin(self) -> None:
        """A new batch: buffers may be used anew."""
        self._turn = itertools.count()

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """As `Buffers.empty`."""
        key = (shape, dtype, next(self._turn))
        if key not in self._made:
            self._made[key] = torch.empty(shape, dtype=dtype).share_memory_()
        return self._made[key]

    def number(self, tensor: Tensor) -> int | None:
        """Which of these buffers a tensor is."""
        return next((place for place, made in enumerate(self._made.values()) if made is tensor), None)


class Shared:
    """A tensor in a shared buffer, which travels only the first time."""

    __slots__ = ("number", "tensor")

    def __init__(self, number: int, tensor: Tensor | None) -> None:
        self.number, self.tensor = number, tensor


class InWorker:
    """A `BatchMaker` in a worker process, its large tensors left in shared memory."""

    def __init__(self, maker: BatchMaker) -> None:
        self._maker = maker
        self._memory: SharedMemory | None = None
        self._sent: set[int] = set()

    def __call__(self, chosen: list[Any]) -> Any:
        """The batch, with `Shared` for its large tensors."""
        if self._memory is None:  # the first batch in this process
            torch.set_num_threads(1)
            self._memory = self._maker.buffers = SharedMemory()
        self._memory.begin()
        return self._describe(self._maker(chosen))

    def _describe(self, batch: Any) -> Any:
        if isinstance(batch, Tensor):
            assert self._memory is not None
            number = self._memory.number(batch)
            if number is None:
                return batch
            known = number in self._sent
            self._sent.add(number)
            return Shared(number, None if known else batch)
        return _each(batch, self._describe)


class OutOfWorker(OwnedFunction):
    """The parent's side: asks a worker process, and copies what it left in shared memory.

    Args:
        maker: what to do, in the worker.
        context: start method, None for the platform's.
        buffers: memory for batches, of this process.
    """

    def __init__(self, maker: BatchMaker, context: str | None, buffers: Buffers) -> None:
        self._ask = RemoteFunction(InWorker(maker), context)
        self._buffers = buffers
        self._seen: dict[int, Tensor] = {}

    def __call__(self, chosen: list[Any]) -> Any:
        """The batch, in memory of this process."""
        return self._take(self._ask(chosen))

    def close(self) -> None:
        """End the process."""
        self._ask.close()

    def _take(self, batch: Any) -> Any:
        if isinstance(batch, Shared):
            if batch.tensor is not None:
                self._seen[batch.number] = batch.tensor
            shared = self._seen[batch.number]
            return self._buffers.empty(tuple(shared.shape), shared.dtype).copy_(shared)
        return _each(batch, self._take)


def _each(batch: Any, change: Any) -> Any:
    if type(batch) is dict:
        return {key: change(value) for key, value in batch.items()}
    if type(batch) is list:
        return [change(value) for value in batch]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(change, batch))
    return batch

"""What workers send: batches with an account of where they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data._utils.pin_memory import pin_memory

# In the place of a message: the shard is in this process and only counts, so it can be asked.
COUNTED = ("counted", b"")


class Traced:
    """A batch, where it comes from, and the message about its origin's state.

    Attributes:
        batch: what the user gets.
        origin: number of the batch, or of the shard it was read from.
        message: of an `Encoder`, None where no snapshot was due.
    """

    __slots__ = ("batch", "message", "origin")

    def __init__(self, batch: Any, origin: int, message: tuple[str, bytes] | None = None) -> None:
        self.batch, self.origin, self.message = batch, origin, message

    def pin_memory(self, device: str | None = None) -> Traced:
        """What DataLoader's pinning thread calls."""
        pinned = pin_memory(self.batch, device)
        return Traced(pinned, self.origin, self.message)


class View:
    """A loader as its iterator is to see it: with some attributes replaced."""

    def __init__(self, loader: Any, **replaced: Any) -> None:
        self._loader = loader
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class NumberedDataset:
    """A map-style data set that is asked for (number, indices) and answers (number, samples)."""

    def __init__(self, dataset: Any, batched: bool) -> None:
        self._dataset = dataset
        self._batched = batched

    def __getitems__(self, numbered: tuple[int, Any]) -> tuple[int, Any]:
        return self[numbered]

    def __getitem__(self, numbered: tuple[int, Any]) -> tuple[int, Any]:
        number, indices = numbered
        if not self._batched:
            return number, self._dataset[indices]
        if (many := getattr(self._dataset, "__getitems__", None)) is not None:
            return number, many(indices)
        return number, [self._dataset[index] for index in indices]


class NumberedCollate:
    """A collate function over (number, samples)."""

    def __init__(self, collate_fn: Callable[[Any], Any]) -> None:
        self._collate_fn = collate_fn

    def __call__(self, numbered: tuple[int, Any]) -> Traced:
        number, samples = numbered
        return Traced(self._collate_fn(samples), number)


def as_it_is(batch: Any) -> Any:
    """The collate function of batches that are finished."""
    return batch

"""What workers send: batches with an account of where they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

# In the place of a message: the shard is in this process and only counts, so it can be asked.
COUNTED = ("counted", b"")


class Traced:
    """A batch, where it comes from, and the message about its origin's state.

    Attributes:
        batch: what the user gets.
        origin: number of the batch, or of the shard it was read from; None for the next batch in order.
        message: of an `Encoder`, None where no snapshot was due.
    """

    __slots__ = ("batch", "message", "origin")

    def __init__(self, batch: Any, origin: int | None, message: tuple[str, bytes] | None = None) -> None:
        self.batch, self.origin, self.message = batch, origin, message

    def pin_memory(self, device: str | None = None) -> Traced:
        """What DataLoader's pinning thread calls."""
        pinned = pin_memory(self.batch, device)
        return Traced(pinned, self.origin, self.message)


class Failed:
    """In the place of a batch: what was raised while it was made.

    Args:
        error: the exception, being handled.
    """

    def __init__(self, error: Exception) -> None:
        # An exception of a worker travels as torch sends it, with its traceback written down.
        info = get_worker_info()
        where = None if info is None else f"in DataLoader worker process {info.id}"
        self._error: Any = error if where is None else ExceptionWrapper(where=where)

    def raise_(self) -> NoReturn:
        """Raise it here."""
        if isinstance(self._error, ExceptionWrapper):
            self._error.reraise()
        raise self._error


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
        try:
            return number, self._samples(indices)
        except Exception as error:  # raised again in the main process, which has to know of which batch it is
            return number, Failed(error)

    def _samples(self, indices: Any) -> Any:
        if not self._batched:
            return self._dataset[indices]
        if (many := getattr(self._dataset, "__getitems__", None)) is not None:
            return many(indices)
        return [self._dataset[index] for index in indices]


class NumberedCollate:
    """A collate function over (number, samples)."""

    def __init__(self, collate_fn: Callable[[Any], Any]) -> None:
        self._collate_fn = collate_fn

    def __call__(self, numbered: tuple[int, Any]) -> Traced:
        number, samples = numbered
        if type(samples) is Failed:
            return Traced(samples, number)
        try:
            return Traced(self._collate_fn(samples), number)
        except Exception as error:  # raised again in the main process
            return Traced(Failed(error), number)


def as_it_is(batch: Any) -> Any:
    """The collate function of batches that are finished."""
    return batch

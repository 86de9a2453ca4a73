"""Pipes that change the order of samples, by seeds that a data loader or the user sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from flambeau.data.datapipes._columns import check_function, check_positional
from flambeau.data.datapipes._seeded import Seeded
from flambeau.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


def below(bits: Callable[[int], int], count: int) -> int:
    """`rng.randint(0, count - 1)` without its cost; `bits` is `rng.getrandbits`. The draws are the same."""
    width = count.bit_length()
    drawn = bits(width)
    while drawn >= count:
        drawn = bits(width)
    return drawn


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Seeded[T_co]):
    """Yields samples in random order, from a buffer that is kept full (functional name: `shuffle`).

    Args:
        datapipe: source.
        buffer_size: samples in the buffer; the order is uniformly random when all fit.
        unbatch_level: take batches apart first, that many levels deep; -1 for all.

    Note:
        torch's `DataLoader(shuffle=...)` turns it on and off and seeds it with a seed that all workers and ranks share:
        put it before `sharding_filter`.
    """

    state_fields = ("_rng", "_seed", "_pass_seed", "_chained", "_buffer")
    _buffer: list[Any]

    def __init__(self, datapipe: IterDataPipe[T_co], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError(f"buffer_size has to be > 0, got {buffer_size}.")
        super().__init__()
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size
        self._enabled = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turn shuffling on or off; returns the pipe itself."""
        self._enabled = shuffle
        return self

    def reset(self) -> None:
        """Go back to the beginning."""
        self._buffer = []
        if self._enabled:
            super().reset()

    def __iter__(self) -> Iterator[T_co]:
        return self._shuffled() if self._enabled else self._straight()

    def _shuffled(self) -> Iterator[T_co]:
        buffer, size, bits = self._buffer, self.buffer_size, self._rng.getrandbits
        for item in self.datapipe:
            if len(buffer) < size:
                buffer.append(item)
                continue
            index = below(bits, size)
            chosen, buffer[index] = buffer[index], item
            yield chosen
        while buffer:
            yield buffer.pop(below(bits, len(buffer)))

    def _straight(self) -> Iterator[T_co]:
        while self._buffer:  # left by a state that was taken while shuffling was on
            yield self._buffer.pop()
        yield from self.datapipe

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("in_batch_shuffle")
class InBatchShufflerIterDataPipe(Seeded[DataChunk[Any]]):
    """Shuffles the samples of each batch (functional name: `in_batch_shuffle`).

    Args:
        datapipe: source of batches.
    """

    def __init__(self, datapipe: IterDataPipe[DataChunk[Any]]) -> None:
        super().__init__()
        self.datapipe = datapipe
        self._enabled = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turn shuffling on or off; returns the pipe itself."""
        self._enabled = shuffle
        return self

    def __iter__(self) -> Iterator[DataChunk[Any]]:
        for batch in self.datapipe:
            yield DataChunk(self._rng.sample(list(batch), len(batch))) if self._enabled else batch

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("shuffled_flatmap")
class ShuffledFlatMapperIterDataPipe(Seeded[T_co]):
    """Expands several items at the same time and takes the next sample from a random one (name: `shuffled_flatmap`).

    Args:
        datapipe: source.
        fn: from an item to an iterable; the item itself when None.
        input_col: as for `map`.
        buffer_size: how many items are expanded at the same time.
    """

    state_fields = ("_rng", "_seed", "_pass_seed", "_chained", "_items", "_taken", "_waiting", "_choice", "_ended")
    transient = ("_open",)

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        fn: Callable[..., Any] | None = None,
        input_col: Any = None,
        buffer_size: int = 100,
    ) -> None:
        if buffer_size <= 0:
            raise ValueError(f"buffer_size has to be > 0, got {buffer_size}.")
        super().__init__()
        self.datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        self.buffer_size = buffer_size
        self._enabled = True
        if fn is not None:
            check_function(fn)
            check_positional(fn, input_col)

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turn shuffling on or off; off, it is `flatmap`. Returns the pipe itself."""
        self._enabled = shuffle
        return self

    def reset(self) -> None:
        """Go back to the beginning."""
        super().reset()
        self._items: list[Any] = []
        self._taken: list[int] = []
        self._waiting: list[Any] = []  # the next item, which has no room yet
        self._choice: int | None = None  # drawn, and not used yet
        self._ended = False

    def __iter__(self) -> Iterator[T_co]:
        # Upstream: while there is no room for the next item the choice is drawn ahead, from as many as have room; at
        # the end before each sample, from as many as are left.
        opened = [_skipped(self._expand(item), count) for item, count in zip(self._items, self._taken, strict=True)]
        source = iter(self.datapipe)
        most = self.buffer_size if self._enabled else 1
        while self._wait_for(source):
            if self._choice is None:
                self._choice = self._draw(most)
            while len(opened) == most:
                choice = self._choice
                for sample in opened[choice]:
                    self._taken[choice] += 1
                    self._choice = self._draw(most)
                    yield sample
                    break
                else:
                    self._close(opened, choice)
            item = self._waiting.pop()
            self._items.append(item)
            self._taken.append(0)
            opened.append(iter(self._expand(item)))
        while opened:
            choice = self._draw(len(opened))
            for sample in opened[choice]:
                self._taken[choice] += 1
                yield sample
                break
            else:
                self._close(opened, choice)

    def _wait_for(self, source: Iterator[Any]) -> bool:
        """Whether there is a next item."""
        if not self._waiting and not self._ended:
            for item in source:
                self._waiting.append(item)
                break
            else:
                self._ended = True
        return bool(self._waiting)

    def _draw(self, count: int) -> int:
        return below(self._rng.getrandbits, count) if self._enabled else 0

    def _close(self, opened: list[Iterator[Any]], choice: int) -> None:
        for held in (opened, self._items, self._taken):
            del held[choice]

    def _expand(self, item: Any) -> Any:
        from flambeau.data.datapipes._columns import argument_getter

        arguments = argument_getter(self.input_col)(item)
        if self.fn is None:
            return arguments
        return self.fn(*arguments) if isinstance(self.input_col, (list, tuple)) else self.fn(arguments)

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} has no length: how many samples the function gives is not known.")


def _skipped(samples: Any, count: int) -> Iterator[Any]:
    iterator = iter(samples)
    for _ in range(count):
        next(iterator)
    return iterator

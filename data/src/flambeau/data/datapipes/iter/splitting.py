"""Pipes that make several streams of one."""

from __future__ import annotations

import copy as copying
import random
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from flambeau.data.datapipes._columns import Column, check_function, kept_columns
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils.streams import StreamWrapper

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K")


class ChildIterDataPipe(IterDataPipe[T_co]):
    """One of the streams; its position is part of the state of what it was split from.

    Args:
        main_datapipe: the pipe that reads the source.
        instance_id: which stream this is.
    """

    state_fields = ()

    def __init__(self, main_datapipe: _Split, instance_id: int) -> None:
        self.main_datapipe = main_datapipe
        self.instance_id = instance_id

    def reset(self) -> None:
        """Go back to the beginning."""
        self.main_datapipe.join(self.instance_id)

    def __iter__(self) -> Iterator[T_co]:
        return self.main_datapipe.read(self.instance_id)

    def __len__(self) -> int:
        return len(self.main_datapipe)  # type: ignore[arg-type]


class _Split(IterDataPipe[Any]):
    """Base: reads the source once for all children of a pass, and keeps what some of them have not read yet.

    A pass begins when a child that took part in the last one begins again.
    """

    _replayable = False
    transient = ("_source",)

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, name: str) -> None:
        if num_instances < 1:
            raise ValueError(f"{name}: num_instances has to be >= 1, got {num_instances}.")
        if buffer_size < 0:
            if buffer_size != -1:
                raise ValueError(f"{name}: buffer_size has to be >= 0, or -1 for no limit; got {buffer_size}.")
            warnings.warn(
                f"{name}: with buffer_size=-1 memory may run out when one stream is read far ahead.", stacklevel=4
            )
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        self.name = name
        self._restart()
        self._pass = 0
        self._joined = [0] * num_instances

    def children(self) -> list[IterDataPipe[Any]]:
        """The streams."""
        return [ChildIterDataPipe(self, number) for number in range(self.num_instances)]

    def join(self, instance: int) -> None:
        """Let a child take part in the pass, or begin a new one."""
        if self._joined[instance] == self._pass:
            if self._pass and not self._all_read():
                warnings.warn(
                    f"{self.name}: one stream begins again while others were not read to their end; all begin again.",
                    stacklevel=2,
                )
            self._pass += 1
            self._restart()
            self._resuming = False
        self._joined[instance] = self._pass

    def _restart(self) -> None:
        self._source: Iterator[Any] | None = None
        self._ended = False

    def _all_read(self) -> bool:
        raise NotImplementedError

    def _pull(self) -> Any:
        """The next sample of the source; StopIteration at its end."""
        if self._source is None:
            self._source = iter(self.main_datapipe)
        try:
            return next(self._source)
        except StopIteration:
            self._ended = True
            raise

    def read(self, instance: int) -> Iterator[Any]:
        """The samples of one child."""
        current = self._pass
        while True:
            if self._pass != current:
                raise RuntimeError(
                    f"this iterator of a stream of {self.name} is invalid: all streams have begun again."
                )
            try:
                sample = self._take(instance)
            except StopIteration:
                return
            yield sample

    def _take(self, instance: int) -> Any:
        raise NotImplementedError

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over buffers and positions; the source goes on by itself."""
        self._source = None
        super().set_state(state)

    def _has_begun(self, readers: list[Any]) -> bool:
        return self._resuming or any(
            self._pass > 0 and self._joined[reader.instance_id] == self._pass
            for reader in readers
            if isinstance(reader, ChildIterDataPipe)
        )

    def _overflow(self) -> BufferError:
        return BufferError(
            f"{self.name}: more than buffer_size={self.buffer_size} samples wait for a stream that is "
            "read more slowly. Read "
            "the streams side by side, or raise buffer_size (-1 for no limit)."
        )

    def __getstate__(self) -> Any:
        # A copy has not begun.
        fresh = copying.copy(self.__dict__)
        hook = self._hook("getstate_hook")
        for name in (*self.transient, *(self.state_fields or ()), "_live", "_begun", "_resuming", "_touched"):
            fresh.pop(name, None)
        return fresh if hook is None else hook(fresh)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._restart()
        self._pass = 0
        self._joined = [0] * self.num_instances


class _ForkerIterDataPipe(_Split):
    state_fields = ("_waiting", "_read", "_ended", "_pass", "_joined")

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, copy: str | None) -> None:
        super().__init__(datapipe, num_instances, buffer_size, "fork")
        functions: dict[Any, Any] = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}
        if copy not in functions:
            raise ValueError(f"fork: copy has to be None, 'shallow' or 'deep'; got {copy!r}.")
        self.copy_fn = functions[copy]

    def _restart(self) -> None:
        super()._restart()
        self._waiting: deque[Any] = deque()
        # Samples each child has read; the first one in the buffer is the slowest child's next.
        self._read = [0] * self.num_instances

    def _all_read(self) -> bool:
        return self._ended and not self._waiting

    def _take(self, instance: int) -> Any:
        first = min(self._read)
        offset = self._read[instance] - first
        if offset == len(self._waiting):
            if self._ended:
                raise StopIteration
            sample = self._pull()
            if 0 <= self.buffer_size <= offset and self.num_instances > 1:
                raise self._overflow()
            self._waiting.append(sample)
        sample = self._waiting[offset]
        self._read[instance] += 1
        if offset == 0 and min(self._read) > first:
            self._waiting.popleft()
        return sample if self.copy_fn is None else self.copy_fn(sample)

    def __len__(self) -> int:
        return len(self.main_datapipe)  # type: ignore[arg-type]


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Several streams that each give every sample (functional name: `fork`). Calling it gives the list of them.

    Args:
        datapipe: source.
        num_instances: how many streams.
        buffer_size: samples that may wait for the slowest stream; -1 for no limit.
        copy: None: all streams give the same objects; 'shallow' or 'deep': each its own copy.

    Raises:
        BufferError: while iterating, when a stream is read too far ahead.
    """

    def __new__(  # type: ignore[misc]  # upstream: calling the class gives the streams
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> list[IterDataPipe[Any]]:
        """Build the pipes that the class stands for."""
        return _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy).children()

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> None:
        """Never called: `__new__` gives a list."""


class _DemultiplexerIterDataPipe(_Split):
    state_fields: ClassVar[tuple[str, ...] | None] = ("_waiting", "_ended", "_pass", "_joined")

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
        buffer_size: int,
        name: str = "demux",
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size, name)
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none

    def _restart(self) -> None:
        super()._restart()
        self._waiting: list[deque[Any]] = [deque() for _ in range(self.num_instances)]

    def _all_read(self) -> bool:
        return self._ended and not any(self._waiting)

    def _take(self, instance: int) -> Any:
        if self._waiting[instance]:
            return self._waiting[instance].popleft()
        while not self._ended:
            sample = self._pull()
            number = self._classify(sample)
            if number == instance:
                return sample
            if number is None:
                StreamWrapper.close_streams(sample)
                continue
            self._waiting[number].append(sample)
            if 0 <= self.buffer_size < sum(map(len, self._waiting)):
                raise self._overflow()
        raise StopIteration

    def _classify(self, sample: Any) -> int | None:
        number = self.classifier_fn(sample)
        if number is None and self.drop_none:
            return None
        if number is None or not 0 <= number < self.num_instances:
            raise ValueError(
                f"demux: the classifier has to give a number from 0 to {self.num_instances - 1}, it gave {number!r}."
                + (" Pass drop_none=True to leave such samples out." if number is None else "")
            )
        return int(number)


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Several streams of which each sample goes to one (functional name: `demux`). Calling it gives the list of them.

    Args:
        datapipe: source.
        num_instances: how many streams.
        classifier_fn: from a sample to the number of its stream, counted from 0.
        drop_none: leave out samples for which it gives None; otherwise None is an error.
        buffer_size: samples that may wait for streams that are read more slowly; -1 for no limit.

    Raises:
        BufferError: while iterating, when a stream is read too far ahead.
    """

    def __new__(  # type: ignore[misc]
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> list[IterDataPipe[Any]]:
        """Build the pipes that the class stands for."""
        check_function(classifier_fn)
        return _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size).children()

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> None:
        """Never called: `__new__` gives a list."""


class _RoundRobinDemultiplexerIterDataPipe(_DemultiplexerIterDataPipe):
    state_fields: ClassVar[tuple[str, ...] | None] = (*(_DemultiplexerIterDataPipe.state_fields or ()), "_next")

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int) -> None:
        super().__init__(datapipe, num_instances, len, False, buffer_size, "round_robin_demux")

    def _restart(self) -> None:
        super()._restart()
        self._next = 0

    def _classify(self, sample: Any) -> int:
        number = self._next
        self._next = (number + 1) % self.num_instances
        return number

    def __len__(self) -> int:
        # Upstream: as if each stream gave everything, for it cannot know which stream is asked.
        return len(self.main_datapipe)  # type: ignore[arg-type]


class _RoundRobinChild(ChildIterDataPipe[Any]):
    def __len__(self) -> int:
        count = self.main_datapipe.num_instances
        total = len(self.main_datapipe.main_datapipe)  # type: ignore[arg-type]
        return total // count + (self.instance_id < total % count)


@functional_datapipe("round_robin_demux")
class RoundRobinDemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Several streams that get the samples in turn (functional name: `round_robin_demux`). Gives the list of them.

    Args:
        datapipe: source.
        num_instances: how many streams.
        buffer_size: samples that may wait for streams that are read more slowly; -1 for no limit.
    """

    def __new__(  # type: ignore[misc]
        cls, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000
    ) -> list[IterDataPipe[Any]]:
        """Build the pipes that the class stands for."""
        main = _RoundRobinDemultiplexerIterDataPipe(datapipe, num_instances, buffer_size)
        return [_RoundRobinChild(main, number) for number in range(num_instances)]

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000) -> None:
        """Never called: `__new__` gives a list."""


@functional_datapipe("unzip")
class UnZipperIterDataPipe(IterDataPipe[Any]):
    """One stream for each column of samples (functional name: `unzip`). Calling it gives the list of them.

    Args:
        source_datapipe: source of sequences.
        sequence_length: length of each sample, >= 1.
        buffer_size: samples that may wait for the slowest stream; -1 for no limit.
        columns_to_skip: columns without a stream.
    """

    def __new__(  # type: ignore[misc]
        cls,
        source_datapipe: IterDataPipe[Sequence[Any]],
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: Sequence[int] | None = None,
    ) -> list[IterDataPipe[Any]]:
        """Build the pipes that the class stands for."""
        columns = kept_columns(sequence_length, columns_to_skip)
        streams = source_datapipe.fork(len(columns), buffer_size=buffer_size)
        return [stream.map(Column(number)) for stream, number in zip(streams, columns, strict=True)]

    def __init__(
        self,
        source_datapipe: IterDataPipe[Sequence[Any]],
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: Sequence[int] | None = None,
    ) -> None:
        """Never called: `__new__` gives a list."""


class _SplitterIterator(IterDataPipe[T_co], Generic[T_co]):
    """The samples that are drawn for one key; every such stream reads the source for itself."""

    state_fields = ("_rng", "_remaining")

    def __init__(self, source_datapipe: IterDataPipe[T_co], weights: dict[Any, float], seed: Any, target: Any) -> None:
        self.source_datapipe = source_datapipe
        self.weights = weights
        self.seed = seed
        self.target = target

    def override_seed(self, seed: Any) -> _SplitterIterator[T_co]:
        """Draw with another seed from the next pass on; give all streams of a split the same one."""
        self.seed = seed
        return self

    def reset(self) -> None:
        self._rng = random.Random(self.seed)
        self._remaining = list(self.weights.values())

    def __iter__(self) -> Iterator[T_co]:
        numbers = range(len(self._remaining))
        target = list(self.weights).index(self.target)
        for sample in self.source_datapipe:
            if sum(self._remaining) <= 0:
                raise ValueError(
                    f"random_split: the source has more samples than total_length={sum(self.weights.values()):g}."
                )
            drawn = self._rng.choices(numbers, self._remaining)[0]
            self._remaining[drawn] = max(self._remaining[drawn] - 1, 0)
            if drawn == target:
                yield sample

    def __len__(self) -> int:
        length = self.weights[self.target]
        if abs(length - round(length)) > 1e-9:
            raise TypeError(
                f"the stream {self.target!r} gets {length:g} samples on average, so its length is not known."
            )
        return round(length)


@functional_datapipe("random_split")
class RandomSplitterIterDataPipe(IterDataPipe[Any]):
    """Divides the samples at random into parts of given sizes (functional name: `random_split`).

    Sizes are exact where `total_length * weight / sum(weights)` is a whole number. The parts are read one after the
    other: each reads the source for itself and keeps the samples that are drawn for it.

    Args:
        source_datapipe: source, in the same order at every pass.
        weights: key of a part -> its weight.
        seed: of the draws.
        total_length: length of the source; `len(source_datapipe)` when None.
        target: the key of the one part that is wanted.

    Returns:
        A list of the parts in the order of `weights`, or the one part.

    Raises:
        TypeError: the length was not given, and the source has none.
        KeyError: `target` is no key of `weights`.
    """

    def __new__(
        cls,
        source_datapipe: IterDataPipe[Any],
        weights: dict[K, int | float],
        seed: Any,
        total_length: int | None = None,
        target: K | None = None,
    ) -> Any:
        """Build the pipes that the class stands for."""
        if total_length is None:
            total_length = len(source_datapipe)  # type: ignore[arg-type]
        if not weights or any(weight < 0 for weight in weights.values()) or not sum(weights.values()):
            raise ValueError(f"random_split: weights have to be >= 0 and not all 0; got {weights}.")
        whole = sum(weights.values())
        scaled = {key: weight * total_length / whole for key, weight in weights.items()}
        if target is not None and target not in scaled:
            raise KeyError(f"random_split: target={target!r} is none of {list(scaled)}.")
        parts = {key: _SplitterIterator(source_datapipe, scaled, seed, key) for key in scaled}
        return list(parts.values()) if target is None else parts[target]

    def __init__(
        self,
        source_datapipe: IterDataPipe[Any],
        weights: dict[Any, int | float],
        seed: Any,
        total_length: int | None = None,
        target: Any = None,
    ) -> None:
        """Never called: `__new__` gives another class's object, or a list."""

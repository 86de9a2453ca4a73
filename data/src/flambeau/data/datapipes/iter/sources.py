"""Where pipelines begin: anything that can be iterated, a pipe of keys, a sampler."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.utils.data import Sampler, SequentialSampler

from flambeau.data.datapipes._graph import is_pipe
from flambeau.data.datapipes.datapipe import IterDataPipe, MapDataPipe

T_co = TypeVar("T_co", covariant=True)


class IterableWrapperIterDataPipe(IterDataPipe[T_co]):
    """Makes a pipe of anything that can be iterated.

    A sequence is resumed by position; an iterable with a `state_dict` of its own by that; any other by reading over the
    samples that were taken, for which it has to give the same ones again.

    Args:
        iterable: the samples.
        deepcopy: read from a copy, so that a pass cannot change the original. Where it cannot be copied (a generator,
            an open file) the original is read, with a warning.

    Example:
        >>> list(IterableWrapperIterDataPipe(range(3)))
        [0, 1, 2]
    """

    state_fields = ("_position", "_inner")

    def __init__(self, iterable: Iterable[T_co], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    @property
    def _graph_attributes(self) -> tuple[str, ...]:
        # Data is not looked through for pipes, unless it plainly is a collection of them.
        first: Any = self.iterable
        if isinstance(first, (list, tuple)):
            first = first[0] if first else None
        elif isinstance(first, dict):
            first = next(iter(first.values()), None)
        return ("iterable",) if is_pipe(first) else ()

    def reset(self) -> None:
        """Go back to the beginning."""
        self._position = 0
        self._inner: Any = None
        self._iterator: Any = None

    def __iter__(self) -> Iterator[T_co]:
        data: Any = self._data()
        if isinstance(data, (list, tuple, range, str, bytes)):
            for index in range(self._position, len(data)):
                self._position = index + 1
                item: Any = data[index]
                yield item
            return
        self._iterator = self._resumed(data)
        for item in self._iterator:
            self._position += 1
            yield item

    def get_state(self) -> dict[str, Any]:
        """The position, and the state of an iterator or iterable that has one."""
        holder: Any = next((one for one in (getattr(self, "_iterator", None), self.iterable) if _stateful(one)), None)
        return {"_position": self._position, "_inner": None if holder is None else holder.state_dict()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on at a position."""
        self._iterator = None
        super().set_state(state)

    def _data(self) -> Any:
        kind = type(self.iterable)
        if not self.deepcopy or kind in (range, str, bytes) or is_pipe(self.iterable):
            return self.iterable
        try:
            return copy.deepcopy(self.iterable)
        except TypeError:
            warnings.warn(
                f"{kind.__name__} cannot be copied: the pipe reads the original, so a second pass may find it used up. "
                "Pass deepcopy=False to say that this is meant.",
                stacklevel=2,
            )
            return self.iterable

    def _resumed(self, data: Any) -> Iterator[Any]:
        if self._inner is None:
            return itertools.islice(data, self._position, None) if self._position else iter(data)
        if hasattr(data, "load_state_dict"):
            data.load_state_dict(self._inner)
            return iter(data)
        iterator: Any = iter(data)
        iterator.load_state_dict(self._inner)  # it gave the state
        return iterator

    def _configuration(self) -> dict[str, Any]:
        state = super()._configuration()
        state.pop("_iterator", None)
        return state

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]  # TypeError is what len() gives where there is none


def _stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and not is_pipe(value)


class MapToIterConverterIterDataPipe(IterDataPipe[T_co]):
    """Reads a pipe of keys in the order of its indices; `MapDataPipe.to_iter_datapipe()` builds it.

    Args:
        datapipe: the pipe of keys.
        indices: keys in the order of reading; `range(len(datapipe))` when None.
    """

    state_fields = ("_position",)

    def __init__(self, datapipe: MapDataPipe[T_co], indices: list[Any] | None = None) -> None:
        if not isinstance(datapipe, MapDataPipe):
            raise TypeError(f"expected a MapDataPipe, got {type(datapipe).__name__}.")
        self.datapipe = datapipe
        self.indices = indices

    def reset(self) -> None:
        """Go back to the beginning."""
        self._position = 0

    def __iter__(self) -> Iterator[T_co]:
        keys: Sequence[Any] = range(len(self.datapipe)) if self.indices is None else self.indices  # type: ignore[arg-type]
        for number in range(self._position, len(keys)):
            self._position = number + 1
            yield self.datapipe[keys[number]]

    def __len__(self) -> int:
        return len(self.datapipe) if self.indices is None else len(self.indices)  # type: ignore[arg-type]


MapDataPipe.register_datapipe_as_function("to_iter_datapipe", MapToIterConverterIterDataPipe)


class SamplerIterDataPipe(IterDataPipe[Any]):
    """Yields what a sampler draws: indices, or batches of them.

    Args:
        datapipe: the samples that the sampler is built on; only its length is used by torch's samplers.
        sampler: class of the sampler.
        sampler_args: further positional arguments of the sampler.
        sampler_kwargs: its keyword arguments, without `data_source`.
    """

    state_fields = ("_position", "_generator_state")
    transient = ("_indices",)

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: type[Sampler[Any]] = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.datapipe = datapipe
        self.sampler_args = sampler_args or ()
        self.sampler_kwargs = {"data_source": datapipe, **(sampler_kwargs or {})}
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def reset(self) -> None:
        """Go back to the beginning."""
        self._position = 0
        # Samplers draw from torch's generator; from here they will draw the same again.
        self._generator_state = torch.get_rng_state().numpy().tobytes()
        self._indices = list(self.sampler)

    def set_state(self, state: dict[str, Any]) -> None:
        """Draw the same indices, go on at a position."""
        super().set_state(state)
        self._indices = self._drawn()

    def __iter__(self) -> Iterator[Any]:
        for position in range(self._position, len(self._indices)):
            self._position = position + 1
            yield self._indices[position]

    def _drawn(self) -> list[Any]:
        now = torch.get_rng_state()
        try:
            torch.set_rng_state(torch.frombuffer(bytearray(self._generator_state), dtype=torch.uint8))
            return list(self.sampler)
        finally:
            torch.set_rng_state(now)

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

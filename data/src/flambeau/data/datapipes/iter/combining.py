"""Pipes that make one stream of several."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from typing import Any, TypeVar

import torch

from flambeau.data.datapipes._graph import is_pipe
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


def _checked(name: str, datapipes: tuple[Any, ...]) -> tuple[Any, ...]:
    if not datapipes:
        raise ValueError(f"{name} needs at least one pipe.")
    wrong = [type(pipe).__name__ for pipe in datapipes if not (is_pipe(pipe) and hasattr(pipe, "__iter__"))]
    if wrong:
        raise TypeError(f"{name} takes iterable pipes only, got {', '.join(wrong)}; wrap data with IterableWrapper.")
    return datapipes


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[T_co]):
    """Reads pipes one after the other (functional name: `concat`).

    Args:
        *datapipes: at least one.
    """

    state_fields = ("_current",)

    def __init__(self, *datapipes: IterDataPipe[T_co]) -> None:
        self.datapipes = _checked("concat", datapipes)

    def reset(self) -> None:
        """Go back to the beginning."""
        self._current = 0

    def __iter__(self) -> Iterator[T_co]:
        for number in range(self._current, len(self.datapipes)):
            self._current = number
            yield from self.datapipes[number]

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[tuple[Any, ...]]):
    """Tuples of one sample from each pipe, until the shortest ends (functional name: `zip`).

    Args:
        *datapipes: at least one.
    """

    state_fields = ()

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        self.datapipes = _checked("zip", datapipes)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip_longest")
class ZipperLongestIterDataPipe(IterDataPipe[tuple[Any, ...]]):
    """Tuples of one sample from each pipe, until the longest ends (functional name: `zip_longest`).

    Args:
        *datapipes: at least one.
        fill_value: stands for the samples of pipes that have ended.
    """

    state_fields = ()

    def __init__(self, *datapipes: IterDataPipe[Any], fill_value: Any = None) -> None:
        self.datapipes = _checked("zip_longest", datapipes)
        self.fill_value = fill_value

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return itertools.zip_longest(*self.datapipes, fillvalue=self.fill_value)

    def __len__(self) -> int:
        return max(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[T_co]):
    """One sample from each pipe in turn, until the shortest ends (functional name: `mux`).

    Only whole rounds are given out.

    Args:
        *datapipes: at least one.
    """

    state_fields = ("_round",)

    def __init__(self, *datapipes: IterDataPipe[T_co]) -> None:
        self.datapipes = _checked("mux", datapipes)

    def reset(self) -> None:
        """Go back to the beginning."""
        self._round: list[Any] = []

    def __iter__(self) -> Iterator[T_co]:
        while self._round:
            yield self._round.pop(0)
        for samples in zip(*self.datapipes, strict=False):
            self._round = list(samples)
            while self._round:
                yield self._round.pop(0)

    def __len__(self) -> int:
        return len(self.datapipes) * min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux_longest")
class MultiplexerLongestIterDataPipe(IterDataPipe[T_co]):
    """One sample from each pipe in turn; pipes that have ended are passed over (functional name: `mux_longest`).

    Args:
        *datapipes: at least one.
    """

    state_fields = ("_next", "_ended")

    def __init__(self, *datapipes: IterDataPipe[T_co]) -> None:
        self.datapipes = _checked("mux_longest", datapipes)

    def reset(self) -> None:
        """Go back to the beginning."""
        self._next = 0
        self._ended: list[int] = []

    def __iter__(self) -> Iterator[T_co]:
        iterators = [iter(() if number in self._ended else pipe) for number, pipe in enumerate(self.datapipes)]
        while len(self._ended) < len(iterators):
            number = self._next
            self._next = (number + 1) % len(iterators)
            if number in self._ended:
                continue
            try:
                sample = next(iterators[number])
            except StopIteration:
                self._ended.append(number)
                continue
            yield sample

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


class SampleMultiplexerDataPipe(IterDataPipe[T_co]):
    """Takes each sample from a pipe drawn by weight, until all have ended.

    Args:
        pipes_to_weights_dict: pipe -> weight > 0; they need not sum to 1. As pipes end, the others share their weight.
        seed: of the draws, which go on from pass to pass; drawn from torch's generator when None.

    Example:
        >>> from flambeau.data.datapipes.iter import IterableWrapper
        >>> rare, common = IterableWrapper([0] * 2), IterableWrapper([1] * 4)
        >>> sorted(SampleMultiplexerDataPipe({rare: 0.1, common: 0.9}, seed=0))
        [0, 0, 1, 1, 1, 1]
    """

    state_fields = ("_rng", "_began", "_ended")

    def __init__(self, pipes_to_weights_dict: dict[IterDataPipe[T_co], float], seed: int | None = None) -> None:
        if not pipes_to_weights_dict:
            raise ValueError("SampleMultiplexer needs at least one pipe.")
        wrong = [weight for weight in pipes_to_weights_dict.values() if not weight > 0]
        if wrong:
            raise ValueError(f"weights have to be > 0, got {wrong}.")
        total = sum(pipes_to_weights_dict.values())
        self.pipes_and_weights = [(pipe, weight / total) for pipe, weight in pipes_to_weights_dict.items()]
        self.seed = int(torch.empty((), dtype=torch.int64).random_().item()) if seed is None else seed
        self._rng = random.Random(self.seed)

    def reset(self) -> None:
        """Go back to the beginning."""
        self._began = copy.copy(self._rng)
        self._ended: list[int] = []

    def get_origin(self, begun: bool) -> dict[str, Any] | None:
        """The generator as this pass began, or as the next one will."""
        return {"rng": self._began if begun else self._rng}

    def load_origin(self, origin: dict[str, Any]) -> None:
        """Take over a generator."""
        self._rng = copy.copy(origin["rng"])

    def _configuration(self) -> dict[str, Any]:
        # A copy begins a pass of its own, as the next one here would begin.
        return super()._configuration() | {"_rng": copy.copy(self._rng)}

    def __iter__(self) -> Iterator[T_co]:
        iterators = [iter(() if n in self._ended else pipe) for n, (pipe, _) in enumerate(self.pipes_and_weights)]
        while len(self._ended) < len(iterators):
            number = self._draw()
            try:
                sample = next(iterators[number])
            except StopIteration:
                self._ended.append(number)
                continue
            yield sample

    def _draw(self) -> int:
        live = [
            (number, weight) for number, (_, weight) in enumerate(self.pipes_and_weights) if number not in self._ended
        ]
        if len(live) == 1:
            return live[0][0]
        point = self._rng.random() * sum(weight for _, weight in live)
        for number, weight in live:
            point -= weight
            if point < 0:
                return number
        return live[-1][0]

    def __len__(self) -> int:
        lengths: list[int] = [len(pipe) for pipe, _ in self.pipes_and_weights]  # type: ignore[arg-type]
        return sum(lengths)

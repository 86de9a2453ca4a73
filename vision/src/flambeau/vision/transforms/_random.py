"""Where transforms take random numbers from, and how what they drew is recorded and replayed.

Numbers come from torch's default generator, with the calls and in the order of upstream, so that one seed gives the
same augmentation. `session` names another generator, or a tape of decisions, for all that runs inside it, in this
thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils.data import get_worker_info

Record = dict[str, Any]


class Tape:
    """Decisions in the order in which they are taken: written, or read again.

    Args:
        records: what `records` of another tape held; then each decision is taken as recorded.
    """

    def __init__(self, records: Sequence[Mapping[str, Any]] | None = None) -> None:
        self.records: list[Record] = []
        self._waiting = None if records is None else iter(records)

    def decision(self, name: str, make: Callable[[], Record]) -> Record:
        """The next decision, which the transform called `name` takes.

        Raises:
            ValueError: the recording is of another pipeline.
        """
        if self._waiting is None:
            params = make()
        else:
            record = next(self._waiting, None)
            if record is None or record["transform"] != name:
                found = "has ended" if record is None else f"has one of {record['transform']}"
                raise ValueError(
                    f"replay: {name} asks for its decision, but the recording {found}; replay what this pipeline "
                    "returned with return_params=True."
                )
            params = record["params"]
        self.records.append({"transform": name, "params": params})
        return params

    def finish(self) -> None:
        """Check that a recording was read to its end.

        Raises:
            ValueError: decisions are left over.
        """
        if self._waiting is not None and (record := next(self._waiting, None)) is not None:
            raise ValueError(
                f"replay: nobody asked for the decision of {record['transform']}; is it another pipeline's?"
            )


@dataclass(frozen=True)
class Session:
    """What transforms use in place of torch's default generator."""

    generator: Generator | None = None
    tape: Tape | None = None
    binding: bool = False  # the generator was given for this call: transforms leave their own aside


_DEFAULT = Session()
_SESSION: ContextVar[Session] = ContextVar("flambeau.vision.transforms", default=_DEFAULT)


def current() -> Session:
    """The session that is running. While a graph is traced there is none."""
    return _DEFAULT if torch.compiler.is_compiling() else _SESSION.get()


@contextmanager
def session(
    *, own: Generator | None = None, given: Generator | None = None, tape: Tape | None = None
) -> Iterator[Session]:
    """Run what follows with other random numbers.

    Args:
        own: a transform's own generator; one that was given for the whole call goes before it.
        given: a generator for this call, whatever the transforms inside have.
        tape: what decisions go to, or come from; None keeps the one that is running.
    """
    outer = current()
    inner = Session(outer.generator, tape or outer.tape, outer.binding)
    if given is not None:
        inner = Session(given, inner.tape, binding=True)
    elif own is not None and not outer.binding:
        inner = Session(_of_this_worker(own), inner.tape)
    token = _SESSION.set(inner)
    try:
        yield inner
    finally:
        _SESSION.reset(token)


_worker_generators: dict[int, tuple[Generator, Generator]] = {}


def _of_this_worker(generator: Generator) -> Generator:
    """A generator, or in a DataLoader's worker one that differs from worker to worker and epoch to epoch.

    A worker has a copy of the generator, in the same state as every other worker's.
    """
    worker = get_worker_info()
    if worker is None:
        return generator
    known = _worker_generators.get(id(generator))
    if known is None or known[0] is not generator:
        seed = (generator.initial_seed() ^ worker.seed * 0x9E3779B97F4A7C15) & (2**63 - 1)
        known = generator, Generator(generator.device).manual_seed(seed)
        _worker_generators[id(generator)] = known
    return known[1]


def uniform(low: float, high: float) -> float:
    """A number in [low, high), of single precision."""
    return torch.empty(1).uniform_(float(low), float(high), generator=current().generator).item()


def rand(*size: int) -> Tensor:
    """Numbers in [0, 1)."""
    return torch.rand(size, generator=current().generator)


def normal(*size: int) -> Tensor:
    """Numbers of the standard normal distribution."""
    return torch.empty(size).normal_(generator=current().generator)


def randint(low: int, high: int, size: Sequence[int] = ()) -> Tensor:
    """Integers from low to high - 1."""
    return torch.randint(low, high, tuple(size), generator=current().generator)


def integer(low: int, high: int) -> int:
    """An integer from low to high - 1."""
    return int(randint(low, high, (1,)))


def randperm(count: int) -> Tensor:
    """The numbers from 0 to count - 1 in any order."""
    return torch.randperm(count, generator=current().generator)


def weighted(weights: Sequence[float]) -> int:
    """An index, more often where the weight is larger."""
    return int(torch.multinomial(torch.tensor(weights), 1, generator=current().generator))


def dirichlet(concentrations: Tensor) -> Tensor:
    """Rows of weights [B, K] that sum to 1."""
    return torch._sample_dirichlet(concentrations, generator=current().generator)


def happens(p: float) -> bool:
    """True with probability p."""
    return bool(rand(1) < p)

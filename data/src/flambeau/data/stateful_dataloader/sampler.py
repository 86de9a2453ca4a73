"""Samplers whose place can be saved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
import torch.utils.data
from torch.utils.data import Dataset, Sampler
from torch.utils.data.distributed import DistributedSampler

from flambeau.data._cursor import SCHEMA, SamplerCursor, decode_tensor, encode_tensor


class _Passes:
    """One pass after another, each described by how it began and how many items it has given.

    Torch's batch sampler asks the sampler inside for a pass only with its first batch. So a pass is prepared by whoever
    comes first: `iter`, or the request for a state.
    """

    _given = 0
    _begun = False
    _prepared = False

    def new_pass(self) -> None:
        """Let the next `iter`, or state, be that of a new pass."""
        self._begun = self._prepared = False

    def state_dict(self) -> dict[str, Any]:
        """Plain values: the place behind the last item given."""
        if not self._begun and not self._prepared:
            self._prepare_pass()
        return {"schema": SCHEMA, "given": self._given, **self._describe()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next `iter` go on from a state."""
        self._given, self._begun, self._prepared = state_dict["given"], False, True
        self._restore(state_dict)

    def _prepare_pass(self) -> None:
        self._given, self._prepared = 0, True
        self._prepare()

    def _start(self) -> int:
        """Begin the pass that was prepared; returns how many items of it had been given."""
        if not self._prepared:
            self._prepare_pass()
        self._begun, self._prepared = True, False
        return self._given

    def _count(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._given += 1
            yield item

    def _prepare(self) -> None:
        raise NotImplementedError

    def _describe(self) -> dict[str, Any]:
        raise NotImplementedError

    def _restore(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


class RandomSampler(_Passes, torch.utils.data.RandomSampler):
    """Torch's RandomSampler with a state.

    Args: as torch's. Without a generator, the first pass takes a seed from torch's global one, and later passes follow
    from that seed.
    """

    _seed: int | None = None
    _drawn_from: torch.Tensor | None = None

    def __iter__(self) -> Iterator[int]:
        skip = self._start()
        own = self.generator
        if own is None:
            assert self._seed is not None
            self.generator = torch.Generator().manual_seed(self._seed)
        else:
            own.set_state(self._drawn_from)
        indices = super().__iter__()
        first = list(itertools.islice(indices, 1))  # what draws the order
        self.generator = own
        return self._count(itertools.islice(itertools.chain(first, indices), skip, None))

    def _prepare(self) -> None:
        if self.generator is None:
            self._seed = _next_seed(self._seed)
        else:
            self._drawn_from = self.generator.get_state()

    def _describe(self) -> dict[str, Any]:
        return {"seed": self._seed, "generator": None if self._drawn_from is None else encode_tensor(self._drawn_from)}

    def _restore(self, state: dict[str, Any]) -> None:
        self._seed = state["seed"]
        if state["generator"] is not None:
            self._drawn_from = decode_tensor(state["generator"])


class BatchSampler(_Passes, torch.utils.data.BatchSampler):
    """Torch's BatchSampler with a state.

    Args: as torch's; the order of torch's random samplers is part of the state.
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self._cursor = SamplerCursor(sampler)

    def __iter__(self) -> Iterator[list[int]]:
        self._start()
        return self._count(self._batches())

    def _batches(self) -> Iterator[list[int]]:
        while True:
            batch = list(itertools.islice(self._cursor, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return
            yield batch

    def _prepare(self) -> None:
        self._cursor.begin()

    def _describe(self) -> dict[str, Any]:
        return {"sampler": self._cursor.state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._cursor.load(state["sampler"])


class StatefulDistributedSampler(_Passes, DistributedSampler[Any]):
    """Torch's DistributedSampler with a state that any rank, of any number of ranks, can go on from.

    All ranks move at one pace, so the state is how many of the epoch's indices all have taken together. Those that
    remain are dealt out to the ranks there are after loading: each exactly once, but for the usual few that even out
    the ranks (`drop_last=False` repeats, `drop_last=True` leaves out).

    Args: as torch's.
    """

    def __init__(
        self,
        dataset: Dataset[Any] | Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle, seed, drop_last)  # type: ignore[arg-type]
        self._before = 0  # indices of the epoch that had been taken before this pass began

    def __iter__(self) -> Iterator[int]:
        self._start()
        return self._count(self._own_part(self._order()))

    def _prepare(self) -> None:
        self._before = 0

    def _describe(self) -> dict[str, Any]:
        taken = self._before + self._given * self.num_replicas
        return {"given": 0, "epoch": self.epoch, "taken": taken}  # in steps of all ranks, not in those of one

    def _restore(self, state: dict[str, Any]) -> None:
        self.epoch, self._before = state["epoch"], state["taken"]

    def _order(self) -> list[int]:
        count = len(self.dataset)  # type: ignore[arg-type]
        if not self.shuffle:
            return list(range(count))
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        return torch.randperm(count, generator=generator).tolist()

    def _own_part(self, order: list[int]) -> Iterable[int]:
        rest = order[self._before :]
        ranks = self.num_replicas
        if self.drop_last:
            rest = rest[: len(rest) // ranks * ranks]
        elif rest:
            missing = math.ceil(len(rest) / ranks) * ranks - len(rest)
            rest += list(itertools.islice(itertools.cycle(order), missing))
        return rest[self.rank :: ranks]


def _next_seed(seed: int | None) -> int:
    source = torch.default_generator if seed is None else torch.Generator().manual_seed(seed ^ 0x5DEECE66D)
    return int(torch.empty((), dtype=torch.int64).random_(generator=source).item())


__all__ = ["BatchSampler", "RandomSampler", "Sampler", "StatefulDistributedSampler"]

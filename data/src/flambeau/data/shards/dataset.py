"""Shards as one data set, and as a stream."""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from torch.utils.data import Dataset

from flambeau.data.nodes.base_node import BaseNode
from flambeau.data.shards.errors import DamagedShardError, ShardError, ShardWarning
from flambeau.data.shards.opening import open_shards
from flambeau.data.shards.shard import Shard

Decode = Callable[[dict[str, Any]], Any]


class ShardDataset(Dataset[Any]):
    """The samples of many shards under one number each: map-style, so that shuffles are exact and resuming is free.

    Args:
        shards: paths, URLs, patterns (`train-{000..099}.tar`, `*.tar`), or shards.
        decode: applied to each sample.
        verify: compare contents with checksums, where there are some.
        settings: keywords of `open_object`, for URLs.

    Raises:
        ShardError: no shards, or one that cannot be opened.
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Shard],
        decode: Decode | None = None,
        *,
        verify: bool = True,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.shards = open_shards(shards, verify=verify, settings=settings)
        self.decode = decode
        self._ends = list(itertools.accumulate(len(shard) for shard in self.shards))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, item: int) -> Any:
        place = operator.index(item)
        if not -len(self) <= place < len(self):
            raise IndexError(f"item {item} of a data set of {len(self)}.")
        place %= len(self)
        number = bisect.bisect_right(self._ends, place)
        sample = self.shards[number].read(place - (self._ends[number - 1] if number else 0))
        return sample if self.decode is None else self.decode(sample)


class ShardReader(BaseNode[Any]):
    """A node of the samples of many shards, shard after shard.

    The state is shard and place in it, so resuming costs nothing; it is of one rank. Ranks read different shards; the
    order of shards, and of the samples inside each, is drawn anew for every epoch where asked.

    Args:
        shards: as for `ShardDataset`.
        decode: applied to each sample.
        shuffle: whether to draw the order of shards, and of samples inside a shard.
        seed: with the epoch it decides the order, the same on all ranks.
        rank: of this process.
        world_size: number of processes; each reads every `world_size`-th shard.
        on_damaged: "raise", or "skip" to leave out what cannot be read, with a warning that names shard and byte.
        verify: compare contents with checksums, where there are some.
        settings: keywords of `open_object`, for URLs.

    Raises:
        ShardError: no shards. DamagedShardError: on reading.
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Shard],
        decode: Decode | None = None,
        *,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        on_damaged: Literal["raise", "skip"] = "raise",
        verify: bool = True,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if on_damaged not in ("raise", "skip"):
            raise ValueError(f"on_damaged is {on_damaged!r}, expected 'raise' or 'skip'.")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank is {rank}, expected 0 to {world_size - 1} (world_size is {world_size}).")
        self.shards = open_shards(shards, verify=verify, settings=settings)
        if len(self.shards) < world_size:
            raise ShardError(f"{len(self.shards)} shards for {world_size} ranks; expected at least one for each.")
        self.decode, self.shuffle, self.seed = decode, shuffle, seed
        self.rank, self.world_size, self.on_damaged = rank, world_size, on_damaged
        self._epoch = 0
        self._started = False
        self._shard = self._item = 0
        self._samples: Iterator[Any] = iter(())

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        if initial_state is None:
            self._epoch += int(self._started)
            self._started, self._shard, self._item = False, 0, 0
        else:
            self._check_ranks(initial_state["rank"], initial_state["world_size"])
            self._epoch, self._started = initial_state["epoch"], initial_state["started"]
            self._shard, self._item = initial_state["shard"], initial_state["item"]
        self._samples = self._read()

    def next(self) -> Any:
        """As `BaseNode.next`."""
        try:
            sample = next(self._samples)
        except DamagedShardError:
            self._samples = self._read()  # asked again, it says the same, and not that this is the end
            raise
        self._started = True
        return sample if self.decode is None else self.decode(sample)

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        place = {"epoch": self._epoch, "started": self._started, "shard": self._shard, "item": self._item}
        return {**place, "rank": self.rank, "world_size": self.world_size}

    def _check_ranks(self, rank: int, world_size: int) -> None:
        if (rank, world_size) != (self.rank, self.world_size):
            raise ValueError(
                f"ShardReader: the state is of rank {rank} of {world_size}, this is rank {self.rank} of "
                f"{self.world_size}; each rank needs its own. FastLoader over a ShardDataset resumes on any number of "
                "ranks."
            )

    def _read(self) -> Iterator[Any]:
        own = self._shuffled(range(len(self.shards)), "shards")[self.rank :: self.world_size]
        while self._shard < len(own):
            shard = self.shards[own[self._shard]]
            count = self._tolerant(shard.__len__)
            count = shard.salvage() if count is None else count
            order = self._shuffled(range(count), own[self._shard])
            while self._item < count:
                sample = self._tolerant(functools.partial(shard.read, order[self._item]))
                self._item += 1
                if sample is not None:
                    yield sample
            self._shard, self._item = self._shard + 1, 0

    def _tolerant(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except DamagedShardError as error:
            if self.on_damaged == "raise":
                raise
            warnings.warn(f"Left out: {error}", ShardWarning, stacklevel=2)
            return None

    def _shuffled(self, numbers: range, what: object) -> list[int]:
        order = list(numbers)
        if self.shuffle:
            random.Random(f"{self.seed}/{self._epoch}/{what}").shuffle(order)
        return order

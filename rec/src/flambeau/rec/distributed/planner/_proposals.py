"""Proposals that know what they add up to, so that hopeless ones are told without looking at their tables.

A greedy search proposes one change of one table after another, tens of thousands for a large model. Each proposal is
a list of options, one for each table; it carries sums that follow from those of the proposal before it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from flambeau.rec.distributed.planner._costs import Storage
from flambeau.rec.distributed.planner._options import PartitionByType, ShardingOption

__all__ = ["Proposal", "ProposalParts"]


class ProposalParts:
    """What an option adds to the sums of proposals that have it.

    Args:
        option: an option, which stays as it is.
        key: a random number.

    Attributes:
        hbm: bytes of device memory of all shards, as are the next two of other memory.
        ddr: of the host's.
        ssd: of solid-state drives.
        perf: milliseconds of all shards.
        on_each: (3,), of a table of which every device has a shard, what the least shard takes: bytes of device memory,
            bytes of the host's, and milliseconds; of others nothing.
        on_one: (3,), of a table that is on some devices, what the largest shard takes; of others nothing.
        key: see above.
    """

    __slots__ = ("ddr", "hbm", "key", "on_each", "on_one", "perf", "ssd")

    def __init__(self, option: ShardingOption, key: int) -> None:
        runs = option.cost_runs()
        self.hbm = sum(run.count * run.storage.hbm for run in runs)
        self.ddr = sum(run.count * run.storage.ddr for run in runs)
        self.ssd = sum(run.count * run.storage.ssd for run in runs)
        self.perf = sum(run.count * run.perf.total for run in runs)
        # Bytes are whole numbers of doubles as well, up to some petabytes.
        takes = [(float(run.storage.hbm), float(run.storage.ddr), run.perf.total) for run in runs]
        uniform = option.partition_by == PartitionByType.UNIFORM.value
        self.on_each = tuple(map(min, zip(*takes, strict=True))) if uniform else (0.0, 0.0, 0.0)
        self.on_one = (0.0, 0.0, 0.0) if uniform else tuple(map(max, zip(*takes, strict=True)))
        self.key = key

    @classmethod
    def of_all(cls, options: Iterable[ShardingOption]) -> dict[int, ProposalParts]:
        """Of each option by its id; the same option has the same key in every proposer that asks with the same list."""
        numbers = random.Random(0)
        return {id(option): cls(option, numbers.getrandbits(96)) for option in options}


class Proposal(list[ShardingOption]):
    """One option for each table.

    Args:
        options: the options.
        parts: what they add up to, by their ids; there may be more in it.

    Attributes:
        hbm: bytes of device memory of all, as are the next two of other memory.
        ddr: of the host's.
        ssd: of solid-state drives.
        perf: milliseconds of all shards of all.
        key: proposals with the same options have the same.
    """

    __slots__ = ("_changes", "_history", "_on_each", "_on_one", "_origin", "_parts", "ddr", "hbm", "key", "perf", "ssd")

    def __init__(self, options: Iterable[ShardingOption], parts: Mapping[int, ProposalParts]) -> None:
        super().__init__(options)
        self._parts = parts
        self.hbm = self.ddr = self.ssd = self.key = 0
        self.perf = 0.0
        of_options = [parts[id(option)] for option in self]
        for part in of_options:
            self._add(part, 1)
        # (3, tables) each: see `ProposalParts`.
        self._on_each = np.array([part.on_each for part in of_options], dtype=np.float64).reshape(-1, 3).T.copy()
        self._on_one = np.array([part.on_one for part in of_options], dtype=np.float64).reshape(-1, 3).T.copy()
        self._origin: Proposal | None = None
        self._history: list[tuple[int, ShardingOption]] = []
        self._changes = 0

    def changed(self, place: int, option: ShardingOption) -> Proposal:
        """A copy with another option for one table."""
        copy: Proposal = Proposal.__new__(Proposal)
        copy.extend(self)
        copy._parts = self._parts
        copy.hbm, copy.ddr, copy.ssd, copy.key, copy.perf = self.hbm, self.ddr, self.ssd, self.key, self.perf
        part = self._parts[id(option)]
        copy._add(self._parts[id(self[place])], -1)
        copy._add(part, 1)
        copy._on_each, copy._on_one = self._on_each.copy(), self._on_one.copy()
        copy._on_each[:, place] = part.on_each
        copy._on_one[:, place] = part.on_one
        copy[place] = option
        if self._changes == len(self._history):
            copy._origin, copy._history = self if self._origin is None else self._origin, self._history
        else:  # something else was made of it before
            copy._origin, copy._history = self, []
        copy._history.append((place, option))
        copy._changes = len(copy._history)
        return copy

    def recipe(self) -> Callable[[], Proposal]:
        """A function that makes it anew, and takes little memory: what was changed is kept once for all proposals."""
        origin, history, changes, parts = self._origin, self._history, self._changes, self._parts
        if origin is None:
            return lambda: self

        def make() -> Proposal:
            options = list(origin)
            for place, option in itertools.islice(history, changes):
                options[place] = option
            return Proposal(options, parts)

        return make

    @property
    def is_changed(self) -> bool:
        """Whether it was made by changing another one."""
        return self._origin is not None

    def largest_device(self) -> Storage:
        """Memory that the device with the largest shard takes at least, wherever shards go; of each kind for itself."""
        hbm, ddr = self._on_each[:2].sum(axis=1) + self._on_one[:2].max(axis=1, initial=0.0)
        return Storage(int(hbm), int(ddr))

    def slowest_device(self) -> float:
        """Milliseconds that the slowest device takes at least, wherever shards go.

        It is added up as plans are rated, table by table, so it is at most that rating to the last bit.
        """
        if not self:
            return 0.0
        times, slowest = self._on_each[2].copy(), self._on_one[2]
        place = int(slowest.argmax())
        times[place] += slowest[place]
        return float(np.cumsum(times)[-1])

    def _add(self, part: ProposalParts, sign: int) -> None:
        self.hbm += sign * part.hbm
        self.ddr += sign * part.ddr
        self.ssd += sign * part.ssd
        self.perf += sign * part.perf
        self.key ^= part.key

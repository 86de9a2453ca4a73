"""Proposals that know what they add up to, so that hopeless ones are told without looking at their tables.

A greedy search proposes one change of one table after another, tens of thousands for a large model. Each proposal is
a list of options, one for each table; it carries sums that follow from those of the proposal before it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from flambeau.rec.distributed.planner._options import PartitionByType, ShardingOption

__all__ = ["Proposal", "ProposalParts"]


class ProposalParts:
    """What an option adds to the sums of proposals that have it.

    Args:
        option: an option, which stays as it is.
        key: a random number.
    """

    __slots__ = ("ddr", "everywhere", "hbm", "key", "perf", "slowest", "ssd")

    def __init__(self, option: ShardingOption, key: int) -> None:
        runs = option.cost_runs()
        self.hbm = sum(run.count * run.storage.hbm for run in runs)
        self.ddr = sum(run.count * run.storage.ddr for run in runs)
        self.ssd = sum(run.count * run.storage.ssd for run in runs)
        self.perf = sum(run.count * run.perf.total for run in runs)
        self.slowest = max(run.perf.total for run in runs)
        uniform = option.partition_by == PartitionByType.UNIFORM.value
        self.everywhere = min(run.perf.total for run in runs) if uniform else 0.0
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
        everywhere: milliseconds that every device is busy with tables of which every device has a shard, at least.
        key: proposals with the same options have the same.
    """

    __slots__ = ("_parts", "ddr", "everywhere", "hbm", "key", "perf", "ssd")

    def __init__(self, options: Iterable[ShardingOption], parts: Mapping[int, ProposalParts]) -> None:
        super().__init__(options)
        self._parts = parts
        self.hbm = self.ddr = self.ssd = self.key = 0
        self.perf = self.everywhere = 0.0
        for option in self:
            self._add(parts[id(option)], 1)

    def changed(self, place: int, option: ShardingOption) -> Proposal:
        """A copy with another option for one table."""
        copy = Proposal((), self._parts)
        copy.extend(self)
        copy.hbm, copy.ddr, copy.ssd, copy.key = self.hbm, self.ddr, self.ssd, self.key
        copy.perf, copy.everywhere = self.perf, self.everywhere
        copy._add(self._parts[id(self[place])], -1)
        copy._add(self._parts[id(option)], 1)
        copy[place] = option
        return copy

    def slowest_device(self) -> float:
        """Milliseconds that the slowest device takes at least, wherever the shards go."""
        largest = max(
            (self._parts[id(option)].slowest for option in self if not self._parts[id(option)].everywhere), default=0.0
        )
        return self.everywhere + largest

    def _add(self, part: ProposalParts, sign: int) -> None:
        self.hbm += sign * part.hbm
        self.ddr += sign * part.ddr
        self.ssd += sign * part.ssd
        self.perf += sign * part.perf
        self.everywhere += sign * part.everywhere
        self.key ^= part.key

"""The fastest options for every amount of memory, found table by table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from flambeau.rec.distributed.planner._interfaces import Enumerator, Proposer
from flambeau.rec.distributed.planner._options import ShardingOption
from flambeau.rec.distributed.planner._proposals import Proposal, ProposalParts
from flambeau.rec.distributed.planner._static_proposers import options_by_table
from flambeau.rec.distributed.planner._topology import Topology

__all__ = ["DynamicProgrammingProposer"]


class DynamicProgrammingProposer(Proposer):
    """Proposes, for every amount of device memory from all of it down, the options that take least time in it.

    This is the multiple-choice knapsack problem: memory is cut into bins; of the first tables' options, the fastest are
    kept for each bin that their memory falls into, and then joined with the options of the next table.

    Args:
        hbm_bins_per_device: bins for each device; with more, plans are finer and take longer.

    References:
        Kellerer, Pferschy and Pisinger 2004, "Knapsack Problems", chapter 11.
    """

    def __init__(self, hbm_bins_per_device: int = 100) -> None:
        self._hbm_bins_per_device = max(hbm_bins_per_device, 1)
        self._reset()

    def _reset(self) -> None:
        self._started = False
        self._tables: list[list[ShardingOption]] = []
        self._parts: dict[int, ProposalParts] = {}
        self._choices: Iterator[list[int]] = iter(())
        self._proposal: Proposal | None = None

    def load(self, search_space: list[ShardingOption], enumerator: Enumerator | None = None) -> None:
        """Begin anew with these options."""
        self._reset()
        self._parts = ProposalParts.of_all(search_space)
        self._tables = list(options_by_table(search_space).values())
        for options in self._tables:
            # From the least memory on: the first proposal fits if any does.
            options.sort(key=lambda option: (self._parts[id(option)].hbm, option.total_perf))
        # Small tables first: their memory adds up in few bins.
        self._tables.sort(key=lambda options: self._parts[id(options[0])].hbm)
        if self._tables:
            self._take([0] * len(self._tables))

    def _take(self, choice: list[int] | None) -> None:
        if choice is None:
            self._proposal = None
            return
        options = [options[index] for options, index in zip(self._tables, choice, strict=True)]
        self._proposal = Proposal(options, self._parts)

    def propose(self) -> list[ShardingOption] | None:
        """One option for each table; None when there is nothing more to propose."""
        return self._proposal

    def feedback(
        self,
        partitionable: bool,
        plan: list[ShardingOption] | None = None,
        perf_rating: float | None = None,
        storage_constraint: Topology | None = None,
    ) -> None:
        """Turn to the next proposal.

        Raises:
            ValueError: the devices are not given the first time.
        """
        if self._proposal is None:
            return
        if not self._started:
            if storage_constraint is None:
                raise ValueError(
                    "storage_constraint is None, but says how much memory there is; give it with the first feedback."
                )
            self._started = True
            self._choices = self._search([device.storage.hbm for device in storage_constraint.devices])
        self._take(next(self._choices, None))

    def _search(self, hbm: list[int]) -> Iterator[list[int]]:
        """For each table which option, the most memory first."""
        total = sum(hbm)
        bins = self._hbm_bins_per_device * len(hbm)
        if total <= 0:
            return
        width = float(total) / bins
        least = np.full(bins, np.inf)
        exact = np.full(bins, np.inf)
        least[0] = exact[0] = 0.0
        options_of: list[npt.NDArray[np.int16]] = []
        bins_before: list[npt.NDArray[np.int32]] = []
        for options in self._tables:
            least, exact, chosen, before = self._join(options, least, exact, float(total), width)
            options_of.append(chosen)
            bins_before.append(before)
        for end in np.flatnonzero(np.isfinite(least))[::-1]:
            place = int(end)
            choice: list[int] = []
            for chosen, before in zip(reversed(options_of), reversed(bins_before), strict=True):
                choice.append(int(chosen[place]))
                place = int(before[place])
            yield choice[::-1]

    def _join(
        self,
        options: list[ShardingOption],
        least: npt.NDArray[np.float64],
        exact: npt.NDArray[np.float64],
        total: float,
        width: float,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int16], npt.NDArray[np.int32]]:
        """The fastest for each bin with one table more; of equally fast ones that from the first bin, then option.

        Args:
            options: of the table.
            least: (bins,), milliseconds of the fastest options of the tables before, infinite where there are none.
            exact: (bins,), their memory.
            total: memory of all devices.
            width: of a bin.

        Returns:
            (bins,) each: `least` and `exact` with this table, its option, and the bin of the tables before.
        """
        bins = len(least)
        reached = np.flatnonzero(np.isfinite(least))
        new_least, new_exact = np.full(bins, np.inf), np.full(bins, np.inf)
        chosen, before = np.zeros(bins, dtype=np.int16), np.full(bins, bins, dtype=np.int32)
        for number, option in enumerate(options):
            memory = exact[reached] + float(self._parts[id(option)].hbm)
            fitting = memory <= total
            source, memory = reached[fitting], memory[fitting]
            times = least[source] + option.total_perf
            target = np.minimum((memory / width).astype(np.int64), bins - 1)
            # Memory ascends with the bins before, so those with the same target are neighbours.
            rank = np.lexsort((source, times, target))
            first = np.ones(len(rank), dtype=bool)
            first[1:] = target[rank[1:]] != target[rank[:-1]]
            best = rank[first]
            source, memory, times, target = source[best], memory[best], times[best], target[best]
            better = (times < new_least[target]) | ((times == new_least[target]) & (source < before[target]))
            target, source = target[better], source[better]
            new_least[target], new_exact[target] = times[better], memory[better]
            chosen[target], before[target] = number, source
        return new_least, new_exact, chosen, before

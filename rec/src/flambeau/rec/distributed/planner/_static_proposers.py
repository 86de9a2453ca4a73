"""Proposers that go through proposals in an order of their own, whatever comes of them."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from collections.abc import Iterator, Sequence

from flambeau.rec.distributed.planner._interfaces import Enumerator, Proposer
from flambeau.rec.distributed.planner._options import ShardingOption
from flambeau.rec.distributed.planner._proposals import Proposal, ProposalParts
from flambeau.rec.distributed.planner._topology import Topology

__all__ = [
    "MAX_PROPOSALS",
    "GreedyProposer",
    "GridSearchProposer",
    "UniformProposer",
    "options_by_table",
    "slowness",
]

logger = logging.getLogger(__name__)

MAX_PROPOSALS: int = 10_000


def options_by_table(search_space: Sequence[ShardingOption]) -> dict[str, list[ShardingOption]]:
    """Options by the path of their table, in the order in which they come."""
    tables: dict[str, list[ShardingOption]] = {}
    for option in search_space:
        tables.setdefault(option.fqn, []).append(option)
    return tables


def slowness(option: ShardingOption, use_depth: bool = True) -> float:
    """Milliseconds of the slowest shard, or of all of them."""
    return max(run.perf.total for run in option.cost_runs()) if use_depth else option.total_perf


class GreedyProposer(Proposer):
    """Proposes the fastest option of every table; then, again and again, the next fastest of the largest table.

    Args:
        use_depth: whether an option is as fast as its slowest shard, rather than as all of its shards together.
        threshold: how many plans may come, one after another, that are not better than the best one; all by default.
    """

    def __init__(self, use_depth: bool = True, threshold: int | None = None) -> None:
        self._use_depth = use_depth
        self._threshold = threshold
        self._reset()

    @property
    def ignores_feedback(self) -> bool:
        """Whether proposals are the same whatever comes of them."""
        return self._threshold is None

    def _reset(self) -> None:
        self._tables: list[list[ShardingOption]] = []
        self._parts: dict[int, ProposalParts] = {}
        self._chosen: list[int] = []
        self._largest: list[tuple[tuple[int, int, int, int], int]] = []
        self._proposal: Proposal | None = None
        self._best_perf_rating = math.inf
        self._worse_in_a_row = 0

    def load(self, search_space: list[ShardingOption], enumerator: Enumerator | None = None) -> None:
        """Begin anew with these options."""
        self._reset()
        self._parts = ProposalParts.of_all(search_space)
        for options in options_by_table(search_space).values():
            options.sort(key=lambda option: slowness(option, self._use_depth))
            self._tables.append(options)
        self._chosen = [0] * len(self._tables)
        for place in range(len(self._tables)):
            self._consider(place)
        if self._tables:
            first = [options[0] for options in self._tables]
            self._proposal = Proposal(first, self._parts)

    def _consider(self, place: int) -> None:
        """Enter a table among those that can change, the largest first, and of equal ones the first."""
        options, index = self._tables[place], self._chosen[place]
        if index + 1 < len(options):
            runs, parts = options[index].cost_runs(), self._parts[id(options[index])]
            largest = (
                -max(run.storage.hbm for run in runs),
                -parts.hbm,
                -max(run.storage.ddr for run in runs),
                -parts.ddr,
            )
            heapq.heappush(self._largest, (largest, place))

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
        """Turn to the next proposal."""
        if self._proposal is None:
            return
        if self._threshold is not None and perf_rating is not None:
            if perf_rating < self._best_perf_rating:
                self._best_perf_rating, self._worse_in_a_row = perf_rating, 0
            else:
                self._worse_in_a_row += 1
                if self._worse_in_a_row > self._threshold:
                    self._proposal = None
                    return
        if not self._largest:
            self._proposal = None
            return
        _, place = heapq.heappop(self._largest)
        options, index = self._tables[place], self._chosen[place]
        self._proposal = self._proposal.changed(place, options[index + 1])
        self._chosen[place] = index + 1
        self._consider(place)


class UniformProposer(Proposer):
    """Proposes, of each sharding type that all tables can have, the fastest options.

    Args:
        use_depth: whether an option is as fast as its slowest shard, rather than as all of its shards together.
    """

    def __init__(self, use_depth: bool = True) -> None:
        self._use_depth = use_depth
        self._proposals: Iterator[Proposal] = iter(())
        self._proposal: Proposal | None = None

    def load(self, search_space: list[ShardingOption], enumerator: Enumerator | None = None) -> None:
        """Begin anew with these options."""
        parts = ProposalParts.of_all(search_space)
        tables = options_by_table(search_space)
        by_type: dict[str, dict[str, ShardingOption]] = {}
        for option in search_space:
            of_type = by_type.setdefault(option.sharding_type, {})
            best = of_type.get(option.fqn)
            if best is None or slowness(option, self._use_depth) < slowness(best, self._use_depth):
                of_type[option.fqn] = option
        self._proposals = iter(
            [Proposal(of_type.values(), parts) for of_type in by_type.values() if len(of_type) == len(tables)]
        )
        self._proposal = next(self._proposals, None)

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
        """Turn to the next proposal."""
        self._proposal = next(self._proposals, None)


class GridSearchProposer(Proposer):
    """Proposes all combinations of options, if there are not too many; else none.

    Args:
        max_proposals: how many are not too many.
    """

    def __init__(self, max_proposals: int = MAX_PROPOSALS) -> None:
        self._max_proposals = max_proposals
        self._parts: dict[int, ProposalParts] = {}
        self._combinations: Iterator[tuple[ShardingOption, ...]] = iter(())
        self._proposal: Proposal | None = None

    def load(self, search_space: list[ShardingOption], enumerator: Enumerator | None = None) -> None:
        """Begin anew with these options."""
        tables = list(options_by_table(search_space).values())
        self._combinations, self._proposal = iter(()), None
        count = math.prod(map(len, tables))
        if not tables or count > self._max_proposals:
            logger.info("Skipping the search of all combinations: there are more than %d.", self._max_proposals)
            return
        self._parts = ProposalParts.of_all(search_space)
        for options in tables:
            options.sort(key=slowness)
        self._combinations = itertools.product(*tables)
        self._advance()

    def _advance(self) -> None:
        options = next(self._combinations, None)
        self._proposal = None if options is None else Proposal(options, self._parts)

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
        """Turn to the next proposal."""
        self._advance()

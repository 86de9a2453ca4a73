"""The search for a plan: proposals are placed and rated, and the best one is kept."""

from __future__ import annotations

import copy
import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flambeau.rec.distributed.planner._proposals import Proposal
from flambeau.rec.distributed.planner.constants import MAX_SIZE
from flambeau.rec.distributed.planner.partitioners import GreedyPerfPartitioner, MemoryBalancedPartitioner
from flambeau.rec.distributed.planner.perf_models import NoopPerfModel
from flambeau.rec.distributed.planner.proposers import (
    DynamicProgrammingProposer,
    GreedyProposer,
    GridSearchProposer,
    UniformProposer,
)
from flambeau.rec.distributed.planner.types import (
    Partitioner,
    PerfModel,
    PlannerError,
    PlannerErrorType,
    Proposer,
    ShardingOption,
    Storage,
    Topology,
)
from flambeau.rec.distributed.planner.utils import reset_shard_rank

__all__ = ["Search"]

# Sums that follow from other sums differ from true ones in their last digits.
_ROUNDING = 1 - 1e-9
# Options of proposals that wait, which are some tens of megabytes.
_MOST_WAITING = 4_000_000


@dataclass
class Search:
    """A search for a plan, and what came of it.

    Where all parts are the planner's own, proposals are not placed as they come, as none of these proposers minds what
    comes of them. The one that could be fastest is placed first: whose slowest device, or whose tables shared out
    evenly, take least time. Once no other could be faster than the best plan, that is it. Of equally fast plans the
    one that was proposed first is taken, so the plan is the same as if all were placed.

    Args:
        partitioner: places proposals.
        perf_model: rates plans.
        devices: with the memory that may be used.
        timeout_seconds: when to stop; None for never. Half of it may be spent with listing proposals.

    Attributes:
        best_plan: the best plan, None if nothing fits.
        best_rating: its rating.
        num_proposals: how many different proposals there were.
        num_plans: how many of them were placed.
        passed_over: how many of them were passed over.
        least_storage: memory of the proposal with the least that did not fit.
        last_error: why the last one did not.
        timed_out: whether it was stopped.
    """

    partitioner: Partitioner
    perf_model: PerfModel
    devices: Topology
    timeout_seconds: float | None = None
    best_plan: list[ShardingOption] | None = None
    best_rating: float = float(MAX_SIZE)
    num_proposals: int = 0
    num_plans: int = 0
    passed_over: int = 0
    least_storage: Storage | None = None
    last_error: PlannerError | None = None
    timed_out: bool = False
    # Of each proposal by its key, which one it was, and of those that were placed what came of it.
    _numbers: dict[object, int] = field(default_factory=dict)
    _placed: dict[object, tuple[list[ShardingOption] | None, float | None]] = field(default_factory=dict)
    # Time that it takes at least, number, key, and what makes it.
    _waiting: list[tuple[float, int, object, Callable[[], Proposal]]] = field(default_factory=list)
    _options_waiting: int = 0
    _best_number: int = -1

    def run(self, proposers: Sequence[Proposer]) -> None:
        """Look at all proposals of all proposers, which were loaded.

        Proposals that come again are not placed again.
        """
        self._start = time.monotonic()
        storages = [device.storage for device in self.devices.devices]
        self._room = sum(storages[1:], storages[0])
        self._room_of_one = Storage(*(max(kind) for kind in zip(*((s.hbm, s.ddr) for s in storages), strict=True)))
        self._own = type(self.partitioner) in (GreedyPerfPartitioner, MemoryBalancedPartitioner)
        rated_by_time = self._own and type(self.perf_model) is NoopPerfModel
        for proposer in proposers:
            any_order = rated_by_time and _minds_nothing(proposer)
            if any_order:
                self._list(proposer)
            else:
                self._place_waiting()
                self._place_in_turn(proposer)
            if self.timed_out:
                break
        self._place_waiting()

    def _place_in_turn(self, proposer: Proposer) -> None:
        """Place each proposal as it comes, and tell what came of it."""
        while proposal := proposer.propose():
            if self._is_time_up():
                return
            plan, rating = self._look_at(proposal)
            proposer.feedback(rating is not None, plan, rating, self.devices)

    def _look_at(self, proposal: list[ShardingOption]) -> tuple[list[ShardingOption] | None, float | None]:
        key: object = proposal.key if isinstance(proposal, Proposal) else tuple(sorted(map(hash, proposal)))
        if key not in self._placed:
            number = self._numbered(key)
            if self._own and isinstance(proposal, Proposal) and not self._has_room(proposal):
                self._placed[key] = None, None
            else:
                self._placed[key] = self._place(proposal, number, keep=True)
        return self._placed[key]

    def _list(self, proposer: Proposer) -> None:
        """Let proposals wait that there may be room for."""
        while proposal := proposer.propose():
            if self._is_time_up(0.5):
                return
            if isinstance(proposal, Proposal) and proposal.key not in self._numbers:
                number = self._numbered(proposal.key)
                if self._has_room(proposal):
                    self._wait(proposal, number)
            proposer.feedback(True, None, None, self.devices)

    def _wait(self, proposal: Proposal, number: int) -> None:
        least = max(proposal.slowest_device(), proposal.perf * _ROUNDING / self.devices.world_size)
        if self._is_hopeless(least, number):
            self.passed_over += 1
            return
        recipe = proposal.recipe()
        heapq.heappush(self._waiting, (least, number, proposal.key, recipe))
        self._options_waiting += 1 if proposal.is_changed else len(proposal)
        if self._options_waiting > _MOST_WAITING:
            self._place_waiting()

    def _place_waiting(self) -> None:
        """Place proposals that wait, the one first that could be fastest, until none can be the best."""
        while self._waiting:
            least, number, key, make = heapq.heappop(self._waiting)
            if self._is_hopeless(least, number):
                self.passed_over += 1
            elif key not in self._placed:
                self._placed[key] = None, self._place(make(), number, keep=False)[1]
                if self._is_time_up():
                    break
        self._waiting.clear()
        self._options_waiting = 0

    def _is_hopeless(self, least: float, number: int) -> bool:
        """Whether a proposal that takes at least so much time is not the best one whatever comes of it."""
        return least > self.best_rating or (least == self.best_rating and number > self._best_number)

    def _place(
        self, proposal: list[ShardingOption], number: int, keep: bool
    ) -> tuple[list[ShardingOption] | None, float | None]:
        try:
            plan = self.partitioner.partition(proposal=proposal, storage_constraint=self.devices)
        except PlannerError as error:
            reset_shard_rank(proposal)
            storages = [option.total_storage for option in proposal]
            self._failed(sum(storages[1:], storages[0]), error)
            return None, None
        self.num_plans += 1
        rating = self.perf_model.rate(plan=plan)
        best = rating < self.best_rating or (rating == self.best_rating and number < self._best_number)
        kept = None
        if keep or best:
            # Other proposals have the same options, on other devices.
            kept = [copy.deepcopy(option) for option in plan]
        if best:
            self.best_plan, self.best_rating, self._best_number = kept, rating, number
        reset_shard_rank(proposal)
        return kept, rating

    def _numbered(self, key: object) -> int:
        if key not in self._numbers:
            self._numbers[key] = self.num_proposals
            self.num_proposals += 1
        return self._numbers[key]

    def _has_room(self, proposal: Proposal) -> bool:
        """Whether there may be room: for all tables on all devices, and for the largest shard on one."""
        needed = Storage(proposal.hbm, proposal.ddr, proposal.ssd)
        if not needed.fits_in(self._room):
            self._failed(needed, _NO_ROOM)
            return False
        if not proposal.largest_device().fits_in(self._room_of_one):
            self._failed(needed, _NO_ROOM_ON_ONE)
            return False
        return True

    def _is_time_up(self, share: float = 1.0) -> bool:
        limit = self.timeout_seconds
        if limit is not None and time.monotonic() - self._start > limit * share:
            self.timed_out = True
        return self.timed_out

    def _failed(self, storage: Storage, error: PlannerError) -> None:
        self.last_error = error
        if self.least_storage is None or storage < self.least_storage:
            self.least_storage = storage


def _minds_nothing(proposer: Proposer) -> bool:
    """Whether the proposals are the same whatever comes of them; classes derived from these may mind."""
    if type(proposer) is GreedyProposer:
        return proposer.ignores_feedback
    return type(proposer) in (DynamicProgrammingProposer, GridSearchProposer, UniformProposer)


_NO_ROOM = PlannerError(
    "The tables together take more memory than all devices together have.", PlannerErrorType.PARTITION
)
_NO_ROOM_ON_ONE = PlannerError(
    "The largest shard, and the tables of which every device has a shard, take more memory than any device has.",
    PlannerErrorType.PARTITION,
)

"""The search for a plan: proposals are placed and rated, and the best one is kept."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from flambeau.rec.distributed.planner._proposals import Proposal
from flambeau.rec.distributed.planner.constants import MAX_SIZE
from flambeau.rec.distributed.planner.partitioners import GreedyPerfPartitioner, MemoryBalancedPartitioner
from flambeau.rec.distributed.planner.perf_models import NoopPerfModel
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


@dataclass
class Search:
    """A search for a plan, and what came of it.

    Where all parts are the planner's own, proposals are passed over that can neither fit nor be better than the best
    plan so far: as their tables together take more memory than there is, or more time than all devices together have.
    The plan is the same, as none of these proposers minds what comes of its proposals.

    Args:
        partitioner: places proposals.
        perf_model: rates plans.
        devices: with the memory that may be used.
        timeout_seconds: when to stop; None for never.

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
    _seen: dict[object, tuple[list[ShardingOption] | None, float | None]] = field(default_factory=dict)

    def run(self, proposers: Sequence[Proposer]) -> None:
        """Look at all proposals of all proposers, which were loaded.

        Proposals that come again are not placed again.
        """
        start = time.monotonic()
        own = type(self.partitioner) in (GreedyPerfPartitioner, MemoryBalancedPartitioner)
        rated_by_time = own and type(self.perf_model) is NoopPerfModel
        self._room = Storage(
            sum(device.storage.hbm for device in self.devices.devices),
            sum(device.storage.ddr for device in self.devices.devices),
            sum(device.storage.ssd for device in self.devices.devices),
        )
        for proposer in proposers:
            # A proposer that minds what comes of its proposals gets to know it.
            minds = not getattr(proposer, "ignores_feedback", False)
            while proposal := proposer.propose():
                if self.timeout_seconds is not None and time.monotonic() - start > self.timeout_seconds:
                    self.timed_out = True
                    return
                plan, rating = self._look_at(proposal, own, rated_by_time and not minds, keep=minds)
                proposer.feedback(rating is not None, plan, rating, self.devices)

    def _look_at(
        self, proposal: list[ShardingOption], own: bool, may_pass_over: bool, keep: bool
    ) -> tuple[list[ShardingOption] | None, float | None]:
        key: object = proposal.key if isinstance(proposal, Proposal) else tuple(sorted(map(hash, proposal)))
        if key in self._seen:
            return self._seen[key]
        self.num_proposals += 1
        plan, rating = None, None
        if own and isinstance(proposal, Proposal) and not self._has_room(proposal):
            self._failed(Storage(proposal.hbm, proposal.ddr, proposal.ssd), _NO_ROOM)
        elif may_pass_over and isinstance(proposal, Proposal) and self._is_too_slow(proposal):
            self.passed_over += 1
        else:
            plan, rating = self._place(proposal, keep)
        self._seen[key] = (plan if keep else None, rating)
        return plan, rating

    def _place(self, proposal: list[ShardingOption], keep: bool) -> tuple[list[ShardingOption] | None, float | None]:
        try:
            plan = self.partitioner.partition(proposal=proposal, storage_constraint=self.devices)
        except PlannerError as error:
            reset_shard_rank(proposal)
            storages = [option.total_storage for option in proposal]
            self._failed(sum(storages[1:], storages[0]), error)
            return None, None
        self.num_plans += 1
        rating = self.perf_model.rate(plan=plan)
        kept = None
        if keep or rating < self.best_rating:
            # Other proposals have the same options, on other devices.
            kept = [copy.deepcopy(option) for option in plan]
        if rating < self.best_rating:
            self.best_plan, self.best_rating = kept, rating
        reset_shard_rank(proposal)
        return kept, rating

    def _has_room(self, proposal: Proposal) -> bool:
        room = self._room
        return proposal.hbm <= room.hbm and proposal.ddr <= room.ddr and proposal.ssd <= room.ssd

    def _is_too_slow(self, proposal: Proposal) -> bool:
        if proposal.perf * _ROUNDING >= self.best_rating * self.devices.world_size:
            return True
        return proposal.slowest_device() * _ROUNDING >= self.best_rating

    def _failed(self, storage: Storage, error: PlannerError) -> None:
        self.last_error = error
        if self.least_storage is None or storage < self.least_storage:
            self.least_storage = storage


_NO_ROOM = PlannerError(
    "The tables together take more memory than all devices together have.", PlannerErrorType.PARTITION
)

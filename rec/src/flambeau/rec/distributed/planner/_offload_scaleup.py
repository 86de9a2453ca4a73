"""Spare device memory for the caches of tables on the host."""

from __future__ import annotations

import copy
import logging

import torch
from torch import Tensor

from flambeau.rec.distributed.embedding_types import EmbeddingComputeKernel
from flambeau.rec.distributed.planner._interfaces import Enumerator, Proposer
from flambeau.rec.distributed.planner._options import ShardingOption
from flambeau.rec.distributed.planner._static_proposers import options_by_table, slowness
from flambeau.rec.distributed.planner._topology import Topology
from flambeau.rec.distributed.planner.constants import UVM_CACHING_RATIO
from flambeau.rec.distributed.planner.utils import LuusJaakolaSearch, bytes_to_gb

__all__ = ["EmbeddingOffloadScaleupProposer"]

logger = logging.getLogger(__name__)

_CACHED = EmbeddingComputeKernel.FUSED_UVM_CACHING.value
_FUSED = EmbeddingComputeKernel.FUSED.value

# How often caches of other sizes are tried.
_TRIALS = 16
_WORST = 1e99


class EmbeddingOffloadScaleupProposer(Proposer):
    """Proposes the fastest option of every table; then larger caches, as far as there is device memory to spare.

    How much memory caches get in all is searched for; it is divided among them by how many rows are looked up in the
    table, and how badly a small cache works for it (`CacheStatistics`). Caches that would hold the whole table, or take
    more than it, give way to tables on the device.

    Args:
        use_depth: whether an option is as fast as its slowest shard, rather than as all of its shards together.
    """

    def __init__(self, use_depth: bool = True) -> None:
        self.use_depth = use_depth
        self.enumerator: Enumerator | None = None
        self.starting_proposal: list[ShardingOption] = []
        self.proposal: list[ShardingOption] | None = None
        self.search: LuusJaakolaSearch | None = None

    def load(self, search_space: list[ShardingOption], enumerator: Enumerator | None = None) -> None:
        """Begin anew with these options.

        Args:
            search_space: all options of all tables.
            enumerator: estimates what tables cost with other caches; without one, none are proposed.
        """
        self.enumerator = enumerator
        self.search = None
        fastest = [
            min(options, key=lambda option: slowness(option, self.use_depth))
            for options in options_by_table(search_space).values()
        ]
        self.starting_proposal = _own(fastest)
        self.promote_high_prefetch_overheaad_table_to_hbm(enumerator, self.starting_proposal)
        self.proposal = _own(self.starting_proposal)

    def propose(self) -> list[ShardingOption] | None:
        """One option for each table; None when there is nothing more to propose."""
        return self.proposal

    def feedback(
        self,
        partitionable: bool,
        plan: list[ShardingOption] | None = None,
        perf_rating: float | None = None,
        storage_constraint: Topology | None = None,
    ) -> None:
        """Turn to the next proposal; see `Proposer.feedback`."""
        if self.enumerator is None or self.proposal is None:
            self.proposal = None
            return
        used = sum(option.total_storage.hbm for option in self.proposal)
        if self.search is None:
            if not partitionable or storage_constraint is None:
                self.proposal = None
                return
            spare = self.get_budget(self.proposal if plan is None else plan, storage_constraint)
            most = self.get_hbm_ceiling(self.starting_proposal, self.enumerator) - used
            budget = min(spare, most)
            logger.info("Caches may grow by %.3f GiB of %.3f GiB to spare.", bytes_to_gb(budget), bytes_to_gb(spare))
            if budget <= 0:
                self.proposal = None
                return
            self.search = LuusJaakolaSearch(0, budget, max_iterations=_TRIALS, left_cost=perf_rating)
        elif not partitionable:
            # What needs more memory will fail as well.
            self.search.shrink_right(used - sum(option.total_storage.hbm for option in self.starting_proposal))
        wanted = self.search.next(_WORST if perf_rating is None else perf_rating)
        self.proposal = self.next_plan(self.starting_proposal, None if wanted is None else int(wanted), self.enumerator)

    @staticmethod
    def get_budget(proposal: list[ShardingOption], storage_constraint: Topology) -> int:
        """Bytes of device memory that a proposal leaves free."""
        room = sum(device.storage.hbm for device in storage_constraint.devices)
        return room - sum(option.total_storage.hbm for option in proposal)

    @staticmethod
    def get_cacheability(sharding_option: ShardingOption) -> float | None:
        """How badly a cache works for a table, None where nobody knows."""
        stats = sharding_option.cache_params.stats if sharding_option.cache_params is not None else None
        return None if stats is None else stats.cacheability

    @staticmethod
    def get_expected_lookups(sharding_option: ShardingOption) -> float | None:
        """Distinct ids of a batch, None where nobody knows."""
        stats = sharding_option.cache_params.stats if sharding_option.cache_params is not None else None
        return None if stats is None else stats.expected_lookups

    @staticmethod
    def get_scalable_sharding_options(proposal: list[ShardingOption]) -> list[ShardingOption]:
        """The tables whose caches can grow: those with a cache of which something is known."""
        return [
            option
            for option in proposal
            if option.compute_kernel == _CACHED and EmbeddingOffloadScaleupProposer.get_cacheability(option) is not None
        ]

    @staticmethod
    def get_hbm_ceiling(starting_proposal: list[ShardingOption], enumerator: Enumerator) -> int:
        """Device memory of a proposal with all tables whose caches can grow on the device."""
        proposal = _own(starting_proposal)
        scalable = EmbeddingOffloadScaleupProposer.get_scalable_sharding_options(proposal)
        for option in scalable:
            _promote(option)
        enumerator.populate_estimates(scalable)
        return sum(option.total_storage.hbm for option in proposal)

    @staticmethod
    def promote_high_prefetch_overheaad_table_to_hbm(
        enumerator: Enumerator | None, proposal: list[ShardingOption]
    ) -> None:
        """Move tables to the device, in place, that take less of its memory there than their caches do.

        Args:
            enumerator: estimates what they cost there; without one, nothing is moved.
            proposal: one option for each table.
        """
        if enumerator is None:
            return
        cached = EmbeddingOffloadScaleupProposer.get_scalable_sharding_options(proposal)
        on_device = _own(cached)
        for option in on_device:
            _promote(option)
        enumerator.populate_estimates(on_device)
        moved = [
            option
            for option, other in zip(cached, on_device, strict=True)
            if other.total_storage.hbm < option.total_storage.hbm
        ]
        for option in moved:
            _promote(option)
        enumerator.populate_estimates(moved)

    @staticmethod
    def next_plan(
        starting_proposal: list[ShardingOption], budget: int | None, enumerator: Enumerator | None
    ) -> list[ShardingOption] | None:
        """A proposal with larger caches.

        Args:
            starting_proposal: one option for each table; they stay as they are.
            budget: bytes of device memory that caches get more, None for no proposal.
            enumerator: estimates what tables cost with other caches.

        Returns:
            None as well if there are no caches that can grow.
        """
        if budget is None or enumerator is None:
            return None
        proposal = _own(starting_proposal)
        cached = EmbeddingOffloadScaleupProposer.get_scalable_sharding_options(proposal)
        if not cached:
            return None
        model, ceiling = EmbeddingOffloadScaleupProposer.build_affine_storage_model(cached, enumerator)
        priority = [
            (EmbeddingOffloadScaleupProposer.get_cacheability(option) or 0.0)
            * (EmbeddingOffloadScaleupProposer.get_expected_lookups(option) or 0.0)
            for option in cached
        ]
        factors = EmbeddingOffloadScaleupProposer.allocate_budget(
            model=model,
            fused_hbm_ceiling=ceiling,
            clfs=torch.tensor([_load_factor(option) for option in cached]),
            budget=budget,
            allocation_priority=torch.tensor(priority),
        )
        for option, factor in zip(cached, factors.tolist(), strict=True):
            if factor > 0.9999:
                _promote(option)
            else:
                _cache(option, factor)
        enumerator.populate_estimates(cached)
        return proposal

    @staticmethod
    def build_affine_storage_model(
        uvm_caching_sharding_options: list[ShardingOption], enumerator: Enumerator
    ) -> tuple[Tensor, Tensor]:
        """What device memory tables with caches take: a x + b, with caches of x times the table's rows.

        Args:
            uvm_caching_sharding_options: the tables; they stay as they are.
            enumerator: estimates what they cost.

        Returns:
            (tables, 2), a and b; and (tables,), what the tables take on the device without a cache.
        """
        options = _own(uvm_caching_sharding_options)

        def sizes() -> Tensor:
            enumerator.populate_estimates(options)
            return torch.tensor([option.total_storage.hbm for option in options])

        def with_caches(factor: float) -> Tensor:
            for option in options:
                _cache(option, factor)
            return sizes()

        low, high = 0.1, 0.9
        smaller, larger = with_caches(low), with_caches(high)
        for option in options:
            _promote(option)
        ceiling = sizes()
        slope = (larger - smaller) / (high - low)
        return torch.stack((slope, smaller - slope * low), dim=1), ceiling

    @staticmethod
    def clf_to_bytes(model: Tensor, clfs: float | Tensor) -> Tensor:
        """What tables take with caches.

        Args:
            model: (tables, 2), of `build_affine_storage_model`.
            clfs: (tables,), rows of caches as a share of the tables', or one number for all.

        Returns:
            (tables,), bytes, float64.
        """
        return (model[:, 0] * clfs + model[:, 1]).to(torch.float64)

    @staticmethod
    def allocate_budget(
        model: Tensor, fused_hbm_ceiling: Tensor, clfs: Tensor, budget: int, allocation_priority: Tensor
    ) -> Tensor:
        """Divide memory among caches in proportion to a priority; what one cannot use goes to the others.

        Args:
            model: (tables, 2), of `build_affine_storage_model`.
            fused_hbm_ceiling: (tables,), bytes that the table takes without a cache: no cache gets more.
            clfs: (tables,), rows of caches as a share of the tables', before.
            budget: bytes to divide.
            allocation_priority: (tables,), 0 or more.

        Returns:
            (tables,), the shares after; 1 for tables that need no cache any more. Where only tables of priority 0 could
            use memory, it stays free.
        """
        before = EmbeddingOffloadScaleupProposer.clf_to_bytes(model, clfs)
        most = torch.minimum(
            EmbeddingOffloadScaleupProposer.clf_to_bytes(model, 1.0), fused_hbm_ceiling.to(torch.float64)
        )
        priority = allocation_priority.to(torch.float64)
        full = torch.zeros(len(clfs), dtype=torch.bool)
        while True:
            weights = torch.where(full, torch.zeros_like(priority), priority)
            left = budget - (most - before)[full].sum()
            share = weights / weights.sum() * left if weights.sum() > 0 else torch.zeros_like(weights)
            # What a table just fills keeps its cache.
            filled = ~full & (before + share > most)
            if not filled.any():
                break
            full |= filled
        grown = (before + share - model[:, 1]) / model[:, 0]
        return torch.where(full, torch.ones_like(grown), grown).to(clfs.dtype)


def _own(proposal: list[ShardingOption]) -> list[ShardingOption]:
    """Copies whose caches can be changed."""
    own = [copy.deepcopy(option) for option in proposal]
    for option in own:
        option.cache_params = copy.copy(option.cache_params)
    return own


def _promote(option: ShardingOption) -> None:
    """Put a table on the device."""
    option.compute_kernel = _FUSED
    if option.cache_params is not None:
        option.cache_params.load_factor = None


def _cache(option: ShardingOption, factor: float) -> None:
    option.compute_kernel = _CACHED
    if option.cache_params is not None:
        option.cache_params.load_factor = factor


def _load_factor(option: ShardingOption) -> float:
    factor = option.cache_load_factor
    return UVM_CACHING_RATIO if factor is None else factor

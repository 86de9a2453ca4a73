"""Reports on plans."""

from __future__ import annotations

import logging

from torch import nn

from flambeau.rec.distributed.planner._report import MIN_WIDTH, report, round_to_one_sigfig
from flambeau.rec.distributed.planner.constants import BIGINT_DTYPE
from flambeau.rec.distributed.planner.types import (
    Enumerator,
    ParameterConstraints,
    PlanDebugStats,
    ShardingOption,
    Stats,
    StorageReservation,
    Topology,
)
from flambeau.rec.distributed.types import ModuleSharder, ShardingPlan

__all__ = ["BIGINT_DTYPE", "MIN_WIDTH", "EmbeddingStats", "NoopEmbeddingStats", "round_to_one_sigfig"]

logger = logging.getLogger(__name__)


class EmbeddingStats(Stats):
    """Writes a report to this module's logger: how busy and how full each device is, and where each table went."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __str__(self) -> str:
        """The last report."""
        return "\n".join(self._lines)

    def log(
        self,
        sharding_plan: ShardingPlan,
        topology: Topology,
        batch_size: int,
        storage_reservation: StorageReservation,
        num_proposals: int,
        num_plans: int,
        run_time: float,
        best_plan: list[ShardingOption],
        constraints: dict[str, ParameterConstraints] | None = None,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        enumerator: Enumerator | None = None,
        debug: bool = True,
        debug_stats: PlanDebugStats | None = None,
    ) -> None:
        """Write a report; see `Stats.log`."""
        self._lines = report(
            topology=topology,
            batch_size=batch_size,
            storage_reservation=storage_reservation,
            num_proposals=num_proposals,
            num_plans=num_plans,
            run_time=run_time,
            plan=best_plan,
            constraints=constraints,
            debug=debug,
            debug_stats=debug_stats,
        )
        for line in self._lines:
            logger.info(line)


class NoopEmbeddingStats(Stats):
    """Writes nothing."""

    def log(
        self,
        sharding_plan: ShardingPlan,
        topology: Topology,
        batch_size: int,
        storage_reservation: StorageReservation,
        num_proposals: int,
        num_plans: int,
        run_time: float,
        best_plan: list[ShardingOption],
        constraints: dict[str, ParameterConstraints] | None = None,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        enumerator: Enumerator | None = None,
        debug: bool = True,
        debug_stats: PlanDebugStats | None = None,
    ) -> None:
        """Write nothing."""

"""The parts of a planner, each of which can be replaced."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

from torch import nn

from flambeau.rec.distributed.planner._options import ParameterConstraints, ShardingOption
from flambeau.rec.distributed.planner._topology import Topology
from flambeau.rec.distributed.planner.constants import BATCH_SIZE
from flambeau.rec.distributed.types import ModuleSharder, ShardingPlan, StorageUsageType

__all__ = [
    "Enumerator",
    "Partitioner",
    "PerfModel",
    "PlanDebugStats",
    "PlanLoader",
    "Proposer",
    "ShardEstimator",
    "SharderData",
    "Stats",
    "StorageReservation",
]


@dataclass
class SharderData:
    """What estimators need to know of a sharder.

    Args:
        fused_params: parameters of its fused kernels.
        qcomm_dtype_sizes: bytes of an element that is sent forward and backward, by the name of a `CommOp`; those that
            are sent as they are stand in no entry.
        storage_usage_type: how it counts the memory of a table.
    """

    fused_params: dict[str, Any]
    qcomm_dtype_sizes: dict[str, tuple[float, float]]
    storage_usage_type: StorageUsageType


class ShardEstimator(abc.ABC):
    """Finds out what shards cost.

    Args:
        topology: the devices.
        constraints: what users allow and know, by table.
    """

    @abc.abstractmethod
    def __init__(self, topology: Topology, constraints: dict[str, ParameterConstraints] | None = None) -> None: ...

    @abc.abstractmethod
    def estimate(self, sharding_options: list[ShardingOption], sharder_data_map: dict[str, SharderData]) -> None:
        """Write to the shards of options what they cost.

        Args:
            sharding_options: the options.
            sharder_data_map: what is known of their sharders, by `ShardingOption.module_type_key`.
        """


class Enumerator(abc.ABC):
    """Lists the ways in which the tables of a model can be sharded.

    Args:
        topology: the devices.
        batch_size: examples of each process.
        constraints: what users allow and know, by table.
        estimator: finds out what shards cost; several are asked one after another.
    """

    @abc.abstractmethod
    def __init__(
        self,
        topology: Topology,
        batch_size: int = BATCH_SIZE,
        constraints: dict[str, ParameterConstraints] | None = None,
        estimator: ShardEstimator | list[ShardEstimator] | None = None,
    ) -> None: ...

    @abc.abstractmethod
    def enumerate(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> list[ShardingOption]:
        """All options of all tables, with what they cost.

        Args:
            module: the model.
            sharders: say which of its modules can be sharded, and how.
        """

    @abc.abstractmethod
    def populate_estimates(self, sharding_options: list[ShardingOption]) -> None:
        """Write to the shards of options what they cost."""


class StorageReservation(abc.ABC):
    """Sets memory aside for what is not planned: dense parameters, inputs, whatever else needs some."""

    @abc.abstractmethod
    def reserve(
        self,
        topology: Topology,
        batch_size: int,
        module: nn.Module,
        sharders: list[ModuleSharder[nn.Module]],
        constraints: dict[str, ParameterConstraints] | None = None,
    ) -> Topology:
        """The devices with what is left of their memory.

        Args:
            topology: the devices; they stay as they are.
            batch_size: examples of each process.
            module: the model.
            sharders: say which of its modules can be sharded.
            constraints: what users allow and know, by table.
        """

    @property
    @abc.abstractmethod
    def last_reserved_topology(self) -> Topology | None:
        """What the last call of `reserve` gave."""


class PerfModel(abc.ABC):
    """Says how good a plan is."""

    @abc.abstractmethod
    def rate(self, plan: list[ShardingOption]) -> float:
        """A number that is the smaller, the better the plan.

        Args:
            plan: one option for each table, on devices.
        """


class Partitioner(abc.ABC):
    """Places shards on devices."""

    @abc.abstractmethod
    def partition(self, proposal: list[ShardingOption], storage_constraint: Topology) -> list[ShardingOption]:
        """The options on devices.

        Args:
            proposal: one option for each table; their shards may be given their devices in place.
            storage_constraint: the devices, with the memory that may be used.

        Raises:
            PlannerError: they do not fit.
        """


class Proposer(abc.ABC):
    """Proposes one option for each table, again and again, and learns from what comes of it."""

    @abc.abstractmethod
    def load(self, search_space: list[ShardingOption], enumerator: Enumerator | None = None) -> None:
        """Begin anew with these options.

        Args:
            search_space: all options of all tables.
            enumerator: estimates what options cost that the proposer makes by itself.
        """

    @abc.abstractmethod
    def feedback(
        self,
        partitionable: bool,
        plan: list[ShardingOption] | None = None,
        perf_rating: float | None = None,
        storage_constraint: Topology | None = None,
    ) -> None:
        """What came of the last proposal, which is answered before the next one is made.

        Args:
            partitionable: whether it fits.
            plan: the proposal on devices; None where it does not fit.
            perf_rating: how good the plan is; None where it does not fit.
            storage_constraint: the devices, with the memory that may be used.
        """

    @abc.abstractmethod
    def propose(self) -> list[ShardingOption] | None:
        """One option for each table; None when there is nothing more to propose."""


@dataclass
class PlanDebugStats:
    """How a plan was looked for.

    Args:
        planner_type: the planner's class.
        timeout_seconds: how long it may take, None for as long as it takes.
    """

    planner_type: str
    timeout_seconds: int | None


class Stats(abc.ABC):
    """Reports on a plan."""

    @abc.abstractmethod
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
        debug: bool = False,
        debug_stats: PlanDebugStats | None = None,
    ) -> None:
        """Write a report.

        Args:
            sharding_plan: the plan.
            topology: the devices.
            batch_size: examples of each process.
            storage_reservation: what set memory aside.
            num_proposals: how many proposals were looked at.
            num_plans: how many of them fit.
            run_time: how long that took, in seconds.
            best_plan: the options of the plan, on devices.
            constraints: what users allow and know, by table.
            sharders: say which modules can be sharded.
            enumerator: knows what options there were.
            debug: whether every table gets a line.
            debug_stats: how the plan was looked for.
        """


class PlanLoader(abc.ABC):
    """Brings a plan that was made before, so that none is looked for."""

    @abc.abstractmethod
    def load(self) -> dict[int, ShardingOption] | None:
        """The options of the plan by their `ShardingOption.storage_hash`; None if there is none."""

    @abc.abstractmethod
    def plan_context_hash(self) -> str | None:
        """What `EmbeddingPlannerBase.hash_planner_context_inputs_str` said when it was made; None if nobody knows."""

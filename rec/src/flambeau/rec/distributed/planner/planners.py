"""Planners: which device gets which part of which table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec
from torch.distributed.remote_device import _remote_device

from flambeau.rec.distributed.collective_utils import invoke_on_rank_and_broadcast_result
from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.planner._failure import no_plan
from flambeau.rec.distributed.planner._search import Search
from flambeau.rec.distributed.planner._validation import (
    validate_compute_kernels,
    validate_modules_inclusion_in_sharding_plan,
    validate_rank_assignment,
)
from flambeau.rec.distributed.planner.constants import BATCH_SIZE, MAX_SIZE
from flambeau.rec.distributed.planner.enumerators import EmbeddingEnumerator
from flambeau.rec.distributed.planner.partitioners import GreedyPerfPartitioner
from flambeau.rec.distributed.planner.perf_models import NoopPerfModel
from flambeau.rec.distributed.planner.proposers import GreedyProposer, GridSearchProposer, UniformProposer
from flambeau.rec.distributed.planner.stats import EmbeddingStats
from flambeau.rec.distributed.planner.storage_reservations import HeuristicalStorageReservation
from flambeau.rec.distributed.planner.types import (
    Enumerator,
    ParameterConstraints,
    Partitioner,
    PerfModel,
    PlanDebugStats,
    PlanLoader,
    PlannerError,
    PlannerErrorType,
    Proposer,
    ShardingOption,
    Stats,
    StorageReservation,
    Topology,
    hash_planner_context_inputs,
    hash_planner_context_inputs_str,
)
from flambeau.rec.distributed.planner.utils import placement
from flambeau.rec.distributed.types import (
    EmbeddingModuleShardingPlan,
    ModuleSharder,
    ParameterSharding,
    ShardingPlan,
    ShardingPlanner,
    ShardingType,
)
from flambeau.rec.errors import OptionError

__all__ = [
    "BATCH_SIZE",
    "MAX_SIZE",
    "EmbeddingPlannerBase",
    "EmbeddingShardingPlanner",
    "extract_plan",
    "to_sharding_plan",
    "validate_compute_kernels",
    "validate_modules_inclusion_in_sharding_plan",
    "validate_rank_assignment",
]


def to_sharding_plan(sharding_options: list[ShardingOption], topology: Topology) -> ShardingPlan:
    """Options on devices as a plan that modules are sharded by.

    Args:
        sharding_options: one for each table.
        topology: the devices.
    """
    local_size = topology.local_world_size
    # Shared among all tables: a thousand tables on a thousand devices have a million shards.
    devices = [
        _remote_device(placement(topology.compute_device, rank, local_size)) for rank in range(topology.world_size)
    ]
    plan: dict[str, EmbeddingModuleShardingPlan] = {}
    for option in sharding_options:
        spec = None
        if option.sharding_type != ShardingType.DATA_PARALLEL.value:
            spec = EnumerableShardingSpec(
                [ShardMetadata(offset, size, devices[cast("int", rank)]) for offset, size, rank in option.placements()]
            )
        plan.setdefault(option.path, EmbeddingModuleShardingPlan())[option.name] = ParameterSharding(
            sharding_type=option.sharding_type,
            compute_kernel=option.compute_kernel,
            ranks=cast("list[int]", option.get_shards_assignment()),
            sharding_spec=spec,
            cache_params=option.cache_params,
            enforce_hbm=option.enforce_hbm,
            stochastic_rounding=option.stochastic_rounding,
            bounds_check_mode=option.bounds_check_mode,
            output_dtype=option.output_dtype,
            key_value_params=option.key_value_params,
        )
    return ShardingPlan(cast("dict[str, object]", plan))  # type: ignore[arg-type]


def extract_plan(
    search_space: list[ShardingOption], loaded_sharding_options: dict[int, ShardingOption]
) -> list[ShardingOption]:
    """The options of a plan that was kept: those that are possible now, with the shards and devices from then.

    Args:
        search_space: all options of all tables.
        loaded_sharding_options: those of the plan by their `ShardingOption.storage_hash`.

    Raises:
        PlannerError: two options have the same hash, or some of the plan's are not possible now.
    """
    plan: list[ShardingOption] = []
    seen: set[int] = set()
    for option in search_space:
        key = option.storage_hash()
        if key in seen:
            raise PlannerError(
                f"Two options have the hash {key}, one of them {option}; a plan that was kept does not tell which.",
                PlannerErrorType.PLAN_LOADING_FAILED,
            )
        seen.add(key)
        if key in loaded_sharding_options:
            found = option.placed(None)
            found.shards = loaded_sharding_options[key].placed(None).shards
            for shard, rank in zip(found.shards, loaded_sharding_options[key].get_shards_assignment(), strict=True):
                shard.rank = rank
            plan.append(found)
    if missing := sorted(loaded_sharding_options.keys() - seen):
        names = ", ".join(str(loaded_sharding_options[key]) for key in missing[:3])
        raise PlannerError(
            f"{len(missing)} of {len(loaded_sharding_options)} options of the plan that was kept are not possible now, "
            f"such as {names}; make a plan anew, or use the model and the constraints that it was made for.",
            PlannerErrorType.PLAN_LOADING_FAILED,
        )
    return plan


class EmbeddingPlannerBase(ShardingPlanner):
    """What planners have in common.

    Args:
        topology: the devices; by default those of this process group.
        batch_size: examples of each process; 512 by default.
        enumerator: lists options; `EmbeddingEnumerator` by default.
        storage_reservation: sets memory aside; `HeuristicalStorageReservation` by default.
        stats: report on the plan; `EmbeddingStats` by default.
        constraints: what users allow and know, by table.
        debug: whether reports have a line for every table.
        callbacks: change the best plan, one after another.
        timeout_seconds: how long the search may take; as long as it takes by default.
        heuristical_storage_reservation_percentage: the share that the default reservation sets aside.
    """

    def __init__(
        self,
        topology: Topology | None = None,
        batch_size: int | None = None,
        enumerator: Enumerator | None = None,
        storage_reservation: StorageReservation | None = None,
        stats: Stats | list[Stats] | None = None,
        constraints: dict[str, ParameterConstraints] | None = None,
        debug: bool = True,
        callbacks: list[Callable[[list[ShardingOption]], list[ShardingOption]]] | None = None,
        timeout_seconds: int | None = None,
        heuristical_storage_reservation_percentage: float = 0.15,
    ) -> None:
        if topology is None:
            topology = Topology(
                local_world_size=get_local_size(),
                world_size=dist.get_world_size(),
                compute_device="cuda" if torch.cuda.is_available() else "cpu",
            )
        self._topology = topology
        self._batch_size = batch_size or BATCH_SIZE
        self._constraints = constraints
        self._enumerator = enumerator or EmbeddingEnumerator(
            topology=topology, batch_size=self._batch_size, constraints=constraints
        )
        self._storage_reservation = storage_reservation or HeuristicalStorageReservation(
            percentage=heuristical_storage_reservation_percentage
        )
        if stats is None:
            stats = [EmbeddingStats()]
        self._stats = stats if isinstance(stats, list) else [stats]
        self._debug = debug
        self._callbacks = callbacks or []
        if timeout_seconds is not None and timeout_seconds <= 0:
            raise OptionError(
                f"timeout_seconds is {timeout_seconds}, but must be above 0; None is for as long as it takes."
            )
        self._timeout_seconds = timeout_seconds

    def collective_plan(
        self,
        module: nn.Module,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        pg: dist.ProcessGroup | None = None,
    ) -> ShardingPlan:
        """The same plan on all processes: the first makes it, and sends it to the others.

        Args:
            module: the model.
            sharders: say which of its modules can be sharded, and how; those of all kinds of modules by default.
            pg: the processes; all by default.
        """
        if pg is None:
            pg = cast("dist.ProcessGroup", dist.GroupMember.WORLD)
        if sharders is None:
            from flambeau.rec.distributed.sharding_plan import get_default_sharders

            sharders = get_default_sharders()
        return invoke_on_rank_and_broadcast_result(pg, 0, self.plan, module, sharders)

    def hash_planner_context_inputs(self) -> int:
        """A number that stands for everything the last plan depends on; see the function of that name."""
        return hash_planner_context_inputs(
            self._topology, self._batch_size, self._enumerator, self._storage_reservation, self._constraints
        )

    def hash_planner_context_inputs_str(self) -> str:
        """The same as text."""
        return hash_planner_context_inputs_str(
            self._topology, self._batch_size, self._enumerator, self._storage_reservation, self._constraints
        )


class EmbeddingShardingPlanner(EmbeddingPlannerBase):
    """Looks for the plan in which the slowest device takes least time.

    All options of all tables are listed with what they cost; proposers pick one for each table, a partitioner places
    their shards on devices, a performance model rates the plan, and the best one is kept.

    Args:
        topology: the devices; by default those of this process group.
        batch_size: examples of each process; 512 by default.
        enumerator: lists options; `EmbeddingEnumerator` by default.
        storage_reservation: sets memory aside; `HeuristicalStorageReservation` of 15% by default.
        proposer: picks options, several one after another; `GridSearchProposer`, `GreedyProposer` by the slowest shard
            and by all of them, `UniformProposer` by default.
        partitioner: places shards; `GreedyPerfPartitioner` by default.
        performance_model: rates plans; `NoopPerfModel` by default.
        stats: report on the plan; `EmbeddingStats` by default.
        constraints: what users allow and know, by table.
        debug: whether reports have a line for every table.
        callbacks: change the best plan, one after another.
        timeout_seconds: how long the search may take; as long as it takes by default.
        plan_loader: brings a plan that was made before, so that none is looked for.

    Example:
        >>> from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
        >>> from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
        >>> from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection
        >>> table = EmbeddingBagConfig(name="users", num_embeddings=10**9, embedding_dim=64, feature_names=["user"])
        >>> model = torch.nn.Sequential(EmbeddingBagCollection([table], device=torch.device("meta")))
        >>> planner = EmbeddingShardingPlanner(Topology(16, "cuda", local_world_size=8))
        >>> plan = planner.plan(model, [EmbeddingBagCollectionSharder()])
        >>> plan.plan["0"]["users"].sharding_type
        'row_wise'
    """

    def __init__(
        self,
        topology: Topology | None = None,
        batch_size: int | None = None,
        enumerator: Enumerator | None = None,
        storage_reservation: StorageReservation | None = None,
        proposer: Proposer | list[Proposer] | None = None,
        partitioner: Partitioner | None = None,
        performance_model: PerfModel | None = None,
        stats: Stats | list[Stats] | None = None,
        constraints: dict[str, ParameterConstraints] | None = None,
        debug: bool = True,
        callbacks: list[Callable[[list[ShardingOption]], list[ShardingOption]]] | None = None,
        timeout_seconds: int | None = None,
        plan_loader: PlanLoader | None = None,
    ) -> None:
        super().__init__(
            topology=topology,
            batch_size=batch_size,
            enumerator=enumerator,
            storage_reservation=storage_reservation,
            stats=stats,
            constraints=constraints,
            debug=debug,
            callbacks=callbacks,
            timeout_seconds=timeout_seconds,
        )
        self._partitioner = partitioner or GreedyPerfPartitioner()
        if proposer is None:
            proposer = [GridSearchProposer(), GreedyProposer(), GreedyProposer(use_depth=False), UniformProposer()]
        self._proposers = proposer if isinstance(proposer, list) else [proposer]
        self._perf_model = performance_model or NoopPerfModel(topology=self._topology)
        self._plan_loader = plan_loader
        self._num_proposals = 0
        self._num_plans = 0
        self._best_plan: list[ShardingOption] | None = None

    def plan(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> ShardingPlan:
        """A plan for the modules in a model that the sharders know.

        Args:
            module: the model; its tables may be on the meta device.
            sharders: say which of its modules can be sharded, and how.

        Returns:
            Of each such module, by its path, where its tables go; empty if there is none.

        Raises:
            PlannerError: nothing fits, or the plan that was loaded is not for this model and these devices.
            RuntimeError: a table cannot be sharded in any way that the constraints allow.
        """
        start = time.perf_counter()
        self._num_proposals = self._num_plans = 0
        self._best_plan = None
        devices = self._storage_reservation.reserve(
            topology=self._topology,
            batch_size=self._batch_size,
            module=module,
            sharders=sharders,
            constraints=self._constraints,
        )
        search_space = self._enumerator.enumerate(module=module, sharders=sharders)
        if not search_space:
            return ShardingPlan({})
        best_plan = self._loaded(search_space)
        if best_plan is None:
            for proposer in self._proposers:
                proposer.load(search_space=search_space, enumerator=self._enumerator)
            search = Search(self._partitioner, self._perf_model, devices, self._timeout_seconds)
            search.run(self._proposers)
            self._num_proposals, self._num_plans = search.num_proposals, search.num_plans
            best_plan = search.best_plan
            if best_plan is None:
                raise no_plan(search, search_space, self._topology, self._storage_reservation, self._batch_size)
        for callback in self._callbacks:
            best_plan = callback(best_plan)
        validate_compute_kernels(best_plan)
        self._best_plan = best_plan
        sharding_plan = to_sharding_plan(best_plan, self._topology)
        run_time = time.perf_counter() - start
        for stats in self._stats:
            stats.log(
                sharding_plan=sharding_plan,
                topology=self._topology,
                batch_size=self._batch_size,
                storage_reservation=self._storage_reservation,
                num_proposals=self._num_proposals,
                num_plans=self._num_plans,
                run_time=run_time,
                best_plan=best_plan,
                constraints=self._constraints,
                sharders=sharders,
                enumerator=self._enumerator,
                debug=self._debug,
                debug_stats=PlanDebugStats(planner_type=type(self).__name__, timeout_seconds=self._timeout_seconds),
            )
        return sharding_plan

    def _loaded(self, search_space: list[ShardingOption]) -> list[ShardingOption] | None:
        """The plan that was made before, if there is one.

        Raises:
            PlannerError: it was made for something else.
        """
        if self._plan_loader is None:
            return None
        options = self._plan_loader.load()
        if options is None:
            return None
        made_for = self._plan_loader.plan_context_hash()
        if made_for is not None and made_for != self.hash_planner_context_inputs_str():
            raise PlannerError(
                f"The plan that was loaded was made for something else: its context hash is {made_for}, but this "
                f"planner's is {self.hash_planner_context_inputs_str()}. Devices, batch size, constraints, tables or "
                "reservation differ; make a plan anew.",
                PlannerErrorType.PLANNER_INPUT_CONTEXT_MISMATCH,
            )
        return extract_plan(search_space, options)

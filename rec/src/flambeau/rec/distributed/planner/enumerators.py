"""All ways in which the tables of a model can be sharded."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from torch import nn

from flambeau.rec.distributed.embedding_types import EmbeddingComputeKernel
from flambeau.rec.distributed.planner._shard_layouts import runs_of_shards
from flambeau.rec.distributed.planner.constants import DEFAULT_PERF_ESTIMATOR, POOLING_FACTOR
from flambeau.rec.distributed.planner.shard_estimators import EmbeddingPerfEstimator, EmbeddingStorageEstimator
from flambeau.rec.distributed.planner.types import (
    Enumerator,
    ParameterConstraints,
    PartitionByType,
    SharderData,
    ShardEstimator,
    ShardingOption,
    Topology,
)
from flambeau.rec.distributed.planner.utils import build_sharder_data_map, sharder_name
from flambeau.rec.distributed.types import ModuleSharder, ShardingType
from flambeau.rec.modules.embedding_modules import EmbeddingCollectionInterface

__all__ = ["DEFAULT_PERF_ESTIMATOR", "POOLING_FACTOR", "EmbeddingEnumerator", "get_partition_by_type"]

logger = logging.getLogger(__name__)

# Kernels that tables get only where users ask for them.
_ON_REQUEST = frozenset(
    {
        EmbeddingComputeKernel.KEY_VALUE.value,
        EmbeddingComputeKernel.SSD_VIRTUAL_TABLE.value,
        EmbeddingComputeKernel.DRAM_VIRTUAL_TABLE.value,
        EmbeddingComputeKernel.DRAM_SSD_VIRTUAL_TABLE.value,
        EmbeddingComputeKernel.FUSED_TRITON.value,
    }
)

_PARTITION_BY = {
    ShardingType.TABLE_WISE.value: PartitionByType.DEVICE,
    ShardingType.COLUMN_WISE.value: PartitionByType.DEVICE,
    ShardingType.ROW_WISE.value: PartitionByType.UNIFORM,
    ShardingType.DATA_PARALLEL.value: PartitionByType.UNIFORM,
    ShardingType.TABLE_ROW_WISE.value: PartitionByType.HOST,
    ShardingType.TABLE_COLUMN_WISE.value: PartitionByType.HOST,
    ShardingType.GRID_SHARD.value: PartitionByType.MULTI_HOST,
}


def get_partition_by_type(sharding_type: str) -> str:
    """Where shards of a sharding type may go, as a value of `PartitionByType`.

    Raises:
        ValueError: the sharding type is none of these.
    """
    if sharding_type not in _PARTITION_BY:
        raise ValueError(f"sharding_type is {sharding_type!r}, but must be one of {', '.join(_PARTITION_BY)}.")
    return _PARTITION_BY[sharding_type].value


class EmbeddingEnumerator(Enumerator):
    """Lists the ways in which tables can be sharded: every sharding type with every kernel, and what they cost.

    Args:
        topology: the devices.
        batch_size: examples of each process.
        constraints: what users allow and know, by table.
        estimator: finds out what shards cost, several one after another; `EmbeddingPerfEstimator` and
            `EmbeddingStorageEstimator` by default.
        use_exact_enumerate_order: whether modules come in the order of the model, rather than the last ones first.
    """

    def __init__(
        self,
        topology: Topology,
        batch_size: int,
        constraints: dict[str, ParameterConstraints] | None = None,
        estimator: ShardEstimator | list[ShardEstimator] | None = None,
        use_exact_enumerate_order: bool | None = False,
    ) -> None:
        self._topology = topology
        self._batch_size = batch_size
        self._constraints = constraints
        self._use_exact_enumerate_order = bool(use_exact_enumerate_order)
        self._sharder_map: dict[str, ModuleSharder[nn.Module]] = {}
        self._sharder_data_map: dict[str, SharderData] = {}
        self._last_stored_search_space: list[ShardingOption] | None = None
        if estimator is None:
            self._estimators: list[ShardEstimator] = [
                EmbeddingPerfEstimator(topology=topology, constraints=constraints),
                EmbeddingStorageEstimator(topology=topology, constraints=constraints),
            ]
        else:
            self._estimators = estimator if isinstance(estimator, list) else [estimator]

    @property
    def last_stored_search_space(self) -> list[ShardingOption] | None:
        """The options of the last call of `enumerate`, as they were then."""
        return self._last_stored_search_space

    @property
    def sharder_map(self) -> dict[str, ModuleSharder[nn.Module]]:
        """The sharders of the last call of `enumerate`, by the class of the modules that they shard."""
        return self._sharder_map

    def enumerate(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> list[ShardingOption]:
        """All options of all tables, with what they cost.

        Args:
            module: the model.
            sharders: say which of its modules can be sharded, and how.

        Raises:
            RuntimeError: a table cannot be sharded in any way that the constraints allow.
        """
        self._sharder_map = {sharder_name(sharder.module_type): sharder for sharder in sharders}
        self._sharder_data_map = build_sharder_data_map(self._sharder_map)
        options: list[ShardingOption] = []
        waiting: deque[tuple[str, nn.Module]] = deque([("", module)])
        while waiting:
            path, part = waiting.popleft() if self._use_exact_enumerate_order else waiting.pop()
            sharder = self._sharder_map.get(sharder_name(type(part)))
            if sharder is None:
                prefix = f"{path}." if path else ""
                waiting.extend((prefix + name, child) for name, child in part.named_children())
                continue
            sequences = any(isinstance(inner, EmbeddingCollectionInterface) for inner in part.modules())
            for name, parameter in sharder.shardable_parameters(part).items():
                is_pooled = not sequences or ShardingOption.module_pooled(part, name)
                options += self._options_of(name, parameter, path, part, sharder, is_pooled)
        self.populate_estimates(options)
        self._last_stored_search_space = [option.placed(None) for option in options]
        return options

    def populate_estimates(self, sharding_options: list[ShardingOption]) -> None:
        """Write to the shards of options what they cost."""
        for estimator in self._estimators:
            estimator.estimate(sharding_options, self._sharder_data_map)

    def _options_of(
        self,
        name: str,
        parameter: nn.Parameter,
        path: str,
        module: nn.Module,
        sharder: ModuleSharder[nn.Module],
        is_pooled: bool,
    ) -> list[ShardingOption]:
        topology = self._topology
        constraint = (self._constraints or {}).get(name, _NOTHING_KNOWN)
        if constraint.device_group and constraint.device_group != topology.compute_device:
            return []
        rows, columns = parameter.shape
        dependency = _dependency(name, path, module)
        options = []
        for sharding_type in self._sharding_types(name, sharder.sharding_types(topology.compute_device)):
            kernels = sharder.compute_kernels(sharding_type, topology.compute_device)
            runs = runs_of_shards(
                rows,
                columns,
                topology.world_size,
                topology.intra_group_size,
                sharding_type,
                constraint.min_partition,
                topology.device_memory(),
            )
            for compute_kernel in self._compute_kernels(name, kernels):
                option = ShardingOption(
                    name=name,
                    tensor=parameter,
                    module=(path, module),
                    input_lengths=constraint.pooling_factors,
                    batch_size=self._batch_size,
                    sharding_type=sharding_type,
                    partition_by=get_partition_by_type(sharding_type),
                    compute_kernel=compute_kernel,
                    shards=[],
                    cache_params=constraint.cache_params,
                    enforce_hbm=constraint.enforce_hbm,
                    stochastic_rounding=constraint.stochastic_rounding,
                    bounds_check_mode=constraint.bounds_check_mode,
                    dependency=dependency,
                    is_pooled=is_pooled,
                    feature_names=constraint.feature_names,
                    output_dtype=constraint.output_dtype,
                    key_value_params=constraint.key_value_params,
                    num_poolings=constraint.num_poolings,
                )
                options.append(option.describe_by(runs))
        if not options:
            raise RuntimeError(
                f"Table {name} of {path or 'the model'} ({type(module).__name__}) cannot be sharded on "
                f"{topology.compute_device}: its sharder {type(sharder).__name__} offers "
                f"{sharder.sharding_types(topology.compute_device)}, and its constraints allow sharding types "
                f"{constraint.sharding_types or 'all'} with kernels {constraint.compute_kernels or 'all'}. "
                "Allow one that is offered."
            )
        return options

    def _sharding_types(self, name: str, offered: Sequence[str]) -> list[str]:
        """What is offered and allowed; of types of which some are asked for only these."""
        wanted = (self._constraints or {}).get(name, _NOTHING_KNOWN).sharding_types
        if not wanted:
            return [kind for kind in offered if kind != ShardingType.GRID_SHARD.value]
        allowed = [kind for kind in offered if kind in wanted]
        if not allowed:
            logger.debug("Table %s: none of the sharding types %s is among those offered, %s.", name, wanted, offered)
        return allowed

    def _compute_kernels(self, name: str, offered: Sequence[str]) -> list[str]:
        """What is offered and allowed, without kernels that others always beat."""
        wanted = (self._constraints or {}).get(name, _NOTHING_KNOWN).compute_kernels
        allowed = [kernel for kernel in offered if (kernel in wanted if wanted else kernel not in _ON_REQUEST)]
        if not allowed:
            logger.debug("Table %s: none of the kernels %s is among those offered, %s.", name, wanted, offered)
        if EmbeddingComputeKernel.FUSED.value in allowed and EmbeddingComputeKernel.DENSE.value in allowed:
            allowed.remove(EmbeddingComputeKernel.DENSE.value)
        return allowed


_NOTHING_KNOWN = ParameterConstraints()


def _dependency(name: str, path: str, module: nn.Module) -> str | None:
    """A name that tables share which must be on the same host: those of a tower."""
    kind = type(module).__name__
    if kind == "EmbeddingTower":
        return path
    if kind == "EmbeddingTowerCollection":
        for number, tower in enumerate(module.towers):  # type: ignore[arg-type]
            if any(name in parameter for parameter, _ in tower.named_parameters()):
                return f"{path}.tower_{number}"
        raise RuntimeError(f"No tower of {path} has a table {name}.")
    return None

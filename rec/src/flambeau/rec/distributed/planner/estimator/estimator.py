"""Estimators of the time of shards."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.rec.distributed.planner.constants import (
    BATCHED_COPY_PERF_FACTOR,
    DEFAULT_PERF_ESTIMATOR,
    DP_ELEMENTWISE_KERNELS_PERF_FACTOR,
    FULL_BLOCK_EMB_DIM,
    HALF_BLOCK_PENALTY,
    QUARTER_BLOCK_PENALTY,
)
from flambeau.rec.distributed.planner.estimator.config import EmbeddingPerfEstimatorConfig
from flambeau.rec.distributed.planner.estimator.evaluators import (
    ColumnWiseEvaluator,
    ColumnWiseInferenceEvaluator,
    DataParallelEvaluator,
    DataParallelInferenceEvaluator,
    EmbeddingShardingPerfEvaluator,
    GridShardEvaluator,
    GridShardInferenceEvaluator,
    InferenceShardingPerfEvaluator,
    RowWiseEvaluator,
    RowWiseInferenceEvaluator,
    TableColumnWiseEvaluator,
    TableColumnWiseInferenceEvaluator,
    TableRowWiseEvaluator,
    TableRowWiseInferenceEvaluator,
    TableWiseEvaluator,
    TableWiseInferenceEvaluator,
    compute_block_usage_penalty,
)
from flambeau.rec.distributed.planner.estimator.types import HardwarePerfConfig, ShardPerfContext
from flambeau.rec.distributed.planner.types import (
    ParameterConstraints,
    SharderData,
    ShardEstimator,
    ShardingOption,
    Topology,
)
from flambeau.rec.distributed.types import ShardingType

__all__ = [
    "BATCHED_COPY_PERF_FACTOR",
    "DP_ELEMENTWISE_KERNELS_PERF_FACTOR",
    "FULL_BLOCK_EMB_DIM",
    "HALF_BLOCK_PENALTY",
    "QUARTER_BLOCK_PENALTY",
    "ColumnWiseEvaluator",
    "ColumnWiseInferenceEvaluator",
    "DataParallelEvaluator",
    "DataParallelInferenceEvaluator",
    "EmbeddingPerfEstimator",
    "EmbeddingPerfEstimatorFactory",
    "EmbeddingPerfEstimatorV2",
    "EmbeddingShardingPerfEvaluator",
    "GridShardEvaluator",
    "GridShardInferenceEvaluator",
    "InferenceShardingPerfEvaluator",
    "RowWiseEvaluator",
    "RowWiseInferenceEvaluator",
    "TableColumnWiseEvaluator",
    "TableColumnWiseInferenceEvaluator",
    "TableRowWiseEvaluator",
    "TableRowWiseInferenceEvaluator",
    "TableWiseEvaluator",
    "TableWiseInferenceEvaluator",
    "compute_block_usage_penalty",
    "get_embedding_perf_sharding_evaluator",
]

# Trained, and not trained.
_EVALUATORS: dict[str, tuple[EmbeddingShardingPerfEvaluator, EmbeddingShardingPerfEvaluator]] = {
    ShardingType.DATA_PARALLEL.value: (DataParallelEvaluator(), DataParallelInferenceEvaluator()),
    ShardingType.TABLE_WISE.value: (TableWiseEvaluator(), TableWiseInferenceEvaluator()),
    ShardingType.COLUMN_WISE.value: (ColumnWiseEvaluator(), ColumnWiseInferenceEvaluator()),
    ShardingType.TABLE_COLUMN_WISE.value: (TableColumnWiseEvaluator(), TableColumnWiseInferenceEvaluator()),
    ShardingType.ROW_WISE.value: (RowWiseEvaluator(), RowWiseInferenceEvaluator()),
    ShardingType.TABLE_ROW_WISE.value: (TableRowWiseEvaluator(), TableRowWiseInferenceEvaluator()),
    ShardingType.GRID_SHARD.value: (GridShardEvaluator(), GridShardInferenceEvaluator()),
}


def get_embedding_perf_sharding_evaluator(
    sharding_type: str, is_inference: bool = False
) -> EmbeddingShardingPerfEvaluator:
    """The formulas of a sharding type.

    Args:
        sharding_type: a value of `ShardingType`; others are taken for whole tables.
        is_inference: whether nothing is trained.
    """
    pair = _EVALUATORS.get(sharding_type, _EVALUATORS[ShardingType.TABLE_WISE.value])
    return pair[int(is_inference)]


class EmbeddingPerfEstimator(ShardEstimator):
    """Estimates the time of shards.

    Args:
        topology: the devices.
        constraints: what users know, by table.
        is_inference: whether nothing is trained.
        config: the hardware; what follows from the topology by default.
        use_batch_inputs_for_expected_cache_fetches: whether a cache misses a share of all ids of a batch, rather than
            of the distinct ones.
        use_linear_regression_prefetch_estimate: whether the hardware's `PrefetchCoefficients` say how long it takes to
            fetch rows.
    """

    def __init__(
        self,
        topology: Topology,
        constraints: dict[str, ParameterConstraints] | None = None,
        is_inference: bool = False,
        config: HardwarePerfConfig | None = None,
        use_batch_inputs_for_expected_cache_fetches: bool = False,
        use_linear_regression_prefetch_estimate: bool = False,
    ) -> None:
        self._topology = topology
        self._constraints = constraints
        self._is_inference = is_inference
        self._config = config if config is not None else EmbeddingPerfEstimatorConfig()
        self._use_batch_inputs_for_expected_cache_fetches = use_batch_inputs_for_expected_cache_fetches
        self._use_linear_regression_prefetch_estimate = (
            use_linear_regression_prefetch_estimate or self._config._use_linear_regression_prefetch_estimate
        )

    @property
    def config(self) -> HardwarePerfConfig:
        """The hardware."""
        return self._config

    @property
    def is_inference(self) -> bool:
        """Whether nothing is trained."""
        return self._is_inference

    def estimate(self, sharding_options: list[ShardingOption], sharder_data_map: dict[str, SharderData]) -> None:
        """Write to the shards of options how long they take.

        Args:
            sharding_options: the options.
            sharder_data_map: what is known of their sharders, by `ShardingOption.module_type_key`.

        Raises:
            ValueError: the hardware cannot estimate an option, or has no such kernel.
        """
        together = type(self._config).post_process_perfs is not HardwarePerfConfig.post_process_perfs
        for option in sharding_options:
            self._config.validate_sharding_type(option.sharding_type)
            evaluator = get_embedding_perf_sharding_evaluator(option.sharding_type, self._is_inference)
            sizes = [shard.size for shard in option.shards] if together else option.sizes()
            contexts = ShardPerfContext.build_shard_perf_contexts(
                self._config,
                sizes,
                option,
                self._topology,
                self._constraints,
                sharder_data_map[option.module_type_key],
                self._is_inference,
                self._use_batch_inputs_for_expected_cache_fetches,
                self._use_linear_regression_prefetch_estimate,
            )
            perfs = [evaluator.compute_perf(ctx, self._config) for ctx in contexts]
            option.set_perfs(
                self._config.post_process_perfs(
                    perfs, sizes, option.sharding_type, self._topology.uneven_sharding_perf_multiplier
                )
            )


EmbeddingPerfEstimatorV2 = EmbeddingPerfEstimator


class EmbeddingPerfEstimatorFactory:
    """Kinds of hardware by name, and estimators for them::

    @EmbeddingPerfEstimatorFactory.register("my_card")
    @hbm_mem_bw(4.8e9)
    class MyCard(HardwarePerfConfig): ...

    estimator = EmbeddingPerfEstimatorFactory.create("my_card", topology=topology)
    """

    _registry: dict[str, type[HardwarePerfConfig]] = {DEFAULT_PERF_ESTIMATOR: EmbeddingPerfEstimatorConfig}

    @classmethod
    def register(cls, name: str) -> Callable[[type[HardwarePerfConfig]], type[HardwarePerfConfig]]:
        """A decorator that enters a kind of hardware by a name."""

        def enter(config: type[HardwarePerfConfig]) -> type[HardwarePerfConfig]:
            cls._registry[name] = config
            return config

        return enter

    @classmethod
    def create(
        cls,
        hardware_name: str,
        is_inference: bool = False,
        topology: Topology | None = None,
        constraints: dict[str, ParameterConstraints] | None = None,
        use_batch_inputs_for_expected_cache_fetches: bool = False,
        use_linear_regression_prefetch_estimate: bool = False,
    ) -> EmbeddingPerfEstimator:
        """An estimator for a kind of hardware.

        Args:
            hardware_name: its name.
            is_inference: see `EmbeddingPerfEstimator`, as of the others.
            topology: the devices.
            constraints: what users know, by table.
            use_batch_inputs_for_expected_cache_fetches: see there.
            use_linear_regression_prefetch_estimate: see there.

        Raises:
            ValueError: nothing is registered by that name, or the devices are not given.
        """
        if hardware_name not in cls._registry:
            raise ValueError(
                f"There is no hardware {hardware_name!r}, but {', '.join(cls.list_registered())}; register it."
            )
        return cls.create_with_config(
            cls._registry[hardware_name](),
            is_inference,
            topology,
            constraints,
            use_batch_inputs_for_expected_cache_fetches,
            use_linear_regression_prefetch_estimate,
        )

    @classmethod
    def create_with_config(
        cls,
        config: HardwarePerfConfig,
        is_inference: bool = False,
        topology: Topology | None = None,
        constraints: dict[str, ParameterConstraints] | None = None,
        use_batch_inputs_for_expected_cache_fetches: bool = False,
        use_linear_regression_prefetch_estimate: bool = False,
    ) -> EmbeddingPerfEstimator:
        """An estimator for hardware.

        Args:
            config: the hardware.
            is_inference: see `EmbeddingPerfEstimator`, as of the others.
            topology: the devices.
            constraints: what users know, by table.
            use_batch_inputs_for_expected_cache_fetches: see there.
            use_linear_regression_prefetch_estimate: see there.

        Raises:
            ValueError: the devices are not given.
        """
        if topology is None:
            raise ValueError("topology is None, but estimates depend on the devices; give a Topology.")
        return EmbeddingPerfEstimator(
            topology,
            constraints,
            is_inference,
            config,
            use_batch_inputs_for_expected_cache_fetches,
            use_linear_regression_prefetch_estimate,
        )

    @classmethod
    def list_registered(cls) -> list[str]:
        """The names, sorted."""
        return sorted(cls._registry)

    @classmethod
    def is_registered(cls, name: str) -> bool:
        """Whether there is hardware by a name."""
        return name in cls._registry

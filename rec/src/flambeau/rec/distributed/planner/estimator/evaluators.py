"""Formulas for the time of a shard, by sharding type.

A kernel is as slow as memory: what it reads and writes, divided by the bandwidth. So is communication: what is sent,
divided by the bandwidth of the slowest link on the way. I is the ids of a process, O the rows that they become, W the
devices, G those of a host or a pod, D the columns of the shard.
"""

from __future__ import annotations

import abc

from flambeau.rec.distributed.planner.constants import (
    BATCHED_COPY_PERF_FACTOR,
    DP_ELEMENTWISE_KERNELS_PERF_FACTOR,
    FULL_BLOCK_EMB_DIM,
    HALF_BLOCK_PENALTY,
    QUARTER_BLOCK_PENALTY,
)
from flambeau.rec.distributed.planner.estimator.annotations import (
    get_backward_compute,
    get_bwd_comms,
    get_forward_compute,
    get_fwd_comms,
    get_input_dist_comms,
    get_output_write_size,
    get_prefetch_compute,
)
from flambeau.rec.distributed.planner.estimator.types import HardwarePerfConfig, ShardPerfContext
from flambeau.rec.distributed.planner.types import CollectiveType, Perf

__all__ = [
    "ColumnWiseEvaluator",
    "ColumnWiseInferenceEvaluator",
    "DataParallelEvaluator",
    "DataParallelInferenceEvaluator",
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
]


def compute_block_usage_penalty(embedding_dim: int) -> float:
    """How much longer columns take than their share, as a kernel's blocks compute 128 of them."""
    if embedding_dim >= FULL_BLOCK_EMB_DIM:
        return 1.0
    return HALF_BLOCK_PENALTY if embedding_dim >= FULL_BLOCK_EMB_DIM // 2 else QUARTER_BLOCK_PENALTY


class EmbeddingShardingPerfEvaluator(abc.ABC):
    """The time of a shard. What hardware says by the decorators of `annotations` goes before the formulas here."""

    def compute_perf(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> Perf:
        """Milliseconds of each stage.

        Args:
            ctx: what they depend on.
            config: the hardware.
        """
        return Perf(
            fwd_compute=self.compute_fwd_comp(ctx, config),
            fwd_comms=self.compute_fwd_comms(ctx, config),
            bwd_compute=self.compute_bwd_comp(ctx, config),
            bwd_comms=self.compute_bwd_comms(ctx, config),
            input_dist_comms=self.compute_input_dist_comms(ctx, config),
            prefetch_compute=self.compute_prefetch_comp(ctx, config),
        )

    # What is looked up.

    def get_batch_inputs(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Ids of a process that are looked up in the shard."""
        return ctx.batch_inputs / self.get_batch_inputs_divisor(ctx)

    def get_batch_inputs_divisor(self, ctx: ShardPerfContext) -> int:
        """Shards among which the ids of a process are divided."""
        return 1

    def use_min_dim_for_lookup(self, config: HardwarePerfConfig) -> bool:
        """Whether rows of less than 32 columns are read as if they had 32."""
        return bool(config._use_min_dim_for_lookup)

    def use_block_usage_penalty(self, config: HardwarePerfConfig) -> bool:
        """Whether less than 128 columns take longer than their share."""
        return bool(config._use_block_usage_penalty)

    def use_bytes_for_input_read_size(self, config: HardwarePerfConfig) -> bool:
        """Whether bytes of ids count, rather than how many there are."""
        own = config._use_bytes_for_input_read_size
        return True if own is None else own

    def _processes(self, ctx: ShardPerfContext) -> int:
        """Processes whose ids are looked up."""
        return ctx.world_size

    def _input_read_size(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        size = self.get_batch_inputs(ctx, config) * self._processes(ctx)
        if self.use_bytes_for_input_read_size(config):
            size *= ctx.input_data_type_size
        return size * 2 if ctx.is_weighted else size

    def _lookup_size(self, ctx: ShardPerfContext, columns: int) -> float:
        ids = ctx.batch_inputs / self.get_batch_inputs_divisor(ctx)
        return ids * self._processes(ctx) * columns * ctx.table_data_type_size

    def _sent_size(self, ctx: ShardPerfContext, is_fwd: bool) -> float:
        """Bytes that communication sends, and kernels write for it."""
        return ctx.batch_outputs * ctx.world_size * ctx.emb_dim * self._sent_type_size(ctx, is_fwd)

    def _sent_type_size(self, ctx: ShardPerfContext, is_fwd: bool) -> float:
        return ctx.fwd_a2a_comm_data_type_size if is_fwd else ctx.bwd_a2a_comm_data_type_size

    def _output_write_size(self, ctx: ShardPerfContext, config: HardwarePerfConfig, is_fwd: bool) -> float:
        own = get_output_write_size(config, ctx.sharding_type)
        return self._sent_size(ctx, is_fwd) if own is None else own(ctx, is_fwd)

    # How long it takes.

    def compute_fwd_comp(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Milliseconds of a look-up: (ids + rows read + rows written) / bandwidth."""
        own = get_forward_compute(config, ctx.sharding_type)
        if own is not None:
            return own(ctx)
        factors = config.get_coefficients_for_sharding(ctx.sharding_type, ctx.compute_kernel).fwd
        penalty = compute_block_usage_penalty(ctx.emb_dim) if self.use_block_usage_penalty(config) else 1
        columns = max(ctx.emb_dim, 32) if self.use_min_dim_for_lookup(config) else ctx.emb_dim
        return (
            (
                self._input_read_size(ctx, config) * factors.input_read_size_multiplier
                + self._lookup_size(ctx, columns) * factors.lookup_size_multiplier
                + self._output_write_size(ctx, config, True) * factors.embedding_output_multiplier
                + ctx.hash_size * factors.hash_size_multiplier
            )
            * penalty
            / ctx.device_bw
        )

    def compute_bwd_comp(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Milliseconds of an update: a multiple of a look-up's, or by its own factors; more where ids have weights."""
        own = get_backward_compute(config, ctx.sharding_type)
        if own is not None:
            return own(ctx)
        forward = self.compute_fwd_comp(ctx, config)
        factors = config.get_coefficients_for_sharding(ctx.sharding_type, ctx.compute_kernel).bwd
        if factors is None:
            time = forward * config.get_bwd_compute_multiplier(ctx.bwd_compute_multiplier)
        else:
            time = (
                self._input_read_size(ctx, config) * factors.input_read_size_multiplier
                + self._lookup_size(ctx, ctx.emb_dim) * factors.lookup_size_multiplier
                + self._output_write_size(ctx, config, False) * factors.embedding_output_multiplier
                + ctx.hash_size * factors.hash_size_multiplier
            ) / ctx.device_bw
        if not ctx.is_weighted:
            return time
        time *= config.get_weighted_feature_bwd_compute_multiplier(ctx.weighted_feature_bwd_compute_multiplier)
        return time + forward * config.coefficients.weighted_kernel_multiplier

    def compute_fwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Milliseconds in which what was looked up is sent to the processes that asked for it."""
        own = get_fwd_comms(config, ctx.sharding_type)
        return self._fwd_comms(ctx, config) if own is None else own(ctx)

    def compute_bwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Milliseconds in which gradients are sent to the processes that have the shards."""
        own = get_bwd_comms(config, ctx.sharding_type)
        return self._bwd_comms(ctx, config) if own is None else own(ctx)

    @abc.abstractmethod
    def _fwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float: ...

    @abc.abstractmethod
    def _bwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float: ...

    def compute_input_dist_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Milliseconds in which ids are sent to the processes that have the shards: all ids to everybody."""
        own = get_input_dist_comms(config, ctx.sharding_type)
        if own is not None:
            return own(ctx)
        size = ctx.batch_inputs * ctx.world_size * ctx.input_data_type_size
        return size / _bandwidth(ctx, ctx.world_size, CollectiveType.ALL_TO_ALL)

    # What a cache lacks.

    def get_prefetch_divisor(self, ctx: ShardPerfContext) -> int:
        """Shards among which rows that a cache lacks are divided."""
        return 1

    def get_expected_lookups_for_prefetch(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Ids by which fetching is estimated; twice as many where they have weights."""
        size = ctx.batch_inputs * ctx.world_size
        return size * 2 if ctx.is_weighted else size

    def compute_prefetch_comp(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Milliseconds in which rows that a cache lacks are fetched from the host."""
        own = get_prefetch_compute(config)
        if own is not None:
            return own(ctx)
        fetched = self._expected_cache_fetches(ctx)
        factors = config.coefficients.prefetch
        divisor = self.get_prefetch_divisor(ctx)
        if ctx.use_linear_regression_prefetch_estimate:
            if factors is None:
                raise ValueError(
                    f"use_linear_regression_prefetch_estimate is True, but {type(config).__name__} has no "
                    "PrefetchCoefficients; give some by a method marked with prefetch_coefficient."
                )
            distinct = _distinct(ctx)
            return (
                factors.expected_num_lookups_coefficient * self.get_expected_lookups_for_prefetch(ctx, config)
                + factors.expected_num_unique_lookups_coefficient * distinct
                + factors.expected_size_cache_fetches_coefficient * fetched * ctx.emb_dim
            ) / divisor
        size = fetched / divisor * ctx.emb_dim * ctx.table_data_type_size
        return size / (ctx.hbm_to_ddr_mem_bw if config.hbm_to_ddr_mem_bw is None else config.hbm_to_ddr_mem_bw)

    def _expected_cache_fetches(self, ctx: ShardPerfContext) -> float:
        if ctx.expected_miss_rate is None:
            return 0.0
        if ctx.use_batch_inputs_for_expected_cache_fetches:
            return ctx.expected_miss_rate * ctx.batch_inputs * self._processes(ctx)
        return ctx.expected_miss_rate * _distinct(ctx)


def _distinct(ctx: ShardPerfContext) -> float:
    """Distinct ids of a batch; with `use_linear_regression_prefetch_estimate` no more than there are ids, or rows."""
    known = ctx.cache_stats_expected_lookups or 0.0
    if not ctx.use_linear_regression_prefetch_estimate:
        return known
    return min(known, ctx.batch_inputs, ctx.hash_size_for_clamping)


def _bandwidth(ctx: ShardPerfContext, world_size: int, kind: CollectiveType) -> float:
    """Bytes a millisecond of communication among devices."""
    if ctx.comms_bandwidths is None:
        return ctx.intra_host_bw if world_size <= ctx.local_world_size else ctx.inter_host_bw
    return ctx.comms_bandwidths.get_bw(ctx.local_world_size, world_size, kind)


class TableWiseEvaluator(EmbeddingShardingPerfEvaluator):
    """A whole table, or some columns: all ids of all processes (I W), by all-to-all."""

    def use_min_dim_for_lookup(self, config: HardwarePerfConfig) -> bool:
        """Yes, unless the hardware says otherwise."""
        own = config._use_min_dim_for_lookup
        return True if own is None else own

    def use_block_usage_penalty(self, config: HardwarePerfConfig) -> bool:
        """Yes, unless the hardware says otherwise."""
        own = config._use_block_usage_penalty
        return True if own is None else own

    def _fwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        return self._sent_size(ctx, True) / _bandwidth(ctx, ctx.world_size, CollectiveType.ALL_TO_ALL)

    def _bwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        return self._sent_size(ctx, False) / _bandwidth(ctx, ctx.world_size, CollectiveType.ALL_TO_ALL)


class ColumnWiseEvaluator(TableWiseEvaluator):
    """Some columns of a table."""


class TableColumnWiseEvaluator(TableWiseEvaluator):
    """Some columns of a table whose others are on the same host."""


class RowWiseEvaluator(EmbeddingShardingPerfEvaluator):
    """Some rows: of all ids of all processes a share (I), by reduce-scatter; ids one by one by all-to-all."""

    def get_batch_inputs_divisor(self, ctx: ShardPerfContext) -> int:
        """All devices."""
        return ctx.world_size

    def _processes(self, ctx: ShardPerfContext) -> int:
        return ctx.world_size

    def get_batch_inputs(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Ids of a process that are looked up in the shard."""
        return ctx.batch_inputs / ctx.world_size

    def use_bytes_for_input_read_size(self, config: HardwarePerfConfig) -> bool:
        """Always."""
        return True

    def _input_read_size(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        size = ctx.batch_inputs * ctx.input_data_type_size
        return size * 2 if ctx.is_weighted else size

    def _lookup_size(self, ctx: ShardPerfContext, columns: int) -> float:
        return ctx.batch_inputs * columns * ctx.table_data_type_size

    def _sent_size(self, ctx: ShardPerfContext, is_fwd: bool) -> float:
        size = ctx.batch_outputs * ctx.emb_dim * self._sent_type_size(ctx, is_fwd)
        return size * ctx.world_size if ctx.is_pooled else size

    def _sent_type_size(self, ctx: ShardPerfContext, is_fwd: bool) -> float:
        if not ctx.is_pooled:
            return super()._sent_type_size(ctx, is_fwd)
        return ctx.fwd_sr_comm_data_type_size if is_fwd else ctx.bwd_sr_comm_data_type_size

    def _fwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        return self._sent_size(ctx, True) / _bandwidth(ctx, ctx.world_size, CollectiveType.REDUCE_SCATTER)

    def _bwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        size = self._sent_size(ctx, False)
        sent = size / _bandwidth(ctx, ctx.world_size, CollectiveType.ALL_GATHER)
        return sent + size * BATCHED_COPY_PERF_FACTOR / ctx.device_bw

    def get_prefetch_divisor(self, ctx: ShardPerfContext) -> int:
        """All devices."""
        return ctx.world_size

    def get_expected_lookups_for_prefetch(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Bytes of the ids that are looked up in the shard."""
        return self._input_read_size(ctx, config)


class TableRowWiseEvaluator(EmbeddingShardingPerfEvaluator):
    """Some rows, the others on the same host: a share of all ids (I W / G), reduced in the host, then exchanged."""

    def get_batch_inputs_divisor(self, ctx: ShardPerfContext) -> int:
        """Devices of a pod."""
        return ctx.intra_group_size

    def use_bytes_for_input_read_size(self, config: HardwarePerfConfig) -> bool:
        """Always."""
        return True

    def _sent_size(self, ctx: ShardPerfContext, is_fwd: bool) -> float:
        size = ctx.batch_outputs * ctx.world_size * ctx.emb_dim * self._sent_type_size(ctx, is_fwd)
        return size if ctx.is_pooled else size / ctx.intra_group_size

    def _sent_type_size(self, ctx: ShardPerfContext, is_fwd: bool) -> float:
        return ctx.fwd_sr_comm_data_type_size if is_fwd else ctx.bwd_sr_comm_data_type_size

    def _between_hosts(self, ctx: ShardPerfContext, config: HardwarePerfConfig, type_size: float) -> float:
        if ctx.num_twrw_groups == 1:
            return 0.0
        size = ctx.batch_outputs * ctx.num_twrw_groups * ctx.emb_dim * type_size
        return size / _bandwidth(ctx, ctx.world_size, CollectiveType.ALL_TO_ALL)

    def _fwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        bandwidth = _bandwidth(ctx, ctx.intra_group_size, CollectiveType.REDUCE_SCATTER)
        return self._sent_size(ctx, True) / bandwidth + self._between_hosts(
            ctx, config, ctx.fwd_a2a_comm_data_type_size
        )

    def _bwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        size = self._sent_size(ctx, False)
        gathered = size / _bandwidth(ctx, ctx.intra_group_size, CollectiveType.ALL_GATHER)
        exchanged = self._between_hosts(ctx, config, ctx.bwd_a2a_comm_data_type_size)
        return exchanged + gathered + size * BATCHED_COPY_PERF_FACTOR / ctx.device_bw

    def get_prefetch_divisor(self, ctx: ShardPerfContext) -> int:
        """Devices of a pod."""
        return ctx.intra_group_size

    def get_expected_lookups_for_prefetch(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """Bytes of the ids that are looked up in the shard."""
        return self._input_read_size(ctx, config)


class GridShardEvaluator(TableRowWiseEvaluator):
    """Some rows of some columns, the other rows on the same host."""


class DataParallelEvaluator(EmbeddingShardingPerfEvaluator):
    """The whole table for the ids of one process (I); gradients of all rows are reduced, and applied one by one."""

    def _processes(self, ctx: ShardPerfContext) -> int:
        return 1

    def use_bytes_for_input_read_size(self, config: HardwarePerfConfig) -> bool:
        """Always."""
        return True

    def _sent_size(self, ctx: ShardPerfContext, is_fwd: bool) -> float:
        return ctx.batch_outputs * ctx.emb_dim * ctx.table_data_type_size

    def _fwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        return 0

    def _bwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        size = ctx.hash_size * ctx.emb_dim * ctx.table_data_type_size
        hosts = min(ctx.num_hosts, 2)
        reduced = size * (2 * hosts - 1) / hosts / _bandwidth(ctx, ctx.world_size, CollectiveType.ALL_REDUCE)
        if ctx.world_size > 2 * ctx.local_world_size:
            # More than two hosts wait for each other.
            reduced *= 2
        return reduced + size * DP_ELEMENTWISE_KERNELS_PERF_FACTOR / ctx.device_bw

    def compute_prefetch_comp(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """None: the table is in the device's memory."""
        return 0.0

    def compute_input_dist_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """None: ids stay where they are."""
        return 0.0


class InferenceShardingPerfEvaluator(EmbeddingShardingPerfEvaluator):
    """A shard that is not trained."""

    def compute_bwd_comp(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """None."""
        return 0.0

    def compute_bwd_comms(self, ctx: ShardPerfContext, config: HardwarePerfConfig) -> float:
        """None."""
        return 0.0


class TableWiseInferenceEvaluator(InferenceShardingPerfEvaluator, TableWiseEvaluator):
    """A whole table that is not trained."""


class ColumnWiseInferenceEvaluator(InferenceShardingPerfEvaluator, ColumnWiseEvaluator):
    """Some columns of one."""


class TableColumnWiseInferenceEvaluator(InferenceShardingPerfEvaluator, TableColumnWiseEvaluator):
    """Some columns of one whose others are on the same host."""


class RowWiseInferenceEvaluator(InferenceShardingPerfEvaluator, RowWiseEvaluator):
    """Some rows of one."""


class TableRowWiseInferenceEvaluator(InferenceShardingPerfEvaluator, TableRowWiseEvaluator):
    """Some rows of one whose others are on the same host."""


class GridShardInferenceEvaluator(InferenceShardingPerfEvaluator, GridShardEvaluator):
    """Some rows of some columns of one."""


class DataParallelInferenceEvaluator(InferenceShardingPerfEvaluator, DataParallelEvaluator):
    """A table that every device has, and does not train."""

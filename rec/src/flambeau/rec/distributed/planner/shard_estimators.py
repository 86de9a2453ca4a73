"""Estimators of the memory and the time of shards, and what is known of caches."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from flambeau.rec.distributed.planner._shard_storages import calculate_pipeline_io_cost, calculate_shard_storages
from flambeau.rec.distributed.planner.constants import (
    BIGINT_DTYPE,
    DEFAULT_PERF_ESTIMATOR,
    KV_CACHING_RATIO,
    NUM_POOLINGS,
    UVM_CACHING_RATIO,
)
from flambeau.rec.distributed.planner.estimator.estimator import EmbeddingPerfEstimator as _HardwareEstimator
from flambeau.rec.distributed.planner.types import (
    ParameterConstraints,
    SharderData,
    ShardEstimator,
    ShardingOption,
    Topology,
)
from flambeau.rec.distributed.planner.utils import get_num_poolings
from flambeau.rec.distributed.types import CacheStatistics, PipelineType

__all__ = [
    "BIGINT_DTYPE",
    "DEFAULT_PERF_ESTIMATOR",
    "KV_CACHING_RATIO",
    "NUM_POOLINGS",
    "UVM_CACHING_RATIO",
    "EmbeddingOffloadStats",
    "EmbeddingPerfEstimator",
    "EmbeddingStorageEstimator",
    "calculate_pipeline_io_cost",
    "calculate_shard_storages",
    "get_num_poolings",
]


class EmbeddingPerfEstimator(_HardwareEstimator):
    """Estimates the time of shards on hardware of which nothing is known but the topology.

    Args:
        topology: the devices.
        constraints: what users know, by table.
        is_inference: whether nothing is trained.
    """

    def __init__(
        self,
        topology: Topology,
        constraints: dict[str, ParameterConstraints] | None = None,
        is_inference: bool = False,
    ) -> None:
        super().__init__(topology, constraints, is_inference)


class EmbeddingStorageEstimator(ShardEstimator):
    """Estimates the memory of shards.

    Args:
        topology: the devices.
        constraints: what users know, by table.
        pipeline_type: which batches a training pipeline has at a time.
        run_embedding_at_peak_memory: whether look-ups run when memory is scarcest; then their outputs count, which are
            gone by the time of the backward pass otherwise.
        is_inference: whether nothing is trained.
    """

    def __init__(
        self,
        topology: Topology,
        constraints: dict[str, ParameterConstraints] | None = None,
        pipeline_type: PipelineType = PipelineType.NONE,
        run_embedding_at_peak_memory: bool = False,
        is_inference: bool = False,
    ) -> None:
        self._topology = topology
        self._constraints = constraints
        self._pipeline_type = pipeline_type
        self._run_embedding_at_peak_memory = run_embedding_at_peak_memory
        self._is_inference = is_inference

    def estimate(self, sharding_options: list[ShardingOption], sharder_data_map: dict[str, SharderData]) -> None:
        """Write to the shards of options how much memory they take.

        Args:
            sharding_options: the options.
            sharder_data_map: what is known of their sharders, by `ShardingOption.module_type_key`.
        """
        for option in sharding_options:
            sharder_data = sharder_data_map[option.module_type_key]
            constraint = (self._constraints or {}).get(option.name)
            of_sharder = sharder_data.fused_params.get("cache_load_factor")
            ratio = option.cache_load_factor if option.cache_load_factor is not None else of_sharder
            passes = option.cache_params.multipass_prefetch_config if option.cache_params is not None else None
            batch_sizes = constraint.batch_sizes if constraint is not None else None
            option.set_storages(
                calculate_shard_storages(
                    sharder_data=sharder_data,
                    sharding_type=option.sharding_type,
                    tensor=option.tensor,
                    compute_device=self._topology.compute_device,
                    compute_kernel=option.compute_kernel,
                    shard_sizes=option.sizes(),
                    batch_sizes=batch_sizes or [option.batch_size] * option.num_inputs,
                    world_size=self._topology.world_size,
                    local_world_size=self._topology.intra_group_size,
                    input_lengths=option.input_lengths,
                    num_poolings=get_num_poolings(self._constraints, option),
                    caching_ratio=UVM_CACHING_RATIO if ratio is None else ratio,
                    is_pooled=option.is_pooled,
                    input_data_type_size=BIGINT_DTYPE,
                    output_data_type_size=option.tensor.element_size(),
                    pipeline_type=self._pipeline_type,
                    count_ephemeral_storage_cost=self._run_embedding_at_peak_memory,
                    is_inference=self._is_inference,
                    multipass_prefetch_max_pass=passes.num_passes if passes is not None else None,
                    key_value_params=option.key_value_params,
                    kv_cache_load_factor=KV_CACHING_RATIO if of_sharder is None else of_sharder,
                    use_virtual_table=constraint.use_virtual_table if constraint is not None else False,
                )
            )


class EmbeddingOffloadStats(CacheStatistics):
    """What a histogram of reuse tells of a cache: how many look-ups are hits in a cache of so many rows.

    Args:
        cacheability: the area below the curve of miss rates, 0 (caches well) to 1.
        expected_lookups: distinct ids of a global batch.
        mrc_hist_counts: (bins,), look-ups whose row was last used as many distinct rows ago as the bin says; bins
            divide the table's rows evenly.
        height: rows of the table.

    Raises:
        ValueError: the histogram has not one dimension, or nothing in it.

    References:
        Mattson, Gecsei, Slutz and Traiger 1970, "Evaluation techniques for storage hierarchies".
    """

    def __init__(self, cacheability: float, expected_lookups: int, mrc_hist_counts: Tensor, height: int) -> None:
        if mrc_hist_counts.dim() != 1 or mrc_hist_counts.numel() == 0:
            raise ValueError(
                f"mrc_hist_counts has shape {tuple(mrc_hist_counts.shape)}, but must have one dimension, and bins."
            )
        self._cacheability = cacheability
        self._expected_lookups = expected_lookups
        self.height = height
        self.hist: Tensor = mrc_hist_counts
        self.bins: Tensor = torch.linspace(0, height, len(mrc_hist_counts) + 1)

    @property
    def expected_lookups(self) -> int:
        """Distinct ids of a global batch."""
        return self._expected_lookups

    @property
    def cacheability(self) -> float:
        """The area below the curve of miss rates."""
        return self._cacheability

    def expected_miss_rate(self, clf: float) -> float:
        """Share of look-ups that a cache lacks.

        Args:
            clf: rows of the cache as a share of the table's, 0 to 1.
        """
        rows = torch.tensor(clf * self.height)
        return cast("float", self.estimate_cache_miss_rate(rows, self.hist, self.bins).item())

    @staticmethod
    def estimate_cache_miss_rate(cache_sizes: Tensor, hist: Tensor, bins: Tensor) -> Tensor:
        """Share of look-ups that caches lack.

        Args:
            cache_sizes: (...), rows of each cache.
            hist: (bins,), look-ups by how many distinct rows were used since the row was.
            bins: (bins + 1,), ends of the bins, ascending.

        Returns:
            (...), 0 to 1; 0 without any look-ups.
        """
        hits = hist.cumsum(dim=0)
        if hits[-1] == 0:
            return torch.zeros_like(cache_sizes, dtype=torch.float32)
        misses = 1 - hits / hits[-1]
        # A cache misses all but what the bins below its size have.
        full = torch.cat([torch.ones(1, dtype=misses.dtype), misses])
        return full[torch.bucketize(cache_sizes, bins).clamp(max=len(hist))]

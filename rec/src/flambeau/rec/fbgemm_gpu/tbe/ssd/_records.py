"""What tables on disk measure, and what their batches and loads consist of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torch import Tensor

__all__ = ["DramKvPerfStat", "DramSsdPerfStat", "IterData", "KVZCHCachedData"]


class DramKvPerfStat(Enum):
    """What a store in memory measures, by the names under which it is reported."""

    READ_DURATION = "dram_read_duration"
    READ_SHARDING_DURATION = "dram_read_sharding_duration"
    READ_CACHE_HIT_COPY_DURATION = "dram_read_cache_hit_copy_duration"
    READ_FILL_ROW_STORAGE_DURATION = "dram_read_fill_row_storage_duration"
    READ_LOOKUP_CACHE_DURATION = "dram_read_lookup_cache_duration"
    READ_ACQUIRE_LOCK_DURATION = "dram_read_acquire_lock_duration"
    READ_MISSING_LOAD = "dram_read_missing_load"
    WRITE_SHARING_DURATION = "dram_write_sharing_duration"
    FWD_L1_EVICTION_WRITE_DURATION = "dram_fwd_l1_eviction_write_duration"
    FWD_L1_EVICTION_WRITE_ALLOCATE_DURATION = "dram_fwd_l1_eviction_write_allocate_duration"
    FWD_L1_EVICTION_WRITE_CACHE_COPY_DURATION = "dram_fwd_l1_eviction_write_cache_copy_duration"
    FWD_L1_EVICTION_WRITE_LOOKUP_CACHE_DURATION = "dram_fwd_l1_eviction_write_lookup_cache_duration"
    FWD_L1_EVICTION_WRITE_ACQUIRE_LOCK_DURATION = "dram_fwd_l1_eviction_write_acquire_lock_duration"
    FWD_L1_EVICTION_WRITE_MISSING_LOAD = "dram_fwd_l1_eviction_write_missing_load"
    BWD_L1_CNFLCT_MISS_WRITE_DURATION = "dram_bwd_l1_cnflct_miss_write_duration"
    BWD_L1_CNFLCT_MISS_WRITE_ALLOCATE_DURATION = "dram_bwd_l1_cnflct_miss_write_allocate_duration"
    BWD_L1_CNFLCT_MISS_WRITE_CACHE_COPY_DURATION = "dram_bwd_l1_cnflct_miss_write_cache_copy_duration"
    BWD_L1_CNFLCT_MISS_WRITE_LOOKUP_CACHE_DURATION = "dram_bwd_l1_cnflct_miss_write_lookup_cache_duration"
    BWD_L1_CNFLCT_MISS_WRITE_ACQUIRE_LOCK_DURATION = "dram_bwd_l1_cnflct_miss_write_acquire_lock_duration"
    BWD_L1_CNFLCT_MISS_WRITE_MISSING_LOAD = "dram_bwd_l1_cnflct_miss_write_missing_load"
    KV_ALLOCATED_BYTES = "dram_kv_allocated_bytes"
    KV_ACTUAL_USED_CHUNK_BYTES = "dram_kv_actual_used_chunk_bytes"
    KV_NUM_ROWS = "dram_kv_num_rows"
    KV_READ_COUNTS = "dram_kv_read_counts"
    METADATA_WRITE_SHARDING_TOTAL_DURATION = "dram_metadata_write_sharding_total_duration"
    METADATA_WRITE_TOTAL_DURATION = "dram_metadata_write_total_duration"
    METADATA_WRITE_ALLOCATE_AVG_DURATION = "dram_metadata_write_allocate_avg_duration"
    METADATA_WRITE_LOOKUP_CACHE_AVG_DURATION = "dram_metadata_write_lookup_cache_avg_duration"
    METADATA_WRITE_ACQUIRE_LOCK_AVG_DURATION = "dram_metadata_write_acquire_lock_avg_duration"
    METADATA_WRITE_CACHE_MISS_AVG_COUNT = "dram_metadata_write_cache_miss_avg_count"
    READ_METADATA_TOTAL_DURATION = "dram_read_metadata_total_duration"
    READ_METADATA_SHARDING_TOTAL_DURATION = "dram_read_metadata_sharding_total_duration"
    READ_METADATA_CACHE_HIT_COPY_AVG_DURATION = "dram_read_metadata_cache_hit_copy_avg_duration"
    READ_METADATA_LOOKUP_CACHE_TOTAL_AVG_DURATION = "dram_read_metadata_lookup_cache_total_avg_duration"
    READ_METADATA_ACQUIRE_LOCK_AVG_DURATION = "dram_read_metadata_acquire_lock_avg_duration"
    READ_METADATA_LOAD_SIZE = "dram_read_metadata_load_size"
    READ_HIT_COUNT = "dram_read_hit_count"
    READ_MISS_COUNT = "dram_read_miss_count"
    ENRICHMENT_QUERY_COUNT = "enrichment_query_count"
    ENRICHMENT_EMPTY_COUNT = "enrichment_empty_count"


class DramSsdPerfStat(Enum):
    """What a store in memory over disk counts, by the names under which it is reported."""

    SSD_NUM_LOOKUPS = "ssd_num_lookups"
    SSD_NUM_HITS = "ssd_num_hits"
    SSD_NUM_WRITES = "ssd_num_writes"
    SSD_NUM_IDS = "ssd_num_ids"
    SSD_TOTAL_ROWS_WRITTEN = "ssd_total_rows_written"


@dataclass
class IterData:
    """A batch that is prepared: where its rows are in the cache, or else in memory beside it.

    Args:
        indices: (L,).
        offsets: (bags + 1,).
        lxu_cache_locations: (L,) slots of the cache, -1 where there is none.
        lxu_cache_ptrs: (L,) addresses of rows.
        actions_count_gpu: (1,) rows that were fetched.
        cache_set_inverse_indices: of each fetched row, which it is.
        B_offsets: which bags are a feature's, where sizes differ.
        max_B: the largest batch.
    """

    indices: Tensor
    offsets: Tensor
    lxu_cache_locations: Tensor
    lxu_cache_ptrs: Tensor
    actions_count_gpu: Tensor
    cache_set_inverse_indices: Tensor
    B_offsets: Tensor | None = None
    max_B: int | None = -1


@dataclass
class KVZCHCachedData:
    """Tensors that virtual tables are loaded through.

    Args:
        cached_optimizer_states_per_table: of each table, its states.
        cached_weight_tensor_per_table: of each table, (ids, columns).
        cached_id_tensor_per_table: of each table, (ids, 1).
        cached_bucket_splits: of each table, ids of each bucket.
    """

    cached_optimizer_states_per_table: list[list[Tensor]]
    cached_weight_tensor_per_table: list[Tensor]
    cached_id_tensor_per_table: list[Tensor]
    cached_bucket_splits: list[Tensor]

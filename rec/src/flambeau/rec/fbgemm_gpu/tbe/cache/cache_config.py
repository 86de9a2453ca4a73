"""Caches of tables on a device: who is evicted, what is counted, and how prefetching is cut into passes."""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["CacheAlgorithm", "CacheState", "MultiPassPrefetchConfig", "UVMCacheStatsIndex"]


class CacheAlgorithm(enum.Enum):
    """Which row gives way: the one that was used longest ago, or the one that is used most rarely."""

    LRU = 0
    LFU = 1


class MultiPassPrefetchConfig(NamedTuple):
    """How a large prefetch is cut.

    Args:
        num_passes: at most.
        min_splitable_pass_size: indices that a pass has at least.
    """

    num_passes: int = 12
    min_splitable_pass_size: int = 6 * 1024 * 1024


class UVMCacheStatsIndex(enum.IntEnum):
    """Places in the counts of a cache."""

    num_calls = 0
    num_requested_indices = 1
    num_unique_indices = 2
    num_unique_misses = 3
    num_conflict_unique_misses = 4
    num_conflict_misses = 5


class CacheState(NamedTuple):
    """Which rows are in reach of a cache.

    Args:
        cache_hash_size_cumsum: where each table's rows begin among all cached rows; -1 for tables without a cache.
        cache_index_table_map: the table of each cached row.
        total_cache_hash_size: rows of all cached tables.
    """

    cache_hash_size_cumsum: list[int]
    cache_index_table_map: list[int]
    total_cache_hash_size: int

"""What training and inference of table-batched embeddings share, under the names of older programs."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import CacheState
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import (
    BoundsCheckMode,
    ComputeDevice,
    EmbeddingLocation,
    EmbeddingSpecInfo,
    PoolingMode,
    RecordCacheMetrics,
    SplitState,
    get_new_embedding_location,
    round_up,
    tensor_to_device,
)

__all__ = [
    "BoundsCheckMode",
    "ComputeDevice",
    "EmbeddingLocation",
    "EmbeddingSpecInfo",
    "PoolingMode",
    "RecordCacheMetrics",
    "SplitState",
    "construct_cache_state",
    "get_new_embedding_location",
    "round_up",
    "tensor_to_device",
]


def construct_cache_state(
    row_list: Sequence[int], location_list: Sequence[EmbeddingLocation], feature_table_map: Sequence[int]
) -> CacheState:
    """Number the rows of all tables with a cache.

    Args:
        row_list: rows of each table.
        location_list: where each table is; those in `MANAGED_CACHING` have a cache.
        feature_table_map: the table of each feature.

    Returns:
        Where the rows of each feature's table begin, and the first feature of each row's table.

    Example:
        >>> with_cache, without = EmbeddingLocation.MANAGED_CACHING, EmbeddingLocation.HOST
        >>> construct_cache_state([2, 5, 1], [with_cache, without, with_cache], [0, 1, 2]).cache_hash_size_cumsum
        [0, -1, 2, 3]
    """
    starts: dict[int, int] = {}
    cumsum: list[int] = []
    table_map: list[int] = []
    for feature, table in enumerate(feature_table_map):
        if location_list[table] != EmbeddingLocation.MANAGED_CACHING:
            cumsum.append(-1)
            continue
        if table not in starts:
            starts[table] = len(table_map)
            table_map.extend([feature] * row_list[table])
        cumsum.append(starts[table])
    return CacheState([*cumsum, len(table_map)], table_map, len(table_map))

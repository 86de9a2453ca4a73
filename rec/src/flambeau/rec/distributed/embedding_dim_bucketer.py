"""Tables of like width put together, so that a cache's rows, which are as wide as the widest, waste little."""

from __future__ import annotations

from enum import Enum, unique

from flambeau.rec.distributed.embedding_types import ShardedEmbeddingTable
from flambeau.rec.modules.embedding_configs import DATA_TYPE_NUM_BITS
from flambeau.rec.types import DataType

__all__ = ["EmbDimBucketer", "EmbDimBucketerPolicy"]

_CACHE_LINE_BYTES = 128


@unique
class EmbDimBucketerPolicy(Enum):
    """How widths are put together: all in one bucket, a bucket for each, or one for each number of cache lines."""

    SINGLE_BUCKET = "single_bucket"
    ALL_BUCKETS = "all_buckets"
    CACHELINE_BUCKETS = "cacheline_buckets"


class EmbDimBucketer:
    """Numbers buckets of widths.

    Args:
        embedding_tables: whose widths there are.
        cfg: how they are put together.
    """

    def __init__(self, embedding_tables: list[ShardedEmbeddingTable], cfg: EmbDimBucketerPolicy) -> None:
        self.cacheline = _CACHE_LINE_BYTES
        self.buckets = {
            EmbDimBucketerPolicy.SINGLE_BUCKET: self.single_emb_bucket,
            EmbDimBucketerPolicy.ALL_BUCKETS: self.all_emb_buckets,
            EmbDimBucketerPolicy.CACHELINE_BUCKETS: self.cacheline_emb_buckets,
        }[cfg](embedding_tables)

    def bucket_count(self) -> int:
        """How many buckets there are."""
        return len(self.buckets)

    def get_bucket(self, embedding_dim: int, dtype: DataType) -> int:
        """The bucket of a width; 0 where all are in one."""
        if self.bucket_count() == 1:
            return next(iter(self.buckets.values()), 0)
        return self.bucket(embedding_dim, dtype)

    def bucket(self, dim: int, dtype: DataType) -> int:
        """The bucket of a width."""
        size = self.dim_in_bytes(dim, dtype)
        found = self.buckets.get(size)
        return self.buckets[-(-size // self.cacheline)] if found is None else found

    def dim_in_bytes(self, dim: int, dtype: DataType) -> int:
        """Memory of a row."""
        return dim * DATA_TYPE_NUM_BITS[dtype] // 8

    def single_emb_bucket(self, embedding_tables: list[ShardedEmbeddingTable]) -> dict[int, int]:
        """One bucket, for the first table's size of rows."""
        first = embedding_tables[:1]
        return {self.dim_in_bytes(table.local_cols, table.data_type): 0 for table in first}

    def all_emb_buckets(self, embedding_tables: list[ShardedEmbeddingTable]) -> dict[int, int]:
        """A bucket for each size of rows."""
        sizes = dict.fromkeys(self.dim_in_bytes(table.local_cols, table.data_type) for table in embedding_tables)
        return {size: number for number, size in enumerate(sizes)}

    def cacheline_emb_buckets(self, embedding_tables: list[ShardedEmbeddingTable]) -> dict[int, int]:
        """A bucket for each number of cache lines that rows take."""
        sizes = [self.dim_in_bytes(table.local_cols, table.data_type) for table in embedding_tables]
        lines = dict.fromkeys(-(-size // self.cacheline) for size in sizes)
        return {count: number for number, count in enumerate(lines)}

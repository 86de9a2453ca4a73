"""Virtual tables of several processes as wholes: each process has the rows of the ids that came up there."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor  # type: ignore[attr-defined]
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata

from flambeau.rec.errors import OptionError

if TYPE_CHECKING:
    from flambeau.rec.distributed.embedding_types import ShardedEmbeddingTable
    from flambeau.rec.fbgemm_gpu.tbe.ssd.utils.partially_materialized_tensor import PartiallyMaterializedTensor

__all__ = [
    "counts_of_processes",
    "create_virtual_sharded_tensors",
    "create_virtual_table_global_metadata",
    "create_virtual_table_local_metadata",
]


def create_virtual_table_local_metadata(
    local_metadata: ShardMetadata,
    param: Tensor | PartiallyMaterializedTensor,
    my_rank: int,
    offset: int | None = None,
    weight_count_per_rank: list[int] | None = None,
) -> None:
    """Say where the rows of this process lie in a virtual table, in place.

    Args:
        local_metadata: is changed.
        param: the rows here.
        my_rank: of this process.
        offset: the first of its rows in the whole; by default after those of the processes before it.
        weight_count_per_rank: rows of each process; one each by default.
    """
    if offset is None:
        offset = my_rank if weight_count_per_rank is None else sum(weight_count_per_rank[:my_rank])
    local_metadata.shard_sizes = list(param.shape)
    local_metadata.shard_offsets = [offset, *[0] * (len(local_metadata.shard_sizes) - 1)]


def create_virtual_table_global_metadata(
    metadata: ShardedTensorMetadata,
    my_rank: int,
    param: Tensor | PartiallyMaterializedTensor,
    weight_count_per_rank: list[int] | None,
    use_param_size_as_rows: bool,
) -> None:
    """Say where the rows of all processes lie in a virtual table, in place.

    Args:
        metadata: is changed; a shard for each process.
        my_rank: of this process.
        param: the rows here.
        weight_count_per_rank: rows of the others; one each by default.
        use_param_size_as_rows: whether all processes have as many as this one.
    """
    rows, *columns = param.shape
    begin = 0
    for rank, shard in enumerate(metadata.shards_metadata):
        if rank == my_rank or use_param_size_as_rows:
            count = rows
        else:
            count = 1 if weight_count_per_rank is None else weight_count_per_rank[rank]
        shard.shard_offsets, shard.shard_sizes = [begin, *[0] * len(columns)], [count, *columns]
        begin += count
    metadata.size = torch.Size([begin, *columns])
    metadata.tensor_properties.dtype = param.dtype


def create_virtual_sharded_tensors(
    embedding_tables: list[ShardedEmbeddingTable],
    params: list[Tensor] | list[PartiallyMaterializedTensor],
    pg: dist.ProcessGroup | None = None,
    prefix: str = "",
    table_name_to_weight_count_per_rank: dict[str, list[int]] | None = None,
    use_param_size_as_rows: bool = False,
) -> list[ShardedTensor]:
    """Virtual tables as wholes of which this process has its rows.

    Args:
        embedding_tables: the parts here.
        params: of each, its rows, or something else of them.
        pg: who has parts.
        prefix: of names in messages.
        table_name_to_weight_count_per_rank: rows of each process, by table.
        use_param_size_as_rows: whether all processes have as many as this one.

    Raises:
        ValueError: a table does not say where its parts lie.
    """
    found = []
    for table, param in zip(embedding_tables, params, strict=True):
        if table.global_metadata is None or table.local_metadata is None or pg is None:
            raise OptionError(f"table {prefix}{table.name} does not say where its parts on several processes lie.")
        counts = (table_name_to_weight_count_per_rank or {}).get(table.name)
        rank = _shard_of(table)
        whole = copy.deepcopy(table.global_metadata)
        create_virtual_table_global_metadata(whole, rank, param, counts, use_param_size_as_rows)  # type: ignore[arg-type]
        local = whole.shards_metadata[rank]
        found.append(
            ShardedTensor._init_from_local_shards_and_global_metadata(
                [Shard(param, copy.deepcopy(local))],  # type: ignore[arg-type]
                whole,
                process_group=pg,
            )
        )
    return found


def _shard_of(table: ShardedEmbeddingTable) -> int:
    """Which of a table's shards is the one here."""
    assert table.global_metadata is not None and table.local_metadata is not None
    places = [shard.shard_offsets for shard in table.global_metadata.shards_metadata]
    return places.index(table.local_metadata.shard_offsets)


def counts_of_processes(count: int, shards: int, pg: Any) -> list[int] | None:
    """How many rows each process has of a table that all of them have a part of; None where not all have."""
    if shards != dist.get_world_size(pg):
        return None
    mine = torch.tensor([count])
    found = [torch.zeros_like(mine) for _ in range(dist.get_world_size(pg))]
    dist.all_gather(found, mine, group=pg)
    return [int(one) for one in found]

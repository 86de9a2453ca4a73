"""What every kernel has, and how parts of tables on several processes make up tables."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, ShardedTensorMetadata  # type: ignore[attr-defined]
from torch.distributed.tensor import DTensor

from flambeau.rec.distributed._virtual_tensors import (
    create_virtual_sharded_tensors,
    create_virtual_table_global_metadata,
    create_virtual_table_local_metadata,
)
from flambeau.rec.distributed.embedding_types import DTensorMetadata, GroupedEmbeddingConfig, ShardedEmbeddingTable
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "BaseEmbedding",
    "RawIdTrackerWrapper",
    "create_virtual_sharded_tensors",
    "create_virtual_table_global_metadata",
    "create_virtual_table_local_metadata",
    "get_state_dict",
    "joined_shards",
]


class RawIdTrackerWrapper:
    """Functions of a tracker of ids.

    Args:
        get_indexed_lookups: ids of tables since a consumer asked last.
        delete: forget those before a batch.
    """

    def __init__(
        self,
        get_indexed_lookups: Callable[[list[str], str | None], dict[str, list[Tensor]]],
        delete: Callable[[int], None],
    ) -> None:
        self.get_indexed_lookups = get_indexed_lookups
        self.delete = delete


class BaseEmbedding(abc.ABC, nn.Module):
    """Looks up a group of tables."""

    raw_id_tracker_wrapper: RawIdTrackerWrapper | None = None

    @abc.abstractmethod
    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Rows, or pooled ones, of all features, side by side or one below another."""

    @property
    @abc.abstractmethod
    def config(self) -> GroupedEmbeddingConfig:
        """The group."""

    def init_raw_id_tracker(
        self,
        get_indexed_lookups: Callable[[list[str], str | None], dict[str, list[Tensor]]],
        delete: Callable[[int], None],
    ) -> None:
        """Note the functions of a tracker of ids."""
        self.raw_id_tracker_wrapper = RawIdTrackerWrapper(get_indexed_lookups, delete)


def joined_shards(
    tensors: Sequence[Tensor],
    local_metadata: Sequence[ShardMetadata],
    global_metadata: ShardedTensorMetadata,
    pg: dist.ProcessGroup,
    dtensor_metadata: DTensorMetadata | None = None,
) -> ShardedTensor | DTensor:
    """The parts that this process has of a tensor, as the whole.

    Args:
        tensors: the parts.
        local_metadata: where each of them lies in the whole.
        global_metadata: where the parts of all processes lie.
        pg: who has parts.
        dtensor_metadata: where given, the whole is a DTensor, whose local part is a `LocalShardsWrapper`.
    """
    if dtensor_metadata is not None:
        from torch.distributed.tensor._shards_wrapper import LocalShardsWrapper

        assert dtensor_metadata.mesh is not None
        return DTensor.from_local(
            LocalShardsWrapper(list(tensors), [tuple(one.shard_offsets) for one in local_metadata]),
            device_mesh=dtensor_metadata.mesh,
            placements=dtensor_metadata.placements,
            shape=global_metadata.size,
            stride=dtensor_metadata.stride,
            run_check=False,
        )
    shards = [Shard(tensor, where) for tensor, where in zip(tensors, local_metadata, strict=True)]
    return ShardedTensor._init_from_local_shards_and_global_metadata(shards, global_metadata, process_group=pg)


def get_state_dict(
    embedding_tables: list[ShardedEmbeddingTable],
    params: Any,
    pg: dist.ProcessGroup | None = None,
    destination: dict[str, Any] | None = None,
    prefix: str = "",
) -> dict[str, Any]:
    """Tables by name, each as a whole of which this process has parts.

    Args:
        embedding_tables: the parts.
        params: their tensors, or modules with a `weight`.
        pg: who has parts; None for tables that this process has all of.
        destination: where tables are written to; a new dictionary by default.
        prefix: before `<table>.weight`.
    """
    found: dict[str, Any] = {} if destination is None else destination
    parts: dict[str, list[tuple[ShardedEmbeddingTable, Tensor]]] = {}
    for table, param in zip(embedding_tables, params, strict=True):
        tensor = param.weight if isinstance(param, nn.Module) else param
        parts.setdefault(f"{prefix}{table.name}.weight", []).append((table, tensor))  # type: ignore[arg-type]
    for name, mine in parts.items():
        table = mine[0][0]
        if table.global_metadata is None or pg is None:
            found[name] = mine[0][1]
            continue
        places = [one.local_metadata for one, _ in mine]
        assert all(place is not None for place in places)
        found[name] = joined_shards(
            [tensor for _, tensor in mine],
            places,  # type: ignore[arg-type]
            table.global_metadata,
            pg,
            table.dtensor_metadata,
        )
    return found

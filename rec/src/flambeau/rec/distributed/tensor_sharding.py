"""How pools of objects are spread over processes or devices: what the stages share, and what each way provides."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, ShardedTensorMetadata  # type: ignore[attr-defined]
from torch.distributed._shard.sharded_tensor.metadata import TensorProperties

from flambeau.rec.distributed.comm import get_local_size, intra_and_cross_node_pg
from flambeau.rec.distributed.types import ShardingEnv
from flambeau.rec.errors import OptionError
from flambeau.rec.streamable import Multistreamable

__all__ = [
    "InferObjectPoolSharding",
    "ObjectPoolReplicatedRwShardingContext",
    "ObjectPoolRwShardingContext",
    "ObjectPoolSharding",
    "ObjectPoolShardingContext",
    "RwShardingContext",
    "TensorPoolRwShardingContext",
]


@dataclass
class ObjectPoolShardingContext(Multistreamable):
    """What the stages of one look-up or update share.

    Args:
        ids_before_input_dist: (n,) as they were given.
        num_ids_each_rank_to_receive: (processes,) the objects of how many numbers come from each.
        num_ids_each_rank_to_send: (processes,) the objects of how many numbers go to each.
        bucketize_permute: (n,) the place among the given ids of each one that is sent.
        unbucketize_permute: (n,) the place among those that are sent of each given id.
    """

    ids_before_input_dist: Tensor | None = None
    num_ids_each_rank_to_receive: Tensor | None = None
    num_ids_each_rank_to_send: Tensor | None = None
    bucketize_permute: Tensor | None = None
    unbucketize_permute: Tensor | None = None

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for tensor in (
            self.ids_before_input_dist,
            self.num_ids_each_rank_to_receive,
            self.num_ids_each_rank_to_send,
            self.bucketize_permute,
            self.unbucketize_permute,
        ):
            if tensor is not None:
                tensor.record_stream(stream)


@dataclass
class RwShardingContext(Multistreamable):
    """What is known of blocks of rows.

    Args:
        block_size: (1,) rows of each process but for the last ones.
    """

    block_size: Tensor | None = None

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep its memory until `stream` is done with it."""
        if self.block_size is not None:
            self.block_size.record_stream(stream)


# The order of bases gives the order of fields: those of the second base come first, as upstream's.
@dataclass
class ObjectPoolRwShardingContext(ObjectPoolShardingContext, RwShardingContext):
    """What the stages share where rows are spread in blocks."""

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        ObjectPoolShardingContext.record_stream(self, stream)
        RwShardingContext.record_stream(self, stream)


@dataclass
class ObjectPoolReplicatedRwShardingContext(ObjectPoolRwShardingContext):
    """What the stages share where each host has all rows, spread over its processes."""


@dataclass
class TensorPoolRwShardingContext(ObjectPoolRwShardingContext):
    """What the stages of a pool of rows of numbers share."""


class ObjectPoolSharding(abc.ABC):
    """A way to spread a pool over processes."""

    @abc.abstractmethod
    def create_update_ids_dist(self) -> nn.Module:
        """What sends numbers to the processes that keep their objects, to be written."""

    @abc.abstractmethod
    def create_update_values_dist(self) -> nn.Module:
        """What sends the objects after them."""

    @abc.abstractmethod
    def create_lookup_ids_dist(self) -> nn.Module:
        """What sends numbers to the processes that keep their objects, to be read."""

    @abc.abstractmethod
    def create_lookup_values_dist(self) -> nn.Module:
        """What sends the objects back."""

    @abc.abstractmethod
    def get_sharded_states_to_register(self, lookup: Any) -> Iterable[tuple[str, Any]]:
        """What belongs into checkpoints, by name, of each process its part.

        Args:
            lookup: what keeps the objects of this process.
        """

    @abc.abstractmethod
    def create_context(self) -> Any:
        """What the stages of one look-up or update share."""


def block_of(pool_size: int, world_size: int) -> int:
    """Rows of each process but for the last ones, which have fewer, or none."""
    return -(-pool_size // world_size)


def blocks_of(pool_size: int, world_size: int) -> list[int]:
    """Rows of each process."""
    block = block_of(pool_size, world_size)
    return [max(min(block, pool_size - rank * block), 0) for rank in range(world_size)]


def env_of_host(env: ShardingEnv, device: torch.device) -> tuple[ShardingEnv, int]:
    """The processes of this one's host, and how many hosts there are.

    Args:
        env: all processes.
        device: of this one.

    Raises:
        OptionError: hosts have different numbers of processes.
    """
    size = get_local_size(env.world_size)
    if env.world_size % size:
        raise OptionError(
            f"{env.world_size} processes cannot be {size} on each host; a pool that is replicated takes equally many "
            "on each."
        )
    intra, _ = intra_and_cross_node_pg(device)
    assert intra is not None
    return ShardingEnv.from_process_group(intra), env.world_size // size


def whole_of_blocks(tensor: Tensor, rank: int, rows: list[int], ranks: list[int], pg: Any) -> ShardedTensor:
    """The tensor of all processes of which each has a block of rows.

    Args:
        tensor: (rows of this process, columns).
        rank: of this process in the group.
        rows: of each process.
        ranks: of each process among all.
        pg: the group.
    """
    columns = tensor.shape[1]
    starts = [sum(rows[:at]) for at in range(len(rows))]
    shards = [
        ShardMetadata([start, 0], [count, columns], placement=f"rank:{one}/{tensor.device}")
        for start, count, one in zip(starts, rows, ranks, strict=True)
    ]
    metadata = ShardedTensorMetadata(shards, torch.Size([sum(rows), columns]), TensorProperties(dtype=tensor.dtype))
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        [Shard(tensor, shards[rank])], metadata, process_group=pg
    )


class InferObjectPoolSharding(abc.ABC):
    """A way to spread a pool over the devices of one process.

    Args:
        pool_size: rows.
        env: the devices.
        device: "cpu", or "cuda" for devices with numbers.
        memory_capacity_per_rank: what each device has room for, where they differ: rows are spread so.

    Raises:
        OptionError: capacities of another number of devices, or none at all.
    """

    def __init__(
        self,
        pool_size: int,
        env: ShardingEnv,
        device: torch.device,
        memory_capacity_per_rank: list[int] | None = None,
    ) -> None:
        self._pool_size, self._env = pool_size, env
        # Upstream: there may be a group although nothing is exchanged through it.
        self._pg = env.process_group
        self._world_size, self._rank = env.world_size, env.rank
        self._device = torch.device(device)
        self._block_size = block_of(pool_size, self._world_size)
        self.local_pool_size_per_rank = blocks_of(pool_size, self._world_size)
        self._last_block_size = self.local_pool_size_per_rank[-1]
        self._block_size_t = torch.tensor([self._block_size], device=self._device, dtype=torch.long)
        self._block_bucketize_row_pos: list[Tensor] | None = None
        if memory_capacity_per_rank is not None:
            self._use_capacities(memory_capacity_per_rank)

    def _use_capacities(self, capacities: list[int]) -> None:
        if len(capacities) != self._world_size or min(capacities) < 0 or not sum(capacities):
            raise OptionError(
                f"memory_capacity_per_rank is {capacities}, expected a number for each of {self._world_size} devices, "
                "not all 0."
            )
        total = sum(capacities)
        counts = [self._pool_size * capacity // total for capacity in capacities]
        # What rounding down left over goes to the last device that has room.
        last = max(rank for rank, capacity in enumerate(capacities) if capacity)
        counts[last] += self._pool_size - sum(counts)
        self.local_pool_size_per_rank = counts
        starts = [sum(counts[:at]) for at in range(len(counts) + 1)]
        self._block_bucketize_row_pos = [torch.tensor(starts, device=self._device, dtype=torch.long)]

    @abc.abstractmethod
    def create_lookup_ids_dist(self) -> nn.Module:
        """What gives each device the numbers whose objects it keeps."""

    @abc.abstractmethod
    def create_lookup_values_dist(self) -> nn.Module:
        """What collects the objects of all devices."""

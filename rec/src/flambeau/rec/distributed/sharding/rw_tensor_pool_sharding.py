"""Pools of rows of numbers whose rows are spread in blocks, over all processes or over those of each host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.dist_data import EmbeddingsAllToOne, TensorValuesAllToAll
from flambeau.rec.distributed.sharding.rw_pool_sharding import InferRwObjectPoolInputDist, RwObjectPoolIDsDist
from flambeau.rec.distributed.tensor_sharding import (
    InferObjectPoolSharding,
    ObjectPoolReplicatedRwShardingContext,
    ObjectPoolRwShardingContext,
    ObjectPoolSharding,
    TensorPoolRwShardingContext,
    block_of,
    blocks_of,
    env_of_host,
    whole_of_blocks,
)
from flambeau.rec.distributed.types import LazyAwaitable, ShardingEnv
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.object_pool_lookups import TensorPoolLookup

__all__ = [
    "InferRwTensorPoolOutputDist",
    "InferRwTensorPoolSharding",
    "RwTensorPoolValuesDist",
    "TensorPoolRwReplicatedSharding",
    "TensorPoolRwSharding",
]


class _Rows(LazyAwaitable[Tensor]):
    def __init__(self, awaitable: Any) -> None:
        super().__init__()
        self._awaitable = awaitable

    def _wait_impl(self) -> Tensor:
        rows: Tensor = self._awaitable.wait()
        return rows


class RwTensorPoolValuesDist(nn.Module):
    """Sends rows after the numbers that are to be written, or back to those who asked for them.

    Args:
        pg: who takes part.
        is_update: whether they are to be written.
        num_replicas: how many times the pool is there, each of which gets all rows that are written.
    """

    def __init__(self, pg: torch.distributed.ProcessGroup, is_update: bool, num_replicas: int = 1) -> None:
        super().__init__()
        self._is_update, self._num_replicas = is_update, num_replicas
        self._dist = TensorValuesAllToAll(pg=pg)

    def forward(self, ctx: TensorPoolRwShardingContext, values: Tensor) -> LazyAwaitable[Tensor]:
        """Start to send rows.

        Args:
            ctx: of the look-up or update, as the numbers left it.
            values: (n, columns), of the given numbers in an update, else of those that arrived.

        Returns:
            Rows of the numbers that arrived in an update, else of the given ones in the order in which they were sent.
        """
        sent, received = ctx.num_ids_each_rank_to_send, ctx.num_ids_each_rank_to_receive
        if sent is None or received is None:
            raise OptionError("numbers have to be sent, and waited for, before rows are.")
        if not self._is_update:
            return _Rows(self._dist(values, sent, received))
        assert ctx.bucketize_permute is not None
        sorted_values = values[ctx.bucketize_permute.long()].repeat(self._num_replicas, 1)
        return _Rows(self._dist(sorted_values, sent, received))


class TensorPoolRwSharding(ObjectPoolSharding):
    """A block of rows for each process.

    Args:
        pool_size: rows.
        dim: columns.
        env: the processes.
        device: of this one.

    Raises:
        OptionError: `env` has no process group.
    """

    def __init__(self, pool_size: int, dim: int, env: ShardingEnv, device: torch.device) -> None:
        if env.process_group is None:
            raise OptionError("env has no process group; for the devices of one process use a plan of inference.")
        self._env, self._pg = env, env.process_group
        self._world_size, self._rank = env.world_size, env.rank
        self._device = torch.device(device)
        self._pool_size, self._dim = pool_size, dim
        self._block_size = block_of(pool_size, self._world_size)
        self.local_pool_size = blocks_of(pool_size, self._world_size)[self._rank]
        self._block_size_t = torch.tensor([self._block_size], device=self._device, dtype=torch.long)

    def create_update_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows, to be written."""
        return RwObjectPoolIDsDist(self._pg, is_update=True)

    def create_update_values_dist(self) -> RwTensorPoolValuesDist:
        """What sends the rows after them."""
        return RwTensorPoolValuesDist(self._pg, is_update=True)

    def create_lookup_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows, to be read."""
        return RwObjectPoolIDsDist(self._pg, is_update=False)

    def create_lookup_values_dist(self) -> RwTensorPoolValuesDist:
        """What sends the rows back."""
        return RwTensorPoolValuesDist(self._pg, is_update=False)

    def get_sharded_states_to_register(self, lookup: TensorPoolLookup) -> Iterable[tuple[str, Any]]:
        """The rows of all processes, of each its block."""
        rows = blocks_of(self._pool_size, self._world_size)
        ranks = torch.distributed.get_process_group_ranks(self._pg)
        for name, tensor in lookup.states_to_register():
            yield name, whole_of_blocks(tensor, self._rank, rows, ranks, self._pg)

    def create_context(self) -> ObjectPoolRwShardingContext:
        """What the stages of one look-up or update share."""
        return ObjectPoolRwShardingContext(block_size=self._block_size_t)


class TensorPoolRwReplicatedSharding(ObjectPoolSharding):
    """All rows on each host, a block for each of its processes: look-ups stay within the host, updates go to all hosts.

    Args:
        pool_size: rows.
        dim: columns.
        env: the processes.
        device: of this one.

    Raises:
        OptionError: `env` has no process group, or hosts have different numbers of its processes.
    """

    def __init__(self, pool_size: int, dim: int, env: ShardingEnv, device: torch.device) -> None:
        if env.process_group is None:
            raise OptionError("env has no process group; for the devices of one process use a plan of inference.")
        self._env, self._pg = env, env.process_group
        self._device = torch.device(device)
        self._pool_size, self._dim = pool_size, dim
        self._local_env, self._num_replicas = env_of_host(env, self._device)
        size, self._local_rank = self._local_env.world_size, self._local_env.rank
        self._block_size = block_of(pool_size, size)
        self.local_pool_size = blocks_of(pool_size, size)[self._local_rank]
        self._block_size_t = torch.tensor([self._block_size], device=self._device, dtype=torch.long)

    def _intra_pg(self) -> torch.distributed.ProcessGroup:
        assert self._local_env.process_group is not None
        return self._local_env.process_group

    def create_update_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows on all hosts, to be written."""
        return RwObjectPoolIDsDist(
            self._pg,
            is_update=True,
            bucketize_world_size=self._local_env.world_size,
            num_replicas=self._num_replicas,
        )

    def create_update_values_dist(self) -> RwTensorPoolValuesDist:
        """What sends the rows after them."""
        return RwTensorPoolValuesDist(self._pg, is_update=True, num_replicas=self._num_replicas)

    def create_lookup_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows on this host, to be read."""
        return RwObjectPoolIDsDist(self._intra_pg(), is_update=False)

    def create_lookup_values_dist(self) -> RwTensorPoolValuesDist:
        """What sends the rows back."""
        return RwTensorPoolValuesDist(self._intra_pg(), is_update=False)

    def get_sharded_states_to_register(self, lookup: TensorPoolLookup) -> Iterable[tuple[str, Any]]:
        """The rows of the processes of this host, of each its block."""
        rows = blocks_of(self._pool_size, self._local_env.world_size)
        ranks = torch.distributed.get_process_group_ranks(self._intra_pg())
        for name, tensor in lookup.states_to_register():
            yield name, whole_of_blocks(tensor, self._local_rank, rows, ranks, self._intra_pg())

    def create_context(self) -> ObjectPoolReplicatedRwShardingContext:
        """What the stages of one look-up or update share."""
        return ObjectPoolReplicatedRwShardingContext(block_size=self._block_size_t)


class InferRwTensorPoolOutputDist(nn.Module):
    """Collects the rows of all devices on one.

    Args:
        env: the devices.
        device: which one.
    """

    def __init__(self, env: ShardingEnv, device: torch.device) -> None:
        super().__init__()
        # Not registered: upstream's module has no children.
        self._dists = [EmbeddingsAllToOne(torch.device(device), env.world_size, cat_dim=0)]

    def set_device(self, device_str: str) -> None:
        """Collect on another device."""
        self._dists[0].set_device(device_str)

    def forward(self, lookups: list[Tensor]) -> Tensor:
        """(n, columns): the rows of the first device first.

        Args:
            lookups: (n, columns) of each device.
        """
        rows: Tensor = self._dists[0](lookups)
        return rows


class InferRwTensorPoolSharding(InferObjectPoolSharding):
    """A block of rows for each device."""

    def create_lookup_ids_dist(self) -> InferRwObjectPoolInputDist:
        """What gives each device the numbers of its rows."""
        return InferRwObjectPoolInputDist(self._env, self._device, self._block_size_t, self._block_bucketize_row_pos)

    def create_lookup_values_dist(self) -> InferRwTensorPoolOutputDist:
        """What collects the rows of all devices."""
        return InferRwTensorPoolOutputDist(self._env, self._device)

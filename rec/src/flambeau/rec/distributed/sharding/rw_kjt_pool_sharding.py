"""Pools of bags of several features whose rows are spread in blocks, over all processes or over those of each host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.distributed.dist_data import JaggedTensorAllToAll
from flambeau.rec.distributed.sharding.rw_pool_sharding import InferRwObjectPoolInputDist, RwObjectPoolIDsDist
from flambeau.rec.distributed.tensor_sharding import (
    InferObjectPoolSharding,
    ObjectPoolReplicatedRwShardingContext,
    ObjectPoolRwShardingContext,
    ObjectPoolSharding,
    block_of,
    blocks_of,
    env_of_host,
    whole_of_blocks,
)
from flambeau.rec.distributed.types import Awaitable, ShardingEnv
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.object_pool_lookups import KeyedJaggedTensorPoolLookup
from flambeau.rec.ops.permute import permute_1D_sparse_data
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = [
    "InferRwKeyedJaggedTensorPoolOutputDist",
    "InferRwKeyedJaggedTensorPoolSharding",
    "KeyedJaggedTensorPoolRwReplicatedSharding",
    "KeyedJaggedTensorPoolRwSharding",
    "RwKeyedJaggedTensorPoolLookupValuesDist",
    "RwKeyedJaggedTensorPoolUpdateValuesDist",
]


def _sizes(ctx: ObjectPoolRwShardingContext) -> tuple[Tensor, Tensor]:
    sent, received = ctx.num_ids_each_rank_to_send, ctx.num_ids_each_rank_to_receive
    if sent is None or received is None:
        raise OptionError("numbers have to be sent, and waited for, before bags are.")
    return sent, received


def _group(env: ShardingEnv) -> dist.ProcessGroup:
    if env.process_group is None:
        raise OptionError("env has no process group; for the devices of one process use a plan of inference.")
    return env.process_group


class RwKeyedJaggedTensorPoolLookupValuesDist(nn.Module):
    """Sends bags back to those who asked for them.

    Args:
        num_features: of each number.
        env: the processes.
    """

    def __init__(self, num_features: int, env: ShardingEnv) -> None:
        super().__init__()
        self._num_features, self._pg = num_features, _group(env)

    def forward(self, ctx: ObjectPoolRwShardingContext, jagged_tensor: JaggedTensor) -> Awaitable[JaggedTensor]:
        """Start to send bags.

        Args:
            ctx: of the look-up, as the numbers left it.
            jagged_tensor: the bags of the numbers that arrived; of a number, those of all features.

        Returns:
            The bags of the given numbers, in the order in which they were sent.
        """
        sent, received = _sizes(ctx)
        return JaggedTensorAllToAll(jagged_tensor, sent * self._num_features, received * self._num_features, self._pg)


class RwKeyedJaggedTensorPoolUpdateValuesDist(nn.Module):
    """Sends bags after the numbers that are to be written.

    Args:
        num_features: of each number.
        env: the processes.
        device: of this one.
        num_replicas: how many times the pool is there, each of which gets all bags.
    """

    def __init__(self, num_features: int, env: ShardingEnv, device: torch.device, num_replicas: int = 1) -> None:
        super().__init__()
        self._num_features, self._pg, self._num_replicas = num_features, _group(env), num_replicas
        self._device = torch.device(device)

    def forward(self, values: KeyedJaggedTensor, ctx: ObjectPoolRwShardingContext) -> Awaitable[JaggedTensor]:
        """Start to send bags.

        Args:
            values: an example for each given number, of all features in the pool's order.
            ctx: of the update, as the numbers left it.

        Returns:
            The bags of the numbers that arrived; of a number, those of all features.
        """
        sent, received = _sizes(ctx)
        assert ctx.bucketize_permute is not None
        order = ctx.bucketize_permute.long()
        # Of a feature, bags are one after another; those of a number are wanted so.
        bags = (order.unsqueeze(1) + torch.arange(self._num_features, device=order.device) * len(order)).flatten()
        bags = bags.repeat(self._num_replicas)
        lengths, ids, weights = permute_1D_sparse_data(
            bags, values.lengths(), values.values(), values.weights_or_none()
        )
        by_number = JaggedTensor(ids, weights, lengths)
        return JaggedTensorAllToAll(by_number, sent * self._num_features, received * self._num_features, self._pg)


class KeyedJaggedTensorPoolRwSharding(ObjectPoolSharding):
    """A block of rows for each process.

    Args:
        env: the processes.
        device: of this one.
        pool_size: rows.
        num_features: of each number.

    Raises:
        OptionError: `env` has no process group.
    """

    def __init__(self, env: ShardingEnv, device: torch.device, pool_size: int, num_features: int) -> None:
        self._env, self._pg = env, _group(env)
        self._world_size, self._rank = env.world_size, env.rank
        self._device = torch.device(device)
        self._pool_size, self._num_features = pool_size, num_features
        self._block_size = block_of(pool_size, self._world_size)
        self.local_pool_size = blocks_of(pool_size, self._world_size)[self._rank]
        self._block_size_t = torch.tensor([self._block_size], device=self._device, dtype=torch.long)

    def create_update_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows, to be written."""
        return RwObjectPoolIDsDist(self._pg, is_update=True)

    def create_update_values_dist(self) -> RwKeyedJaggedTensorPoolUpdateValuesDist:
        """What sends the bags after them."""
        return RwKeyedJaggedTensorPoolUpdateValuesDist(self._num_features, self._env, self._device)

    def create_lookup_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows, to be read."""
        return RwObjectPoolIDsDist(self._pg, is_update=False)

    def create_lookup_values_dist(self) -> RwKeyedJaggedTensorPoolLookupValuesDist:
        """What sends the bags back."""
        return RwKeyedJaggedTensorPoolLookupValuesDist(self._num_features, self._env)

    def get_sharded_states_to_register(self, lookup: KeyedJaggedTensorPoolLookup) -> Iterable[tuple[str, Any]]:
        """Ids, lengths and weights of all processes, of each its block."""
        rows = blocks_of(self._pool_size, self._world_size)
        ranks = dist.get_process_group_ranks(self._pg)
        for name, tensor in lookup.states_to_register():
            yield name, whole_of_blocks(tensor, self._rank, rows, ranks, self._pg)

    def create_context(self) -> ObjectPoolRwShardingContext:
        """What the stages of one look-up or update share."""
        return ObjectPoolRwShardingContext(block_size=self._block_size_t)


class KeyedJaggedTensorPoolRwReplicatedSharding(ObjectPoolSharding):
    """All rows on each host, a block for each of its processes: look-ups stay within the host, updates go to all hosts.

    Args:
        env: the processes.
        device: of this one.
        pool_size: rows.
        num_features: of each number.

    Raises:
        OptionError: `env` has no process group, or hosts have different numbers of its processes.
    """

    def __init__(self, env: ShardingEnv, device: torch.device, pool_size: int, num_features: int) -> None:
        self._env, self._pg = env, _group(env)
        self._world_size, self._rank = env.world_size, env.rank
        self._device = torch.device(device)
        self._pool_size, self._num_features = pool_size, num_features
        self._local_env, self._num_replicas = env_of_host(env, self._device)
        self._local_world_size, self._local_rank = self._local_env.world_size, self._local_env.rank
        self._intra_pg = _group(self._local_env)
        self._block_size = block_of(pool_size, self._local_world_size)
        self.local_pool_size = blocks_of(pool_size, self._local_world_size)[self._local_rank]
        self._block_size_t = torch.tensor([self._block_size], device=self._device, dtype=torch.long)

    def create_update_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows on all hosts, to be written."""
        return RwObjectPoolIDsDist(
            self._pg,
            is_update=True,
            bucketize_world_size=self._local_world_size,
            num_replicas=self._num_replicas,
        )

    def create_update_values_dist(self) -> RwKeyedJaggedTensorPoolUpdateValuesDist:
        """What sends the bags after them."""
        return RwKeyedJaggedTensorPoolUpdateValuesDist(
            self._num_features, self._env, self._device, num_replicas=self._num_replicas
        )

    def create_lookup_ids_dist(self) -> RwObjectPoolIDsDist:
        """What sends numbers to the processes of their rows on this host, to be read."""
        return RwObjectPoolIDsDist(self._intra_pg, is_update=False)

    def create_lookup_values_dist(self) -> RwKeyedJaggedTensorPoolLookupValuesDist:
        """What sends the bags back."""
        return RwKeyedJaggedTensorPoolLookupValuesDist(self._num_features, self._local_env)

    def get_sharded_states_to_register(self, lookup: KeyedJaggedTensorPoolLookup) -> Iterable[tuple[str, Any]]:
        """Ids, lengths and weights of the processes of this host, of each its block."""
        rows = blocks_of(self._pool_size, self._local_world_size)
        ranks = dist.get_process_group_ranks(self._intra_pg)
        for name, tensor in lookup.states_to_register():
            yield name, whole_of_blocks(tensor, self._local_rank, rows, ranks, self._intra_pg)

    def create_context(self) -> ObjectPoolReplicatedRwShardingContext:
        """What the stages of one look-up or update share."""
        return ObjectPoolReplicatedRwShardingContext(block_size=self._block_size_t)


class InferRwKeyedJaggedTensorPoolOutputDist(nn.Module):
    """Collects the bags of all devices on one.

    Args:
        env: the devices.
        device: which one.
    """

    def __init__(self, env: ShardingEnv, device: torch.device) -> None:
        super().__init__()
        self._world_size, self._device = env.world_size, torch.device(device)

    def forward(self, jagged_tensors: list[JaggedTensor]) -> JaggedTensor:
        """The bags of the first device first.

        Args:
            jagged_tensors: of each device.
        """
        if len(jagged_tensors) != self._world_size:
            raise OptionError(f"got bags of {len(jagged_tensors)} devices, expected those of {self._world_size}.")
        there = [one.to(self._device, non_blocking=True) for one in jagged_tensors]
        weights = [one.weights_or_none() for one in there]
        return JaggedTensor(
            torch.cat([one.values() for one in there]),
            None if any(one is None for one in weights) else torch.cat(weights),  # type: ignore[arg-type]
            torch.cat([one.lengths() for one in there]),
        )


class InferRwKeyedJaggedTensorPoolSharding(InferObjectPoolSharding):
    """A block of rows for each device.

    Args:
        pool_size: rows.
        env: the devices.
        device: "cpu", or "cuda" for devices with numbers.
    """

    def __init__(self, pool_size: int, env: ShardingEnv, device: torch.device) -> None:
        super().__init__(pool_size, env, device)

    def create_lookup_ids_dist(self) -> InferRwObjectPoolInputDist:
        """What gives each device the numbers of its rows."""
        return InferRwObjectPoolInputDist(self._env, self._device, self._block_size_t)

    def create_lookup_values_dist(self) -> InferRwKeyedJaggedTensorPoolOutputDist:
        """What collects the bags of all devices."""
        return InferRwKeyedJaggedTensorPoolOutputDist(self._env, self._device)

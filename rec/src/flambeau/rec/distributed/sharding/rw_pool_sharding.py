"""Numbers of pools on their way to where their objects are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.dist_data import TensorAllToAll, TensorAllToAllSplitsAwaitable
from flambeau.rec.distributed.tensor_sharding import ObjectPoolRwShardingContext
from flambeau.rec.distributed.types import Awaitable, ShardingEnv
from flambeau.rec.errors import OptionError
from flambeau.rec.ops.bucketize import block_bucketize_sparse_features, block_bucketize_sparse_features_inference

__all__ = ["NUM_THREADS_BUCKETIZE", "InferRwObjectPoolInputDist", "RwObjectPoolIDsDist"]

NUM_THREADS_BUCKETIZE = 32


class _Sizes(Awaitable[Awaitable[Tensor]]):
    """How many numbers come from each process, noted for the stages that follow."""

    def __init__(self, ctx: ObjectPoolRwShardingContext, sizes: TensorAllToAllSplitsAwaitable, is_update: bool) -> None:
        super().__init__()
        self._ctx, self._sizes, self._is_update = ctx, sizes, is_update

    def _wait_impl(self) -> Awaitable[Tensor]:
        values = self._sizes.wait()
        if self._is_update:
            self._ctx.num_ids_each_rank_to_receive = self._sizes._pending.wait()
        else:
            self._ctx.num_ids_each_rank_to_send = self._sizes._pending.wait()
        return values


class RwObjectPoolIDsDist(nn.Module):
    """Sends numbers to the processes of their rows.

    Args:
        pg: who takes part.
        is_update: whether objects will be sent after them, and not come back.
        bucketize_world_size: processes that have all rows together; those of the group by default.
        num_replicas: how many such there are in the group, each of which gets all numbers.
    """

    def __init__(
        self,
        pg: torch.distributed.ProcessGroup,
        is_update: bool = True,
        bucketize_world_size: int | None = None,
        num_replicas: int = 1,
    ) -> None:
        super().__init__()
        self._world_size: int = pg.size() if bucketize_world_size is None else bucketize_world_size
        self._num_replicas, self._is_update = num_replicas, is_update
        self._dist = TensorAllToAll(pg=pg)

    def forward(self, ctx: ObjectPoolRwShardingContext, ids: Tensor) -> Awaitable[Awaitable[Tensor]]:
        """Start to send numbers.

        Args:
            ctx: of the look-up or update, with `block_size`; is told where each number goes.
            ids: (n,) int32 or int64.

        Returns:
            Waited for twice, the numbers of all processes for this one, counted from its first row.
        """
        if ctx.block_size is None:
            raise OptionError("ctx.block_size is None, expected (1,), the rows of each process.")
        ctx.ids_before_input_dist = ids
        counts, sorted_ids, _, _, places = block_bucketize_sparse_features(
            torch.tensor([len(ids)], device=ids.device, dtype=torch.long),
            ids.long(),
            bucketize_pos=False,
            sequence=True,
            block_sizes=ctx.block_size.long(),
            my_size=self._world_size,
        )
        assert places is not None
        if self._is_update:
            order = torch.empty_like(places)
            order[places.long()] = torch.arange(len(places), device=places.device, dtype=places.dtype)
            ctx.bucketize_permute = order
        ctx.unbucketize_permute = places
        if self._num_replicas > 1:
            counts, sorted_ids = counts.repeat(self._num_replicas), sorted_ids.repeat(self._num_replicas)
        # Upstream: counts are of int32.
        counts = counts.int()
        # Of what follows the numbers: objects go the same way in an update, and come back in a look-up.
        if self._is_update:
            ctx.num_ids_each_rank_to_send = counts
        else:
            ctx.num_ids_each_rank_to_receive = counts
        return _Sizes(ctx, self._dist(sorted_ids, counts), self._is_update)


class InferRwObjectPoolInputDist(nn.Module):
    """Gives each device of a process the numbers of its rows.

    Args:
        env: the devices.
        device: "cpu", or "cuda" for devices with numbers.
        block_size: (1,) rows of each.
        block_bucketize_row_pos: [(devices + 1,)] where each one's rows begin, and the last one's end, instead.
    """

    def __init__(
        self,
        env: ShardingEnv,
        device: torch.device,
        block_size: Tensor,
        block_bucketize_row_pos: list[Tensor] | None = None,
    ) -> None:
        super().__init__()
        self._world_size = env.world_size
        self._device = torch.device(device)
        self._block_size, self._block_bucketize_row_pos = block_size, block_bucketize_row_pos

    def _where(self, rank: int) -> torch.device:
        return self._device if self._device.type != "cuda" else torch.device("cuda", rank)

    def _sorted(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        counts, sorted_ids, _, _, places, devices = block_bucketize_sparse_features_inference(
            torch.tensor([len(ids)], device=ids.device, dtype=torch.long),
            ids.long(),
            bucketize_pos=False,
            sequence=True,
            block_sizes=self._block_size.to(ids.device),
            my_size=self._world_size,
            block_bucketize_pos=self._block_bucketize_row_pos,
            return_bucket_mapping=True,
        )
        assert places is not None and devices is not None
        return counts, sorted_ids, places, devices

    def forward(self, ids: Tensor) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
        """The numbers of each device, counted from its first row.

        Args:
            ids: (n,) int32 or int64.

        Returns:
            Numbers of each device, there; (n,) the place among them, one device after another, of each given one; (n,)
            its device; (devices,) how many each has.
        """
        counts, sorted_ids, places, devices = self._sorted(ids)
        parts = sorted_ids.split(counts.tolist())
        return [part.to(self._where(rank)) for rank, part in enumerate(parts)], places, devices, counts

    def update(self, ids: Tensor, values: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """The numbers of each device, and the rows to be written there.

        Args:
            ids: (n,) int32 or int64.
            values: (n, columns).

        Returns:
            Numbers of each device; rows of each; (n,) the place among the numbers of each given one.
        """
        counts, sorted_ids, places, _ = self._sorted(ids)
        sorted_values = torch.empty_like(values)
        sorted_values[places.long()] = values
        sizes = counts.tolist()
        numbers = [part.to(self._where(rank)) for rank, part in enumerate(sorted_ids.split(sizes))]
        rows = [part.to(self._where(rank)) for rank, part in enumerate(sorted_values.split(sizes))]
        return numbers, rows, places

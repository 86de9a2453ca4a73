"""Pools of rows of numbers over several processes, or over the devices of one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.object_pool import ShardedObjectPool
from flambeau.rec.distributed.sharding.rw_tensor_pool_sharding import (
    InferRwTensorPoolSharding,
    TensorPoolRwReplicatedSharding,
    TensorPoolRwSharding,
)
from flambeau.rec.distributed.tensor_sharding import ObjectPoolRwShardingContext, ObjectPoolShardingContext
from flambeau.rec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    ModuleSharder,
    ObjectPoolShardingPlan,
    ObjectPoolShardingType,
    ShardingEnv,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.object_pool_lookups import TensorLookup
from flambeau.rec.modules.tensor_pool import TensorPool
from flambeau.rec.modules.utils import deterministic_dedup

__all__ = [
    "LocalShardPool",
    "ShardedInferenceTensorPool",
    "ShardedTensorPool",
    "TensorPoolAwaitable",
    "TensorPoolSharder",
    "index_select_view",
    "update",
]


_SHARDINGS: dict[ObjectPoolShardingType, Any] = {
    ObjectPoolShardingType.ROW_WISE: TensorPoolRwSharding,
    ObjectPoolShardingType.REPLICATED_ROW_WISE: TensorPoolRwReplicatedSharding,
}


def index_select_view(output: Tensor, unbucketize_permute: Tensor | None, dim: int) -> Tensor:
    """Rows in the order in which they were asked for.

    Args:
        output: (n, dim) in the order in which they came.
        unbucketize_permute: (n,) the place of each; None to leave them.
        dim: columns.

    Returns:
        (n, dim).
    """
    if unbucketize_permute is not None:
        output = output.index_select(0, unbucketize_permute)
    return output.view(-1, dim)


def update(shard: nn.Parameter, rank_ids: Tensor, values: Tensor) -> Tensor:
    """Write rows of one device; where a number stands several times, its last row stays.

    Args:
        shard: (rows, columns); changed in place.
        rank_ids: (n,) counted from the device's first row.
        values: (n, columns).

    Returns:
        An empty tensor: in traced programs something has to hold on to the writing.
    """
    if rank_ids.numel():
        with torch.no_grad():
            ids, at = deterministic_dedup(rank_ids)
            shard[ids] = values[at].to(shard.device)
    return torch.empty(0)


class TensorPoolAwaitable(LazyAwaitable[Tensor]):
    """Rows that are under way.

    Args:
        awaitable: they, in the order in which they come.
        unbucketize_permute: (n,) the place of each one that was asked for.
    """

    def __init__(self, awaitable: Awaitable[Tensor], unbucketize_permute: Tensor) -> None:
        super().__init__()
        self._awaitable, self._unbucketize_permute = awaitable, unbucketize_permute

    def _wait_impl(self) -> Tensor:
        return self._awaitable.wait()[self._unbucketize_permute.long()]


class ShardedTensorPool(ShardedObjectPool[Tensor, Tensor, ObjectPoolRwShardingContext]):
    """A `TensorPool` whose rows are spread over processes.

    Args:
        env: the processes.
        pool_size: rows.
        dim: columns.
        dtype: of the rows.
        sharding_plan: row-wise, or row-wise on each host.
        device: of this process.
        enable_uvm: whether rows are kept on the host.

    Raises:
        OptionError: another plan.
    """

    def __init__(
        self,
        env: ShardingEnv,
        pool_size: int,
        dim: int,
        dtype: torch.dtype,
        sharding_plan: ObjectPoolShardingPlan,
        device: torch.device | None = None,
        enable_uvm: bool = False,
    ) -> None:
        super().__init__()
        if sharding_plan.sharding_type not in _SHARDINGS:
            raise OptionError(f"the plan says {sharding_plan.sharding_type}; choose one of {list(_SHARDINGS)}.")
        self._sharding_env, self._sharding_plan = env, sharding_plan
        self._world_size, self._rank = env.world_size, env.rank
        self._pool_size, self._dim, self._dtype = pool_size, dim, dtype
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._enable_uvm = enable_uvm
        self._sharding = _SHARDINGS[sharding_plan.sharding_type](pool_size, dim, env, self._device)
        self._lookup = TensorLookup(self._sharding.local_pool_size, dim, dtype, self._device, enable_uvm)
        self._lookup_ids_dist_impl = self._sharding.create_lookup_ids_dist()
        self._lookup_values_dist_impl = self._sharding.create_lookup_values_dist()
        self._update_ids_dist_impl = self._sharding.create_update_ids_dist()
        self._update_values_dist_impl = self._sharding.create_update_values_dist()
        for name, state in self._sharding.get_sharded_states_to_register(self._lookup):
            self.register_buffer(name, state)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        load_blocks(self, dict(self._lookup.states_to_register()), state_dict, prefix, *args)

    @property
    def pool_size(self) -> int:
        """Rows of all processes."""
        return self._pool_size

    @property
    def dim(self) -> int:
        """Columns."""
        return self._dim

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Where results are."""
        return self._device

    def create_context(self) -> ObjectPoolRwShardingContext:
        """What the stages of one look-up or update share."""
        made: ObjectPoolRwShardingContext = self._sharding.create_context()
        return made

    def _lookup_ids_dist(self, ctx: ObjectPoolRwShardingContext, ids: Tensor) -> Awaitable[Awaitable[Tensor]]:
        self._check_ids(ids, self._rank)
        found: Awaitable[Awaitable[Tensor]] = self._lookup_ids_dist_impl(ctx, ids)
        return found

    def _lookup_local(self, ctx: ObjectPoolRwShardingContext, ids: Tensor) -> Tensor:
        return self._lookup.lookup(ids)

    def _lookup_values_dist(self, ctx: ObjectPoolRwShardingContext, values: Tensor) -> LazyAwaitable[Tensor]:
        assert ctx.unbucketize_permute is not None
        return TensorPoolAwaitable(self._lookup_values_dist_impl(ctx, values), ctx.unbucketize_permute)

    def _update_ids_dist(self, ctx: ObjectPoolRwShardingContext, ids: Tensor) -> Awaitable[Awaitable[Tensor]]:
        self._check_ids(ids, self._rank)
        found: Awaitable[Awaitable[Tensor]] = self._update_ids_dist_impl(ctx, ids)
        return found

    def _update_values_dist(self, ctx: ObjectPoolRwShardingContext, values: Tensor) -> Awaitable[Tensor]:
        found: Awaitable[Tensor] = self._update_values_dist_impl(ctx, values)
        return found

    def _update_local(self, ctx: ObjectPoolRwShardingContext, ids: Tensor, values: Tensor) -> None:
        if ids.numel():
            self._lookup.update(ids, values)

    def update(self, ids: Tensor, values: Tensor) -> None:  # type: ignore[override]
        """Write the rows of (n,) numbers; where one stands several times, that of the last process stays.

        Args:
            ids: (n,) int32 or int64.
            values: (n, columns), of the pool's dtype.

        Raises:
            OptionError: values of another shape or dtype.
            IndexError: a number outside of the pool, with the process that gave it.
        """
        _check_rows(ids, values, self._dim, self._dtype, f" of process {self._rank}")
        super().update(ids, values)


def _check_rows(ids: Tensor, values: Tensor, dim: int, dtype: torch.dtype, who: str = "") -> None:
    if values.shape != (len(ids), dim) or values.dtype != dtype:
        raise OptionError(
            f"values{who} has shape {tuple(values.shape)} and dtype {values.dtype}, expected ({len(ids)}, {dim}) of "
            f"{dtype}."
        )


def load_blocks(
    module: nn.Module,
    blocks: dict[str, Tensor],
    state_dict: dict[str, Any],
    prefix: str,
    metadata: Any,
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Take states over of which each process has a block of rows, as `Module._load_from_state_dict` does.

    Args:
        module: the pool.
        blocks: (rows here, columns) by name; changed in place.
        state_dict: for each either the same parts of all processes, or all rows.
        prefix: of the module in it.
        metadata: of the state.
        strict: whether keys have to be the same.
        missing_keys: is told keys that are not there.
        unexpected_keys: is told keys that should not be there.
        error_msgs: is told what does not fit.
    """
    for name, block in blocks.items():
        key = f"{prefix}{name}"
        if key not in state_dict:
            if strict:
                missing_keys.append(key)
            continue
        whole, mine = state_dict[key], module._buffers[name].local_shards()  # type: ignore[union-attr]
        if not mine:
            continue
        place = mine[0].metadata
        if hasattr(whole, "local_shards"):
            given = {tuple(one.metadata.shard_offsets): one.tensor for one in whole.local_shards()}
            found = given.get(tuple(place.shard_offsets))
        else:
            found = whole[place.shard_offsets[0] :][: place.shard_sizes[0]]
        if found is None or found.shape != block.shape:
            has = None if found is None else tuple(found.shape)
            error_msgs.append(
                f"{key} has {has} for rows from {place.shard_offsets[0]} on, expected {tuple(block.shape)}."
            )
            continue
        with torch.no_grad():
            block.copy_(found)
    if strict:
        known = {f"{prefix}{name}" for name in blocks}
        unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key not in known]


class LocalShardPool(nn.Module):
    """The rows of one device.

    Args:
        shard: (rows, columns).
    """

    current_device: torch.device

    def __init__(self, shard: Tensor) -> None:
        super().__init__()
        self._shard = nn.Parameter(shard, requires_grad=False)
        self.current_device = shard.device

    def set_device(self, device_str: str) -> None:
        """Take numbers from another device."""
        self.current_device = torch.device(device_str)

    def forward(self, rank_ids: Tensor) -> Tensor:
        """(n, columns): the rows of (n,) numbers, counted from the device's first row."""
        return self._shard[rank_ids]

    def update(self, rank_ids: Tensor, values: Tensor) -> None:
        """Write the rows of (n,) numbers, counted from the device's first row."""
        update(self._shard, rank_ids, values)


class ShardedInferenceTensorPool(ShardedObjectPool[Tensor, list[Tensor], ObjectPoolRwShardingContext]):
    """A `TensorPool` whose rows are spread over the devices of one process.

    Args:
        env: the devices.
        pool_size: rows.
        dim: columns.
        dtype: of the rows.
        plan: row-wise; row-wise on each host is the same, of one process.
        module: whose rows are taken over.
        device: "cpu", where all devices are one, or "cuda".

    Raises:
        OptionError: the plan has capacities of another number of devices.
    """

    def __init__(
        self,
        env: ShardingEnv,
        pool_size: int,
        dim: int,
        dtype: torch.dtype,
        plan: ObjectPoolShardingPlan,
        module: TensorPool,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self._sharding_env, self._sharding_plan = env, plan
        self._pool_size, self._dim, self._dtype = pool_size, dim, dtype
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._sharding = InferRwTensorPoolSharding(pool_size, env, self._device, plan.memory_capacity_per_rank)
        self._local_shard_pools = nn.ModuleList()
        begin = 0
        for rank, rows in enumerate(self._sharding.local_pool_size_per_rank):
            where = torch.device("cuda", rank) if self._device.type == "cuda" else self._device
            # A copy, for neither of the two pools to write into the other.
            block = module.pool[begin : begin + rows].detach().clone().to(where)
            self._local_shard_pools.append(LocalShardPool(block))
            begin += rows
        self._lookup_ids_dist_impl = self._sharding.create_lookup_ids_dist()
        self._lookup_values_dist_impl = self._sharding.create_lookup_values_dist()

    @property
    def pool_size(self) -> int:
        """Rows of all devices."""
        return self._pool_size

    @property
    def dim(self) -> int:
        """Columns."""
        return self._dim

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Where results are."""
        return self._device

    def create_context(self) -> ObjectPoolShardingContext:  # type: ignore[override]
        """What the stages of one look-up share."""
        return ObjectPoolRwShardingContext(block_size=self._sharding._block_size_t)

    def _lookup_ids_dist(self, ctx: Any, ids: Tensor) -> Any:
        self._check_ids(ids, None)
        numbers, places, _, _ = self._lookup_ids_dist_impl(ids)
        ctx.unbucketize_permute = places
        return numbers

    def _lookup_local(self, ctx: Any, ids: Any) -> list[Tensor]:
        return [pool(numbers) for pool, numbers in zip(self._local_shard_pools, ids, strict=True)]

    def _lookup_values_dist(self, ctx: Any, values: list[Tensor]) -> Any:
        rows = self._lookup_values_dist_impl(values)
        return index_select_view(rows, ctx.unbucketize_permute.to(rows.device), self._dim)

    def _update_ids_dist(self, ctx: Any, ids: Tensor) -> Any:
        raise OptionError("devices of one process are updated by `update`, which sends nothing.")

    def _update_values_dist(self, ctx: Any, values: Tensor) -> Any:
        raise OptionError("devices of one process are updated by `update`, which sends nothing.")

    def _update_local(self, ctx: Any, ids: Any, values: Any) -> None:
        for pool, numbers, rows in zip(self._local_shard_pools, ids, values, strict=True):
            pool.update(numbers, rows)  # type: ignore[operator]

    def lookup(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        """(n, columns): the rows of (n,) numbers.

        Raises:
            IndexError: a number outside of the pool.
        """
        return self.forward(ids)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        """See `lookup`."""
        ctx = self.create_context()
        found: Tensor = self._lookup_values_dist(ctx, self._lookup_local(ctx, self._lookup_ids_dist(ctx, ids)))
        return found

    def update(self, ids: Tensor, values: Tensor) -> None:  # type: ignore[override]
        """Write the rows of (n,) numbers; where one stands several times, its last row stays.

        Args:
            ids: (n,) int32 or int64.
            values: (n, columns), of the pool's dtype.

        Raises:
            OptionError: values of another shape or dtype.
            IndexError: a number outside of the pool.
        """
        self._check_ids(ids, None)
        _check_rows(ids, values, self._dim, self._dtype)
        numbers, rows, _ = self._lookup_ids_dist_impl.update(ids, values)
        self._update_local(self.create_context(), numbers, rows)


class TensorPoolSharder(ModuleSharder[TensorPool]):
    """Spreads `TensorPool` over processes, or over the devices of one."""

    def __init__(self) -> None:
        super().__init__()

    def shard(  # type: ignore[override]
        self,
        module: TensorPool,
        plan: ObjectPoolShardingPlan,
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedTensorPool | ShardedInferenceTensorPool:
        """The sharded pool, with the rows of the module; see `ModuleSharder.shard`.

        Args:
            module: the pool; where it is on the meta device, rows are 0.
            plan: row-wise, or row-wise on each host; with `inference`, over the devices of one process.
            env: the processes, or devices.
            device: of this process.
            module_fqn: path of the module in the model.
        """
        if plan.inference:
            return ShardedInferenceTensorPool(env, module.pool_size, module.dim, module.dtype, plan, module, device)
        sharded = ShardedTensorPool(
            env, module.pool_size, module.dim, module.dtype, plan, device, enable_uvm=module._enable_uvm
        )
        if not module.pool.is_meta:
            sharded.load_state_dict(module.state_dict())
        return sharded

    @property
    def module_type(self) -> type[TensorPool]:
        """`TensorPool`."""
        return TensorPool

"""Pools of bags of several features over several processes, or over the devices of one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.object_pool import ShardedObjectPool
from flambeau.rec.distributed.sharding.rw_kjt_pool_sharding import (
    InferRwKeyedJaggedTensorPoolSharding,
    KeyedJaggedTensorPoolRwReplicatedSharding,
    KeyedJaggedTensorPoolRwSharding,
)
from flambeau.rec.distributed.tensor_pool import load_blocks
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
from flambeau.rec.modules.keyed_jagged_tensor_pool import KeyedJaggedTensorPool, checked_bags
from flambeau.rec.modules.object_pool_lookups import (
    KeyedJaggedTensorPoolLookup,
    TensorJaggedIndexSelectLookup,
    UVMCachingInt32Lookup,
    UVMCachingInt64Lookup,
)
from flambeau.rec.ops.permute import permute_1D_sparse_data
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = [
    "KeyedJaggedTensorPoolAwaitable",
    "KeyedJaggedTensorPoolSharder",
    "ShardedInferenceKeyedJaggedTensorPool",
    "ShardedKeyedJaggedTensorPool",
]

_SHARDINGS: dict[ObjectPoolShardingType, Any] = {
    ObjectPoolShardingType.ROW_WISE: KeyedJaggedTensorPoolRwSharding,
    ObjectPoolShardingType.REPLICATED_ROW_WISE: KeyedJaggedTensorPoolRwReplicatedSharding,
}
_ON_HOST = {torch.int64: UVMCachingInt64Lookup, torch.int32: UVMCachingInt32Lookup}


def _by_feature(bags: JaggedTensor, keys: list[str], places: Tensor) -> KeyedJaggedTensor:
    """The features of the numbers that were asked for.

    Args:
        bags: of numbers in the order in which they came; of a number, those of all features.
        keys: the features.
        places: (n,) the place of each number that was asked for.
    """
    order = (places.long() * len(keys) + torch.arange(len(keys), device=places.device).unsqueeze(1)).flatten()
    lengths, values, weights = permute_1D_sparse_data(order, bags.lengths(), bags.values(), bags.weights_or_none())
    return KeyedJaggedTensor(keys, values, weights, lengths, stride=len(places))


class KeyedJaggedTensorPoolAwaitable(LazyAwaitable[KeyedJaggedTensor]):
    """Features that are under way.

    Args:
        awaitable: bags of numbers in the order in which they come; of a number, those of all features.
        keys: the features.
        device: where they are wanted.
        unbucketize_permute: (n,) the place of each number that was asked for.
    """

    def __init__(
        self, awaitable: Awaitable[JaggedTensor], keys: list[str], device: torch.device, unbucketize_permute: Tensor
    ) -> None:
        super().__init__()
        self._awaitable, self._keys, self._device = awaitable, keys, torch.device(device)
        self._unbucketize_permute = unbucketize_permute

    def _wait_impl(self) -> KeyedJaggedTensor:
        return _by_feature(self._awaitable.wait(), self._keys, self._unbucketize_permute).to(self._device)


class ShardedKeyedJaggedTensorPool(ShardedObjectPool[KeyedJaggedTensor, JaggedTensor, ObjectPoolRwShardingContext]):
    """A `KeyedJaggedTensorPool` whose rows are spread over processes, or over those of each host.

    Args:
        pool_size: how many numbers there are.
        feature_max_lengths: ids in the longest bag of each feature.
        values_dtype: of ids.
        is_weighted: whether ids have weights.
        sharding_env: the processes.
        sharding_plan: row-wise, or row-wise on each host.
        device: of this process.
        enable_uvm: whether rows are kept on the host.

    Raises:
        OptionError: another plan.
    """

    _feature_max_lengths_t: Tensor

    def __init__(
        self,
        pool_size: int,
        feature_max_lengths: dict[str, int],
        values_dtype: torch.dtype,
        is_weighted: bool,
        sharding_env: ShardingEnv,
        sharding_plan: ObjectPoolShardingPlan,
        device: torch.device | None = None,
        enable_uvm: bool = False,
    ) -> None:
        super().__init__()
        self._pool_size, self._feature_max_lengths = pool_size, feature_max_lengths
        self._values_dtype, self._is_weighted = values_dtype, is_weighted
        self._sharding_env, self._sharding_plan = sharding_env, sharding_plan
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._features, self._enable_uvm = list(feature_max_lengths), enable_uvm
        limits = torch.tensor(list(feature_max_lengths.values()), dtype=torch.int32, device=self._device)
        self.register_buffer("_feature_max_lengths_t", limits, persistent=False)
        if sharding_plan.sharding_type not in _SHARDINGS:
            raise OptionError(f"the plan says {sharding_plan.sharding_type}; choose one of {list(_SHARDINGS)}.")
        self._sharding = _SHARDINGS[sharding_plan.sharding_type](
            sharding_env, self._device, pool_size, len(feature_max_lengths)
        )
        self._lookup = self._kept()
        self._lookup_ids_dist_impl = self._sharding.create_lookup_ids_dist()
        self._lookup_values_dist_impl = self._sharding.create_lookup_values_dist()
        self._update_ids_dist_impl = self._sharding.create_update_ids_dist()
        self._update_values_dist_impl = self._sharding.create_update_values_dist()
        for name, state in self._sharding.get_sharded_states_to_register(self._lookup):
            self.register_buffer(name, state)

    def _kept(self) -> KeyedJaggedTensorPoolLookup:
        rows = self._sharding.local_pool_size
        if self._enable_uvm and self._device.type != "cpu":
            if self._values_dtype not in _ON_HOST:
                raise OptionError(
                    f"values_dtype is {self._values_dtype}, expected torch.int32 or torch.int64 on the host."
                )
            kind = _ON_HOST[self._values_dtype]
            return kind(rows, self._feature_max_lengths, self._is_weighted, self._device)
        return TensorJaggedIndexSelectLookup(
            rows, self._values_dtype, self._feature_max_lengths, self._is_weighted, self._device
        )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        load_blocks(self, dict(self._lookup.states_to_register()), state_dict, prefix, *args)

    @property
    def pool_size(self) -> int:
        """How many numbers there are."""
        return self._pool_size

    @property
    def feature_max_lengths(self) -> dict[str, int]:
        """Ids in the longest bag of each feature."""
        return self._feature_max_lengths

    @property
    def values_dtype(self) -> torch.dtype:
        """Of ids."""
        return self._values_dtype

    @property
    def is_weighted(self) -> bool:
        """Whether ids have weights."""
        return self._is_weighted

    @property
    def device(self) -> torch.device:
        """Where results are."""
        return self._device

    def create_context(self) -> ObjectPoolShardingContext:  # type: ignore[override]
        """What the stages of one look-up or update share."""
        made: ObjectPoolShardingContext = self._sharding.create_context()
        return made

    def _lookup_ids_dist(self, ctx: ObjectPoolRwShardingContext, ids: Tensor) -> Awaitable[Awaitable[Tensor]]:
        self._check_ids(ids, self._sharding_env.rank)
        found: Awaitable[Awaitable[Tensor]] = self._lookup_ids_dist_impl(ctx, ids)
        return found

    def _lookup_local(self, ctx: ObjectPoolRwShardingContext, ids: Tensor) -> JaggedTensor:
        return self._lookup.lookup(ids)

    def _lookup_values_dist(
        self, ctx: ObjectPoolRwShardingContext, values: JaggedTensor
    ) -> LazyAwaitable[KeyedJaggedTensor]:
        assert ctx.unbucketize_permute is not None
        return KeyedJaggedTensorPoolAwaitable(
            self._lookup_values_dist_impl(ctx, values), self._features, self._device, ctx.unbucketize_permute
        )

    def _update_ids_dist(self, ctx: ObjectPoolRwShardingContext, ids: Tensor) -> Awaitable[Awaitable[Tensor]]:
        self._check_ids(ids, self._sharding_env.rank)
        found: Awaitable[Awaitable[Tensor]] = self._update_ids_dist_impl(ctx, ids)
        return found

    def _update_values_dist(
        self, ctx: ObjectPoolRwShardingContext, values: KeyedJaggedTensor
    ) -> Awaitable[JaggedTensor]:
        found: Awaitable[JaggedTensor] = self._update_values_dist_impl(values, ctx)
        return found

    def _update_local(self, ctx: ObjectPoolRwShardingContext, ids: Tensor, values: JaggedTensor) -> None:
        if ids.numel():
            self._lookup.update(ids, values)

    def update(self, ids: Tensor, values: KeyedJaggedTensor) -> None:  # type: ignore[override]
        """Write the features of (n,) numbers; where one stands several times, those of the last process stay.

        Args:
            ids: (n,) int32 or int64.
            values: n examples of all features of the pool, in any order; further ones are left alone.

        Raises:
            KeyError: a feature is missing.
            OptionError: bags that are too long, another number of examples, another dtype, weights where there are none
                or the reverse.
            IndexError: a number outside of the pool, with the process that gave it.
        """
        chosen = checked_bags(values, len(ids), self._feature_max_lengths, self._values_dtype, self._is_weighted)
        super().update(ids, chosen)


class ShardedInferenceKeyedJaggedTensorPool(
    ShardedObjectPool[KeyedJaggedTensor, list[JaggedTensor], ObjectPoolRwShardingContext]
):
    """A `KeyedJaggedTensorPool` whose rows are spread over the devices of one process.

    Args:
        pool_size: how many numbers there are.
        feature_max_lengths: ids in the longest bag of each feature.
        values_dtype: of ids.
        is_weighted: whether ids have weights.
        sharding_env: the devices.
        sharding_plan: row-wise; row-wise on each host is the same, of one process.
        module: whose rows are taken over.
        device: "cpu", where all devices are one, or "cuda".
    """

    def __init__(
        self,
        pool_size: int,
        feature_max_lengths: dict[str, int],
        values_dtype: torch.dtype,
        is_weighted: bool,
        sharding_env: ShardingEnv,
        sharding_plan: ObjectPoolShardingPlan,
        module: KeyedJaggedTensorPool,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self._pool_size, self._feature_max_lengths = pool_size, feature_max_lengths
        self._values_dtype, self._is_weighted = values_dtype, is_weighted
        self._sharding_env, self._sharding_plan = sharding_env, sharding_plan
        self._world_size = sharding_env.world_size
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._sharding = InferRwKeyedJaggedTensorPoolSharding(pool_size, sharding_env, self._device)
        self._local_kjt_pool_shards = nn.ModuleList()
        begin = 0
        for rank, rows in enumerate(self._sharding.local_pool_size_per_rank):
            where = torch.device("cuda", rank) if self._device.type == "cuda" else self._device
            shard = TensorJaggedIndexSelectLookup(rows, values_dtype, feature_max_lengths, is_weighted, where)
            for name, state in shard.states_to_register():
                state.copy_(getattr(module, name)[begin : begin + rows])
            self._local_kjt_pool_shards.append(shard)
            begin += rows
        self._lookup_ids_dist_impl = self._sharding.create_lookup_ids_dist()
        self._lookup_values_dist_impl = self._sharding.create_lookup_values_dist()

    @property
    def pool_size(self) -> int:
        """How many numbers there are."""
        return self._pool_size

    @property
    def dim(self) -> int:
        """Ids in the longest row: those of the longest bags of all features."""
        return sum(self._feature_max_lengths.values())

    @property
    def dtype(self) -> torch.dtype:
        """Of ids."""
        return self._values_dtype

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

    def _lookup_local(self, ctx: Any, ids: Any) -> list[JaggedTensor]:
        return [shard(numbers) for shard, numbers in zip(self._local_kjt_pool_shards, ids, strict=True)]

    def _lookup_values_dist(self, ctx: Any, values: list[JaggedTensor]) -> Any:
        bags = self._lookup_values_dist_impl(values)
        places = ctx.unbucketize_permute.to(bags.values().device)
        return _by_feature(bags, list(self._feature_max_lengths), places)

    def _update_ids_dist(self, ctx: Any, ids: Tensor) -> Any:
        self._check_ids(ids, None)
        numbers, places, _, counts = self._lookup_ids_dist_impl(ids)
        ctx.unbucketize_permute, ctx.num_ids_each_rank_to_send = places, counts
        return numbers

    def _update_values_dist(self, ctx: Any, values: KeyedJaggedTensor) -> Any:
        features = len(self._feature_max_lengths)
        # From a feature's bags one after another to those of a number, in the order of devices.
        order = torch.argsort(ctx.unbucketize_permute)
        bags = (order.unsqueeze(1) + torch.arange(features, device=order.device) * len(order)).flatten()
        sizes = (ctx.num_ids_each_rank_to_send * features).tolist()
        found = []
        for part in bags.split(sizes):
            lengths, ids, weights = permute_1D_sparse_data(
                part, values.lengths(), values.values(), values.weights_or_none()
            )
            found.append(JaggedTensor(ids, weights, lengths))
        return found

    def _update_local(self, ctx: Any, ids: Any, values: Any) -> None:
        for shard, numbers, bags in zip(self._local_kjt_pool_shards, ids, values, strict=True):
            if numbers.numel():
                shard.update(numbers, bags.to(numbers.device))  # type: ignore[operator]

    def lookup(self, ids: Tensor) -> KeyedJaggedTensor:  # type: ignore[override]
        """The features of (n,) numbers, a batch of n examples.

        Raises:
            IndexError: a number outside of the pool.
        """
        return self.forward(ids)

    def forward(self, ids: Tensor) -> KeyedJaggedTensor:  # type: ignore[override]
        """See `lookup`."""
        ctx = self.create_context()
        found: KeyedJaggedTensor = self._lookup_values_dist(
            ctx, self._lookup_local(ctx, self._lookup_ids_dist(ctx, ids))
        )
        return found

    def update(self, ids: Tensor, values: KeyedJaggedTensor) -> None:  # type: ignore[override]
        """Write the features of (n,) numbers; where one stands several times, its last features stay.

        Args:
            ids: (n,) int32 or int64.
            values: n examples of all features of the pool, in any order; further ones are left alone.

        Raises:
            KeyError: a feature is missing.
            OptionError: bags that are too long, another number of examples, another dtype, weights where there are none
                or the reverse.
            IndexError: a number outside of the pool.
        """
        chosen = checked_bags(values, len(ids), self._feature_max_lengths, self._values_dtype, self._is_weighted)
        ctx = self.create_context()
        numbers = self._update_ids_dist(ctx, ids)
        self._update_local(ctx, numbers, self._update_values_dist(ctx, chosen))


class KeyedJaggedTensorPoolSharder(ModuleSharder[KeyedJaggedTensorPool]):
    """Spreads `KeyedJaggedTensorPool` over processes, or over the devices of one."""

    def __init__(self) -> None:
        super().__init__()

    def shard(  # type: ignore[override]
        self,
        module: KeyedJaggedTensorPool,
        plan: ObjectPoolShardingPlan,
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedKeyedJaggedTensorPool | ShardedInferenceKeyedJaggedTensorPool:
        """The sharded pool, with the rows of the module; see `ModuleSharder.shard`.

        Args:
            module: the pool; where it is on the meta device, it is empty.
            plan: row-wise, or row-wise on each host; with `inference`, over the devices of one process.
            env: the processes, or devices.
            device: of this process.
            module_fqn: path of the module in the model.
        """
        facts = (module.pool_size, module.feature_max_lengths, module.values_dtype, module.is_weighted)
        if plan.inference:
            return ShardedInferenceKeyedJaggedTensorPool(*facts, env, plan, module, device)
        sharded = ShardedKeyedJaggedTensorPool(*facts, env, plan, device, enable_uvm=module._enable_uvm)
        state = module.state_dict()
        if not any(one.is_meta for one in state.values()):
            sharded.load_state_dict(state)
        return sharded

    @property
    def module_type(self) -> type[KeyedJaggedTensorPool]:
        """`KeyedJaggedTensorPool`."""
        return KeyedJaggedTensorPool

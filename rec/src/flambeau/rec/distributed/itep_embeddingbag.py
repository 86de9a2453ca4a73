"""Collections over several processes whose tables are pruned while they are trained."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _IncompatibleKeys

from flambeau.rec.distributed.embedding import (
    EmbeddingCollectionContext,
    EmbeddingCollectionSharder,
    ShardedEmbeddingCollection,
)
from flambeau.rec.distributed.embedding_types import BaseEmbeddingSharder, KJTList, ShardedEmbeddingModule
from flambeau.rec.distributed.embeddingbag import (
    EmbeddingBagCollectionContext,
    EmbeddingBagCollectionSharder,
    ShardedEmbeddingBagCollection,
)
from flambeau.rec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.itep_embedding_modules import ITEPEmbeddingBagCollection, ITEPEmbeddingCollection
from flambeau.rec.modules.itep_modules import GenericITEPModule, RowwiseShardedITEPModule
from flambeau.rec.optim.fused import FusedOptimizerModule
from flambeau.rec.optim.keyed import KeyedOptimizer
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "ITEPEmbeddingBagCollectionContext",
    "ITEPEmbeddingBagCollectionSharder",
    "ITEPEmbeddingCollectionContext",
    "ITEPEmbeddingCollectionSharder",
    "ShardedITEPEmbeddingBagCollection",
    "ShardedITEPEmbeddingCollection",
    "ShardingTypeGroup",
]


@unique
class ShardingTypeGroup(Enum):
    """Ways to spread tables, by whether a process has all rows of a table, or some."""

    CW_GROUP = "column_wise_group"
    RW_GROUP = "row_wise_group"


_GROUPS = {
    ShardingType.COLUMN_WISE.value: ShardingTypeGroup.CW_GROUP,
    ShardingType.TABLE_WISE.value: ShardingTypeGroup.CW_GROUP,
    ShardingType.TABLE_COLUMN_WISE.value: ShardingTypeGroup.CW_GROUP,
    ShardingType.ROW_WISE.value: ShardingTypeGroup.RW_GROUP,
    ShardingType.TABLE_ROW_WISE.value: ShardingTypeGroup.RW_GROUP,
}


@dataclass
class ITEPEmbeddingBagCollectionContext(EmbeddingBagCollectionContext):
    """What the stages of one batch share.

    Args:
        is_reindexed: whether rows stand in place of ids already.
    """

    is_reindexed: bool = False


@dataclass
class ITEPEmbeddingCollectionContext(EmbeddingCollectionContext):
    """What the stages of one batch share.

    Args:
        is_reindexed: whether rows stand in place of ids already.
    """

    is_reindexed: bool = False


class _ShardedITEP(ShardedEmbeddingModule[Any, Any, Any, Any], FusedOptimizerModule):
    """A sharded collection behind the modules that remap its ids: one for tables whose rows are all on one process, one
    for those whose rows are spread.
    """

    _iter: Tensor
    _env: ShardingEnv
    _itep_module: GenericITEPModule
    _rowwise_itep_module: RowwiseShardedITEPModule

    def _set_up(self, collection: Any, made: GenericITEPModule, plan: dict[str, ParameterSharding]) -> None:
        """Give each table to the module that it belongs to."""
        self.table_name_to_sharding_type = {name: one.sharding_type for name, one in plan.items()}
        ids: dict[ShardingTypeGroup, dict[str, int]] = {group: {} for group in ShardingTypeGroup}
        for name, count in made.table_name_to_unpruned_hash_sizes.items():
            kind = self.table_name_to_sharding_type.get(name)
            if kind is None:
                raise OptionError(
                    f"table_name_to_unpruned_hash_sizes has table {name!r}, which is not in the plan; that has "
                    f"{sorted(plan)}."
                )
            if kind not in _GROUPS:
                raise OptionError(
                    f"table {name!r} is spread by {kind}, which has no pruning; choose one of {sorted(_GROUPS)}."
                )
            ids[_GROUPS[kind]][name] = count
        lookups: dict[ShardingTypeGroup, list[Any]] = {group: [] for group in ShardingTypeGroup}
        for kind, lookup in zip(collection._sharding_types, collection._lookups, strict=True):
            if kind in _GROUPS:
                lookups[_GROUPS[kind]].append(lookup)
        options: dict[str, Any] = {
            "enable_pruning": made.enable_pruning,
            "pruning_interval": made.pruning_interval,
            "pg": self._env.process_group,
            "pruning_logger_type": made.pruning_logger,
        }
        group = ShardingTypeGroup.CW_GROUP
        self._itep_module = GenericITEPModule(
            ids[group],
            lookups[group],
            table_name_to_sharding_type=self.table_name_to_sharding_type if ids[group] else None,
            **options,
        )
        group = ShardingTypeGroup.RW_GROUP
        self._rowwise_itep_module = RowwiseShardedITEPModule(
            ids[group], lookups[group], table_name_to_sharding_type=self.table_name_to_sharding_type, **options
        )
        if made.enable_pruning:
            collection.ids_of_tables = dict(made.table_name_to_unpruned_hash_sizes)

    @property
    def _collection(self) -> Any:
        raise NotImplementedError

    def _reindexed(self, ctx: Any, dist_input: KJTList) -> KJTList:
        """Features with rows in place of ids, of each sharding; once for each batch."""
        if ctx.is_reindexed:
            return dist_input
        batch, collection = int(self._iter), self._collection
        found = []
        stages = zip(collection._sharding_types, collection._lookups, dist_input, strict=True)
        for kind, lookup, features in stages:
            by_rows = _GROUPS.get(kind) == ShardingTypeGroup.RW_GROUP
            module = self._rowwise_itep_module if by_rows else self._itep_module
            found.append(module._remapped(features, batch, lookup))
        self._iter += 1
        ctx.is_reindexed = True
        return KJTList(found)

    def prefetch(self, dist_input: KJTList, forward_stream: torch.Stream | None = None, ctx: Any = None) -> None:
        """Fetch rows of tables on the host that the batch will need.

        Args:
            dist_input: features of each sharding, as `input_dist` gave them; become those with rows in place of ids.
            forward_stream: on which the batch will be computed.
            ctx: of the batch.
        """
        ctx = self.create_context() if ctx is None else ctx
        for at, features in enumerate(self._reindexed(ctx, dist_input)):
            dist_input[at] = features
        self._collection.prefetch(dist_input, forward_stream, ctx)

    def input_dist(
        self, ctx: Any, features: KeyedJaggedTensor, force_insert: bool = False
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send features.

        Args:
            ctx: of the batch.
            features: of the local batch.
            force_insert: has no effect: ids are always counted.

        Raises:
            IdOutOfBoundsError: an id that its table has not, with the feature's name.
        """
        found: Awaitable[Awaitable[KJTList]] = self._collection.input_dist(ctx, features)
        return found

    def compute(self, ctx: Any, dist_input: KJTList) -> list[Tensor]:
        """Look up what all processes asked this one for."""
        found: list[Tensor] = self._collection.compute(ctx, self._reindexed(ctx, dist_input))
        return found

    def output_dist(self, ctx: Any, output: list[Tensor]) -> LazyAwaitable[Any]:
        """Start to send rows back."""
        found: LazyAwaitable[Any] = self._collection.output_dist(ctx, output)
        return found

    def compute_and_output_dist(self, ctx: Any, input: KJTList) -> LazyAwaitable[Any]:
        """Look up one sharding after another, and start to send each one's results at once."""
        found: LazyAwaitable[Any] = self._collection.compute_and_output_dist(ctx, self._reindexed(ctx, input))
        return found

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Any, strict: bool = True
    ) -> _IncompatibleKeys:
        """Take over what `state_dict` gave; see `torch.nn.Module.load_state_dict`."""
        found: _IncompatibleKeys = nn.Module.load_state_dict(self, state_dict, strict=strict)
        return found

    @property
    def fused_optimizer(self) -> KeyedOptimizer:
        """What kernels train the tables by."""
        found: KeyedOptimizer = self._collection.fused_optimizer
        return found

    @property
    def shardings(self) -> dict[str, Any]:
        """Each sharding, by its type."""
        found: dict[str, Any] = self._collection.shardings
        return found

    def sharded_parameter_names(self, prefix: str = "") -> Any:
        """Names of all tables."""
        name = next(name for name, one in self.named_children() if one is self._collection)
        yield from self._collection.sharded_parameter_names(f"{prefix}.{name}" if prefix else name)


class ShardedITEPEmbeddingBagCollection(_ShardedITEP):
    """An `ITEPEmbeddingBagCollection` whose tables are spread over processes.

    Args:
        module: the collection.
        table_name_to_parameter_sharding: where each table goes.
        ebc_sharder: what spreads the collection inside.
        env: the processes.
        device: of this one.

    Raises:
        OptionError: a pruned table is not in the plan, is spread in a way without pruning, or has fewer ids than rows.
    """

    _embedding_bag_collection: ShardedEmbeddingBagCollection

    def __init__(
        self,
        module: ITEPEmbeddingBagCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        ebc_sharder: EmbeddingBagCollectionSharder,
        env: ShardingEnv,
        device: torch.device,
    ) -> None:
        super().__init__()
        self._device, self._env = torch.device(device), env
        self.register_buffer("_iter", module._iter.detach().clone())
        self._embedding_bag_collection = ebc_sharder.shard(
            module._embedding_bag_collection, table_name_to_parameter_sharding, env, device
        )
        self._set_up(self._embedding_bag_collection, module._itep_module, table_name_to_parameter_sharding)

    @property
    def _collection(self) -> ShardedEmbeddingBagCollection:
        return self._embedding_bag_collection

    def create_context(self) -> ITEPEmbeddingBagCollectionContext:
        """What the stages of one batch share."""
        return ITEPEmbeddingBagCollectionContext()

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`ITEPEmbeddingBagCollection`."""
        return ITEPEmbeddingBagCollection


class ShardedITEPEmbeddingCollection(_ShardedITEP):
    """An `ITEPEmbeddingCollection` whose tables are spread over processes.

    Args:
        module: the collection.
        table_name_to_parameter_sharding: where each table goes.
        ebc_sharder: what spreads the collection inside.
        env: the processes.
        device: of this one.

    Raises:
        OptionError: a pruned table is not in the plan, is spread in a way without pruning, or has fewer ids than rows.
    """

    _embedding_collection: ShardedEmbeddingCollection

    def __init__(
        self,
        module: ITEPEmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        ebc_sharder: EmbeddingCollectionSharder,
        env: ShardingEnv,
        device: torch.device,
    ) -> None:
        super().__init__()
        self._device, self._env = torch.device(device), env
        self.register_buffer("_iter", module._iter.detach().clone())
        self._embedding_collection = ebc_sharder.shard(
            module._embedding_collection, table_name_to_parameter_sharding, env, device
        )
        self._set_up(self._embedding_collection, module._itep_module, table_name_to_parameter_sharding)

    @property
    def _collection(self) -> ShardedEmbeddingCollection:
        return self._embedding_collection

    def create_context(self) -> ITEPEmbeddingCollectionContext:
        """What the stages of one batch share."""
        return ITEPEmbeddingCollectionContext()

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`ITEPEmbeddingCollection`."""
        return ITEPEmbeddingCollection


class ITEPEmbeddingBagCollectionSharder(BaseEmbeddingSharder[ITEPEmbeddingBagCollection]):
    """Spreads `ITEPEmbeddingBagCollection` over processes.

    Args:
        ebc_sharder: what spreads the collection inside.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        ebc_sharder: EmbeddingBagCollectionSharder | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry=qcomm_codecs_registry)
        self._ebc_sharder = ebc_sharder or EmbeddingBagCollectionSharder(
            qcomm_codecs_registry=self.qcomm_codecs_registry
        )

    def shard(
        self,
        module: ITEPEmbeddingBagCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedITEPEmbeddingBagCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        where = torch.device("cpu") if device is None else torch.device(device)
        return ShardedITEPEmbeddingBagCollection(module, params, self._ebc_sharder, env, where)

    @property
    def sharded_module_type(self) -> type[ShardedITEPEmbeddingBagCollection]:
        """The class of what it makes."""
        return ShardedITEPEmbeddingBagCollection

    def shardable_parameters(self, module: ITEPEmbeddingBagCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return self._ebc_sharder.shardable_parameters(module._embedding_bag_collection)

    @property
    def module_type(self) -> type[ITEPEmbeddingBagCollection]:
        """`ITEPEmbeddingBagCollection`."""
        return ITEPEmbeddingBagCollection

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which pruned tables are spread."""
        allowed = (
            ShardingType.ROW_WISE.value,
            ShardingType.TABLE_ROW_WISE.value,
            ShardingType.COLUMN_WISE.value,
            ShardingType.TABLE_WISE.value,
        )
        known = self._ebc_sharder.sharding_types(compute_device_type)
        return [kind for kind in allowed if kind in known]


class ITEPEmbeddingCollectionSharder(BaseEmbeddingSharder[ITEPEmbeddingCollection]):
    """Spreads `ITEPEmbeddingCollection` over processes.

    Args:
        ebc_sharder: what spreads the collection inside.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        ebc_sharder: EmbeddingCollectionSharder | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry=qcomm_codecs_registry)
        self._ebc_sharder = ebc_sharder or EmbeddingCollectionSharder(qcomm_codecs_registry=self.qcomm_codecs_registry)

    def shard(
        self,
        module: ITEPEmbeddingCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedITEPEmbeddingCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        where = torch.device("cpu") if device is None else torch.device(device)
        return ShardedITEPEmbeddingCollection(module, params, self._ebc_sharder, env, where)

    def shardable_parameters(self, module: ITEPEmbeddingCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return self._ebc_sharder.shardable_parameters(module._embedding_collection)

    @property
    def module_type(self) -> type[ITEPEmbeddingCollection]:
        """`ITEPEmbeddingCollection`."""
        return ITEPEmbeddingCollection

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which pruned tables are spread."""
        known = self._ebc_sharder.sharding_types(compute_device_type)
        allowed = (ShardingType.ROW_WISE.value, ShardingType.COLUMN_WISE.value, ShardingType.TABLE_WISE.value)
        return [kind for kind in allowed if kind in known]

"""Collections of pooled embeddings over several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.remote_device import _remote_device

from flambeau.rec.distributed._bounds import within_bounds
from flambeau.rec.distributed._redistribution import redistributed
from flambeau.rec.distributed._sharded_tables import ShardedTables, infos_by_type
from flambeau.rec.distributed._sharders import EmbeddingBagCollectionSharder, EmbeddingBagSharder
from flambeau.rec.distributed.embedding_sharding import (
    EmbeddingSharding,
    EmbeddingShardingContext,
    EmbeddingShardingInfo,
    KJTListSplitsAwaitable,
)
from flambeau.rec.distributed.embedding_types import KJTList, ShardedEmbeddingModule
from flambeau.rec.distributed.fused_params import FUSED_PARAM_IS_SSD_TABLE, FUSED_PARAM_SSD_TABLE_LIST
from flambeau.rec.distributed.sharding.cw_sharding import CwPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.dp_sharding import DpPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.grid_sharding import GridPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.rw_sharding import RwPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.tw_sharding import TwPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.twcw_sharding import TwCwPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.twrw_sharding import TwRwPooledEmbeddingSharding
from flambeau.rec.distributed.types import (
    Awaitable,
    EmbeddingEvent,
    EmbeddingModuleShardingPlan,
    LazyAwaitable,
    LazyGetItemMixin,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.distributed.utils import maybe_annotate_embedding_event
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from flambeau.rec.modules.embedding_modules import (
    EmbeddingBagCollection,
    EmbeddingBagCollectionInterface,
    reorder_inverse_indices,
)
from flambeau.rec.optim.fused import FusedOptimizerModule
from flambeau.rec.optim.keyed import KeyedOptimizer
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor
from flambeau.rec.streamable import Multistreamable

__all__ = [
    "FUSED_PARAM_IS_SSD_TABLE",
    "FUSED_PARAM_SSD_TABLE_LIST",
    "EmbeddingAwaitable",
    "EmbeddingBagCollectionAwaitable",
    "EmbeddingBagCollectionContext",
    "EmbeddingBagCollectionSharder",
    "EmbeddingBagSharder",
    "ShardedEmbeddingBag",
    "ShardedEmbeddingBagCollection",
    "VariableBatchEmbeddingBagCollectionAwaitable",
    "construct_output_kt",
    "create_sharding_infos_by_sharding_device_group",
    "get_device_from_parameter_sharding",
    "replace_placement_with_meta_device",
]


# ----- plans ----------------------------------------------------------------------------------------------------------


def get_device_from_parameter_sharding(ps: ParameterSharding) -> str | tuple[str, ...]:
    """The kind of device that the shards of a table are on, or those of all shards where they differ."""
    shards = getattr(ps.sharding_spec, "shards", None)
    if not shards:
        raise OptionError("the sharding names no shards, which devices are found from.")
    kinds = tuple(shard.placement.device().type for shard in shards)
    return kinds[0] if len(set(kinds)) == 1 else kinds


def create_sharding_infos_by_sharding_device_group(
    module: EmbeddingBagCollectionInterface,
    table_name_to_parameter_sharding: dict[str, ParameterSharding],
    prefix: str,
    fused_params: dict[str, Any] | None,
    suffix: str | None = "weight",
) -> dict[tuple[str, str | tuple[str, ...]], list[EmbeddingShardingInfo]]:
    """Tables by the way in which they are spread, and by the devices they are on.

    Args:
        module: whose tables they are.
        table_name_to_parameter_sharding: where each goes.
        prefix: of tables in the module's state.
        fused_params: options of kernels.
        suffix: of tables in the module's state.
    """
    grouped: dict[tuple[str, str | tuple[str, ...]], list[EmbeddingShardingInfo]] = {}
    found = _infos(module, table_name_to_parameter_sharding, prefix, fused_params, suffix)
    for kind, infos in found.items():
        for info in infos:
            spec = info.param_sharding.sharding_spec
            device = get_device_from_parameter_sharding(info.param_sharding) if spec is not None else "cpu"
            grouped.setdefault((kind, device), []).append(info)
    return grouped


def _infos(
    module: EmbeddingBagCollectionInterface,
    plan: dict[str, ParameterSharding],
    prefix: str,
    fused_params: dict[str, Any] | None,
    suffix: str | None = "weight",
) -> dict[str, list[EmbeddingShardingInfo]]:
    named = dict(module.named_parameters()) or dict(module.state_dict())
    tables = module.embedding_bag_configs()
    end = f".{suffix}" if suffix else ""
    weights = {table.name: named[f"{prefix}{table.name}{end}"] for table in tables}
    return infos_by_type(
        tables,
        weights,
        plan,
        fused_params,
        pooled=True,
        is_weighted=module.is_weighted(),
        has_feature_processor=False,
    )


def replace_placement_with_meta_device(sharding_infos: list[EmbeddingShardingInfo]) -> None:
    """Have the shards of tables be on the meta device, in place."""
    for info in sharding_infos:
        for shard in getattr(info.param_sharding.sharding_spec, "shards", []):
            placement = shard.placement
            if placement is not None:
                shard.placement = _remote_device(f"rank:{placement.rank()}/meta")


# ----- results --------------------------------------------------------------------------------------------------------


def construct_output_kt(embeddings: list[Tensor], embedding_names: list[str], embedding_dims: list[int]) -> KeyedTensor:
    """The results of all shardings as one.

    Args:
        embeddings: (examples, columns) of each sharding.
        embedding_names: of all results.
        embedding_dims: columns of each.
    """
    values = embeddings[0] if len(embeddings) == 1 else torch.cat(embeddings, dim=1) if embeddings else torch.empty(0)
    return KeyedTensor(keys=embedding_names, length_per_key=embedding_dims, values=values, key_dim=1)


class EmbeddingAwaitable(LazyAwaitable[Tensor]):
    """One result that is under way.

    Args:
        awaitable: it.
    """

    def __init__(self, awaitable: Awaitable[Tensor]) -> None:
        super().__init__()
        self._awaitable = awaitable

    def _wait_impl(self) -> Tensor:
        return self._awaitable.wait()


class _Results(LazyGetItemMixin[str, Tensor], LazyAwaitable[KeyedTensor]):
    def __init__(
        self, awaitables: Sequence[Awaitable[Tensor]], module_fqn: str | None, sharding_types: Sequence[str] | None
    ) -> None:
        super().__init__()
        self._awaitables = list(awaitables)
        self._module_fqn, self._sharding_types = module_fqn, list(sharding_types or [])

    def _waited(self) -> list[Tensor]:
        kinds = self._sharding_types or [None] * len(self._awaitables)  # type: ignore[list-item]
        found = []
        for awaitable, kind in zip(self._awaitables, kinds, strict=True):
            with maybe_annotate_embedding_event(EmbeddingEvent.OUTPUT_DIST_WAIT, self._module_fqn, kind):
                found.append(awaitable.wait())
        return found


class EmbeddingBagCollectionAwaitable(_Results):
    """Pooled embeddings of all features, under way.

    Args:
        awaitables: of each sharding.
        embedding_dims: columns of each result.
        embedding_names: of each.
        module_fqn: path of the module, for profiles.
        sharding_types: of the shardings, for profiles.
        resize_awaitables: changes of memory to wait for as well.
    """

    def __init__(
        self,
        awaitables: list[Awaitable[Tensor]],
        embedding_dims: list[int],
        embedding_names: list[str],
        module_fqn: str | None = None,
        sharding_types: list[str] | None = None,
        resize_awaitables: list[Awaitable[Tensor]] | None = None,
    ) -> None:
        super().__init__(awaitables, module_fqn, sharding_types)
        self._embedding_dims, self._embedding_names = embedding_dims, embedding_names
        self._resize_awaitables = resize_awaitables or []

    def _wait_impl(self) -> KeyedTensor:
        embeddings = self._waited()
        for awaitable in self._resize_awaitables:
            awaitable.wait()
        return construct_output_kt(embeddings, self._embedding_names, self._embedding_dims)


class VariableBatchEmbeddingBagCollectionAwaitable(_Results):
    """Pooled embeddings of features with batches of their own, under way; the result is of the full batch.

    Args:
        awaitables: of each sharding: flat, feature by feature.
        inverse_indices: keys, and (keys, full batch): which example of its own batch each feature has.
        uncombined_embedding_dims: columns of each part of a result.
        batch_size_per_feature_pre_a2a: examples of each part's feature.
        feature_names: of each part.
        order: the parts that each result has, in order.
        embedding_names: of the results.
        embedding_dims: columns of each.
        module_fqn: path of the module, for profiles.
        sharding_types: of the shardings, for profiles.
    """

    def __init__(
        self,
        awaitables: list[Awaitable[Tensor]],
        inverse_indices: tuple[list[str], Tensor],
        uncombined_embedding_dims: list[int],
        batch_size_per_feature_pre_a2a: list[int],
        feature_names: list[str],
        order: list[int],
        embedding_names: list[str],
        embedding_dims: list[int],
        module_fqn: str | None = None,
        sharding_types: list[str] | None = None,
    ) -> None:
        super().__init__(awaitables, module_fqn, sharding_types)
        self._widths, self._sizes, self._order = uncombined_embedding_dims, batch_size_per_feature_pre_a2a, order
        self._inverse = reorder_inverse_indices(inverse_indices, feature_names)
        self._embedding_dims, self._embedding_names = embedding_dims, embedding_names

    def _wait_impl(self) -> KeyedTensor:
        flat = torch.cat(self._waited())
        counts = [size * width for size, width in zip(self._sizes, self._widths, strict=True)]
        parts = [
            part.view(size, width).index_select(0, rows)
            for part, size, width, rows in zip(
                flat.split(counts), self._sizes, self._widths, self._inverse.unbind(), strict=True
            )
        ]
        return construct_output_kt([parts[at] for at in self._order], self._embedding_names, self._embedding_dims)


@dataclass
class EmbeddingBagCollectionContext(Multistreamable):
    """What the stages of one batch share.

    Args:
        sharding_contexts: of each sharding.
        inverse_indices: keys, and (keys, full batch), where features have batches of their own.
        variable_batch_per_feature: whether they have.
        divisor: what results are divided by.
        early_releasable_inputs: features whose memory is free once they were sent.
        factors: of each sharding, what its result is multiplied by, where bags are averaged over several processes.
    """

    sharding_contexts: list[EmbeddingShardingContext | None] = field(default_factory=list)
    inverse_indices: tuple[list[str], Tensor] | None = None
    variable_batch_per_feature: bool = False
    divisor: Tensor | None = None
    early_releasable_inputs: list[KeyedJaggedTensor] = field(default_factory=list)
    factors: list[Tensor | None] = field(default_factory=list)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for ctx in self.sharding_contexts:
            if ctx is not None:
                ctx.record_stream(stream)
        inverse = [] if self.inverse_indices is None else [self.inverse_indices[1]]
        for tensor in [*inverse, self.divisor, *self.factors]:
            if tensor is not None:
                tensor.record_stream(stream)


# ----- the collection -------------------------------------------------------------------------------------------------

_SHARDINGS: dict[str, Any] = {
    ShardingType.TABLE_WISE.value: TwPooledEmbeddingSharding,
    ShardingType.ROW_WISE.value: RwPooledEmbeddingSharding,
    ShardingType.TABLE_ROW_WISE.value: TwRwPooledEmbeddingSharding,
    ShardingType.COLUMN_WISE.value: CwPooledEmbeddingSharding,
    ShardingType.TABLE_COLUMN_WISE.value: TwCwPooledEmbeddingSharding,
    ShardingType.GRID_SHARD.value: GridPooledEmbeddingSharding,
}
_BY_COLUMNS = (ShardingType.COLUMN_WISE.value, ShardingType.TABLE_COLUMN_WISE.value)


class ShardedEmbeddingBagCollection(ShardedTables):
    """An `EmbeddingBagCollection` whose tables are spread over processes.

    Results come in the order of shardings, and within them of processes; they are found by name.

    Args:
        module: the collection; where its tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes.
        env: the processes.
        fused_params: options of kernels, such as their optimizer.
        device: of this process.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        module_fqn: path of the module in the model.
        sharded_module_order_overwrite: the order of shardings, by their types.

    Raises:
        OptionError: the plan and the collection have different tables, or the plan does not fit the processes.
    """

    def __init__(
        self,
        module: EmbeddingBagCollectionInterface,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        module_fqn: str | None = None,
        sharded_module_order_overwrite: list[str] | None = None,
    ) -> None:
        self._embedding_bag_configs: list[EmbeddingBagConfig] = module.embedding_bag_configs()
        infos = self.create_grouped_sharding_infos(
            module, table_name_to_parameter_sharding, "embedding_bags.", fused_params
        )
        if sharded_module_order_overwrite:
            first = [kind for kind in sharded_module_order_overwrite if kind in infos]
            infos = {kind: infos[kind] for kind in [*first, *(kind for kind in infos if kind not in first)]}
        self._is_weighted = module.is_weighted()
        self._fused_params = fused_params
        source = {info.embedding_config.name: info.param for of_kind in infos.values() for info in of_kind}
        object.__setattr__(self, "_table_order", [table.name for table in self._embedding_bag_configs])
        super().__init__("embedding_bags", infos, env, device, qcomm_codecs_registry, module_fqn, source)
        self._table_order = [table.name for table in self._embedding_bag_configs]
        self.module_sharding_plan = EmbeddingModuleShardingPlan(table_name_to_parameter_sharding)
        self._embedding_names = [name for one in self._embedding_shardings for name in one.embedding_names()]
        self._embedding_dims = [width for one in self._embedding_shardings for width in one.embedding_dims()]
        self._init_parts()
        if env.process_group is not None and self._device.type != "meta":
            self.init_data_parallel()

    def _init_parts(self) -> None:
        """Parts of results, as they come flat where features have batches of their own, and what they make up."""
        self._part_features: list[str] = []
        self._part_widths: list[int] = []
        self._part_order: list[int] = []
        self._means: list[list[tuple[str, bool]]] = []
        for kind, sharding in self.shardings.items():
            begin = len(self._part_features)
            self._part_features += sharding.feature_names()
            self._part_widths += sharding.uncombined_embedding_dims()
            joined = getattr(sharding, "joined", None)
            if joined is None:
                self._part_order += range(begin, len(self._part_features))
            else:
                self._part_order += [begin + at for parts in joined.places.values() for at in parts]
            facts = {}
            for info in self._sharding_infos[kind]:
                config = info.embedding_config
                mean = config.pooling == PoolingType.MEAN and sharding.sums_partial_bags
                for name, feature in zip(config.embedding_names, config.feature_names, strict=True):
                    facts[name] = (feature, mean)
            self._means.append([facts[name] for name in sharding.uncombined_embedding_names()])

    def _sharding_of(self, kind: str, infos: list[EmbeddingShardingInfo]) -> EmbeddingSharding[Any, Any, Any, Any]:
        return self.create_embedding_bag_sharding(
            infos, self._env, self._device, permute_embeddings=True, qcomm_codecs_registry=self.qcomm_codecs_registry
        )

    @classmethod
    def create_embedding_bag_sharding(
        cls,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        permute_embeddings: bool = False,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> EmbeddingSharding[EmbeddingShardingContext, KeyedJaggedTensor, Tensor, Tensor]:
        """The sharding of tables that are spread in one way.

        Args:
            sharding_infos: the tables.
            env: the processes.
            device: of this one.
            permute_embeddings: whether columns of tables that are spread by columns are joined.
            qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        """
        kind = sharding_infos[0].param_sharding.sharding_type
        if kind == ShardingType.DATA_PARALLEL.value:
            return DpPooledEmbeddingSharding(sharding_infos, env, device)
        if kind not in _SHARDINGS:
            raise OptionError(f"sharding_type is {kind!r}; choose one of {['data_parallel', *_SHARDINGS]}.")
        options: dict[str, Any] = {"permute_embeddings": permute_embeddings} if kind in _BY_COLUMNS else {}
        made: EmbeddingSharding[Any, Any, Any, Any] = _SHARDINGS[kind](
            sharding_infos, env, device, qcomm_codecs_registry=qcomm_codecs_registry, **options
        )
        return made

    @classmethod
    def create_grouped_sharding_infos(
        cls,
        module: EmbeddingBagCollectionInterface,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        prefix: str,
        fused_params: dict[str, Any] | None,
        suffix: str | None = "weight",
    ) -> dict[str, list[EmbeddingShardingInfo]]:
        """Tables by the way in which they are spread; see `create_sharding_infos_by_sharding_device_group`."""
        return _infos(module, table_name_to_parameter_sharding, prefix, fused_params, suffix)

    @staticmethod
    def extend_shard_name(shard_name: str) -> str:
        """The name of a table's parameter."""
        return f"embedding_bags.{shard_name}.weight"

    # ----- stages -----------------------------------------------------------------------------------------------------

    def create_context(self) -> EmbeddingBagCollectionContext:
        """What the stages of one batch share."""
        return EmbeddingBagCollectionContext()

    def input_dist(
        self, ctx: EmbeddingBagCollectionContext, features: KeyedJaggedTensor
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send features.

        Args:
            ctx: of the batch.
            features: of the local batch; those of no table are left out.

        Raises:
            IdOutOfBoundsError: an id that its table has no row for, with the feature's name.
            OptionError: a feature is missing, or batches of features' own come without inverse indices.
        """
        features = features_of(features)
        ctx.variable_batch_per_feature = features.variable_stride_per_key()
        ctx.inverse_indices = features.inverse_indices_or_none()
        if ctx.variable_batch_per_feature and ctx.inverse_indices is None:
            raise OptionError(
                "features have batches of their own, and no inverse_indices say which of a feature's examples each "
                "example of the full batch has."
            )
        self._init_input_dists(features.keys())
        with torch.no_grad():
            ordered = within_bounds(self._ordered(features), self._feature_bounds)
            awaitables = []
            parts = ordered.split(self._feature_splits)
            for kind, dist, part, means in zip(
                self._sharding_types, self._input_dists, parts, self._means, strict=True
            ):
                with maybe_annotate_embedding_event(EmbeddingEvent.KJT_SPLITS_DIST, self._module_fqn, kind):
                    awaitables.append(dist(part))
                ctx.sharding_contexts.append(
                    EmbeddingShardingContext(
                        batch_size_per_feature_pre_a2a=part.stride_per_key(),
                        variable_batch_per_feature=part.variable_stride_per_key(),
                    )
                )
                ctx.factors.append(self._factor(self.shardings[kind], part, means))
            return KJTListSplitsAwaitable(awaitables, ctx, self._module_fqn, self._sharding_types)

    def _factor(self, sharding: Any, features: KeyedJaggedTensor, means: list[tuple[str, bool]]) -> Tensor | None:
        """What a sharding's result is multiplied by: 1 / ids of the whole bag, where bags are averaged."""
        if not any(mean for _, mean in means):
            return None
        lengths = features.lengths().view(-1).split(features.stride_per_key())
        parts = []
        for of_feature, (_, mean), width in zip(lengths, means, sharding.uncombined_embedding_dims(), strict=True):
            share = 1.0 / of_feature.clamp(min=1) if mean else torch.ones_like(of_feature, dtype=torch.float32)
            parts.append(share.unsqueeze(1).expand(-1, width))
        if features.variable_stride_per_key():
            return torch.cat([part.reshape(-1) for part in parts])
        joined = getattr(sharding, "joined", None)
        order = range(len(parts)) if joined is None else [at for of_one in joined.places.values() for at in of_one]
        return torch.cat([parts[at] for at in order], dim=1)

    def compute(self, ctx: EmbeddingBagCollectionContext, dist_input: KJTList) -> list[Tensor]:
        """Look up what all processes asked this one for."""
        found = []
        for kind, lookup, features in zip(self._sharding_types, self._lookups, dist_input, strict=True):
            with maybe_annotate_embedding_event(EmbeddingEvent.LOOKUP, self._module_fqn, kind):
                pooled = lookup(features)
            if self.post_lookup_tracker_fn is not None:
                self.post_lookup_tracker_fn(features, pooled, self, None)
            found.append(pooled)
        return found

    def output_dist(self, ctx: EmbeddingBagCollectionContext, output: list[Tensor]) -> LazyAwaitable[KeyedTensor]:
        """Start to send pooled rows back."""
        awaitables = []
        for dist, sharding_ctx, pooled in zip(self._output_dists, ctx.sharding_contexts, output, strict=True):
            awaitables.append(dist(pooled, sharding_ctx))
        return self._results(ctx, awaitables)

    def compute_and_output_dist(self, ctx: EmbeddingBagCollectionContext, input: KJTList) -> LazyAwaitable[KeyedTensor]:
        """Look up one sharding after another, and start to send each one's results at once."""
        awaitables = []
        stages = zip(self._sharding_types, self._lookups, self._output_dists, ctx.sharding_contexts, input, strict=True)
        for kind, lookup, dist, sharding_ctx, features in stages:
            with maybe_annotate_embedding_event(EmbeddingEvent.LOOKUP, self._module_fqn, kind):
                pooled = lookup(features)
            if self.post_lookup_tracker_fn is not None:
                self.post_lookup_tracker_fn(features, pooled, self, None)
            with maybe_annotate_embedding_event(EmbeddingEvent.OUTPUT_DIST, self._module_fqn, kind):
                awaitables.append(dist(pooled, sharding_ctx))
        return self._results(ctx, awaitables)

    def _results(
        self, ctx: EmbeddingBagCollectionContext, awaitables: list[Awaitable[Tensor]]
    ) -> LazyAwaitable[KeyedTensor]:
        for awaitable, factor in zip(awaitables, ctx.factors, strict=True):
            if factor is not None:
                awaitable.callbacks.append(lambda pooled, factor=factor: pooled * factor.to(pooled.dtype))  # type: ignore[misc]
        if self.post_odist_tracker_fn is not None:
            self.post_odist_tracker_fn()
        if not ctx.variable_batch_per_feature:
            return EmbeddingBagCollectionAwaitable(
                awaitables, self._embedding_dims, self._embedding_names, self._module_fqn, self._sharding_types
            )
        assert ctx.inverse_indices is not None
        return VariableBatchEmbeddingBagCollectionAwaitable(
            awaitables,
            ctx.inverse_indices,
            self._part_widths,
            [size for one in ctx.sharding_contexts if one is not None for size in one.batch_size_per_feature_pre_a2a],
            self._part_features,
            self._part_order,
            self._embedding_names,
            self._embedding_dims,
            self._module_fqn,
            self._sharding_types,
        )

    # ----- other plans ------------------------------------------------------------------------------------------------

    def update_shards(
        self,
        changed_sharding_params: EmbeddingModuleShardingPlan,
        env: ShardingEnv,
        device: torch.device | None,
    ) -> None:
        """Move tables to where a new plan wants them, with what optimizers keep of them.

        Args:
            changed_sharding_params: where tables go that are not there yet; the others stay.
            env: the processes, all of which have to call this.
            device: of this process.
        """
        plan = EmbeddingModuleShardingPlan({**self.module_sharding_plan, **changed_sharding_params})
        source = _Source(self._embedding_bag_configs, self._is_weighted, self._all_infos())
        made = ShardedEmbeddingBagCollection(
            source, plan, env, self._fused_params, device if device is not None else self._device,
            qcomm_codecs_registry=self.qcomm_codecs_registry, module_fqn=self._module_fqn,
        )  # fmt: skip
        redistributed(self, made)
        made.train(self.training)
        self.__dict__.update(made.__dict__)
        # Hooks of the new one are bound to it.
        self._state_dict_hooks.clear()
        self._load_state_dict_pre_hooks.clear()
        self._register_state_dict_hook(self._whole_tables)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(self._parts_of_tables)  # type: ignore[no-untyped-call]

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables."""
        return self._embedding_bag_configs

    def is_weighted(self) -> bool:
        """Whether the weights of features are used."""
        return self._is_weighted

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`EmbeddingBagCollection`."""
        return EmbeddingBagCollection


class _Source(EmbeddingBagCollectionInterface):
    """The collection that a sharded one was made of, without weights."""

    def __init__(self, tables: list[EmbeddingBagConfig], is_weighted: bool, infos: list[EmbeddingShardingInfo]) -> None:
        super().__init__()
        self._tables, self._weighted = tables, is_weighted
        self.embedding_bags = nn.ModuleDict()
        for info in infos:
            holder = nn.Module()
            weight = nn.Parameter(torch.empty(info.param.shape, dtype=info.param.dtype, device="meta"))
            for name in ("_optimizer_classes", "_optimizer_kwargs"):
                if hasattr(info.param, name):
                    setattr(weight, name, getattr(info.param, name))
            holder.register_parameter("weight", weight)
            self.embedding_bags[info.embedding_config.name] = holder

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        raise OptionError("this collection has no weights to look up.")

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        return self._tables

    def is_weighted(self) -> bool:
        return self._weighted


def features_of(features: Any) -> KeyedJaggedTensor:
    # Awaitables of features, too, as pipelines hand on.
    features = LazyAwaitable._wait_async(features)
    if isinstance(features, KeyedJaggedTensor):
        return features
    raise OptionError(f"features is a {type(features).__name__}, expected a KeyedJaggedTensor.")


class ShardedEmbeddingBag(ShardedEmbeddingModule[Any, Any, Any, Any], FusedOptimizerModule):
    """A `torch.nn.EmbeddingBag` whose table is spread over processes.

    Args:
        module: the table; "sum" or "mean" of each bag.
        table_name_to_parameter_sharding: where it goes, under the name "weight".
        env: the processes.
        fused_params: options of the kernel.
        device: of this process.
    """

    def __init__(
        self,
        module: nn.EmbeddingBag,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        if len(table_name_to_parameter_sharding) != 1:
            raise OptionError(f"the plan has {sorted(table_name_to_parameter_sharding)}; expected one table, 'weight'.")
        modes = {"sum": PoolingType.SUM, "mean": PoolingType.MEAN}
        if module.mode not in modes or module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
            raise OptionError(
                f"{module} cannot be sharded: expected mode 'sum' or 'mean', and neither max_norm, scale_grad_by_freq "
                "nor sparse."
            )
        if module.padding_idx is not None:
            raise OptionError(f"padding_idx is {module.padding_idx}; kernels of sharded tables have none.")
        config = EmbeddingBagConfig(
            num_embeddings=module.num_embeddings,
            embedding_dim=module.embedding_dim,
            name=self._name,
            feature_names=[self._name],
            pooling=modes[module.mode],
        )
        collection = EmbeddingBagCollection([config], is_weighted=module.mode == "sum", device=torch.device("meta"))
        collection.embedding_bags[self._name] = module
        sharding = next(iter(table_name_to_parameter_sharding.values()))
        # No submodule: its parameter is this module's "weight".
        self._collection = [
            ShardedEmbeddingBagCollection(collection, {self._name: sharding}, env, fused_params, device)
        ]
        self._include_last_offset = module.include_last_offset
        self._mode = module.mode
        self.register_parameter("weight", self._inner.embedding_bags[self._name].weight)
        self._register_state_dict_hook(self._whole)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(self._part)  # type: ignore[no-untyped-call]

    _name = "table"

    @classmethod
    def create_embedding_bag_sharding(
        cls,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        permute_embeddings: bool = False,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> EmbeddingSharding[EmbeddingShardingContext, KeyedJaggedTensor, Tensor, Tensor]:
        """The sharding of tables that are spread in one way.

        See `ShardedEmbeddingBagCollection.create_embedding_bag_sharding`.
        """
        return ShardedEmbeddingBagCollection.create_embedding_bag_sharding(
            sharding_infos, env, device, permute_embeddings, qcomm_codecs_registry
        )

    @property
    def _inner(self) -> Any:
        return self._collection[0]

    def _whole(self, module: nn.Module, destination: dict[str, Any], prefix: str, _: Any) -> None:
        if f"{prefix}weight" in destination:
            destination[f"{prefix}weight"] = self._inner.state_dict()[f"embedding_bags.{self._name}.weight"]

    def _part(self, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        if f"{prefix}weight" in state_dict:
            inside = {f"embedding_bags.{self._name}.weight": state_dict[f"{prefix}weight"]}
            self._inner._parts_of_tables(inside, "")
            state_dict[f"{prefix}weight"] = inside[f"embedding_bags.{self._name}.weight"]

    def create_context(self) -> Any:
        """What the stages of one batch share."""
        return self._inner.create_context()

    def input_dist(
        self, ctx: Any, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send ids.

        Args:
            ctx: of the batch.
            input: (L,), or (examples, ids of each).
            offsets: (examples,), where each bag begins, for an input of one dimension.
            per_sample_weights: of the input's shape: a factor for each id.
        """
        if input.dim() == 2:
            if offsets is not None:
                raise OptionError("offsets are for an input of one dimension; this one has two.")
            offsets = torch.arange(0, input.numel() + 1, max(input.shape[1], 1), device=input.device)
        elif offsets is None:
            raise OptionError("an input of one dimension needs offsets: where each bag begins.")
        elif not self._include_last_offset:
            offsets = torch.cat([offsets, offsets.new_tensor([input.numel()])])
        weights = per_sample_weights
        if weights is None and self._mode == "sum":
            weights = torch.ones(input.numel(), device=input.device)
        features = KeyedJaggedTensor(
            [self._name],
            input.reshape(-1),
            None if weights is None else weights.reshape(-1),
            offsets=offsets,
        )
        return self._inner.input_dist(ctx, features)  # type: ignore[no-any-return]

    def compute(self, ctx: Any, dist_input: KJTList) -> list[Tensor]:
        """Look up what all processes asked this one for."""
        return self._inner.compute(ctx, dist_input)  # type: ignore[no-any-return]

    def output_dist(self, ctx: Any, output: list[Tensor]) -> LazyAwaitable[Tensor]:
        """Start to send pooled rows back."""
        return EmbeddingAwaitable(_Values(self._inner.output_dist(ctx, output)))

    @property
    def fused_optimizer(self) -> KeyedOptimizer:
        """What the kernel trains the table by."""
        return self._inner.fused_optimizer  # type: ignore[no-any-return]

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`torch.nn.EmbeddingBag`."""
        return nn.EmbeddingBag


class _Values(Awaitable[Tensor]):
    """The values of a keyed tensor that is under way."""

    def __init__(self, whole: Awaitable[KeyedTensor]) -> None:
        super().__init__()
        self._whole = whole

    def _wait_impl(self) -> Tensor:
        return self._whole.wait().values()

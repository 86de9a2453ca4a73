"""Collections of quantized embeddings, a row for each id, over the devices of one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed._quant_sharding import (
    ShardingKey,
    check_scales,
    environment,
    get_device_for_first_shard_from_sharding_infos,
    get_device_from_parameter_sharding,
    get_device_from_sharding_infos,
    infos_by_device_group,
)
from flambeau.rec.distributed.embedding_sharding import EmbeddingSharding, EmbeddingShardingInfo
from flambeau.rec.distributed.embedding_types import (
    BaseQuantEmbeddingSharder,
    FeatureShardingMixIn,
    GroupedEmbeddingConfig,
    InputDistOutputs,
    KJTList,
    ListOfKJTList,
)
from flambeau.rec.distributed.fused_params import (
    FUSED_PARAM_IS_SSD_TABLE,
    FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
    FUSED_PARAM_REGISTER_TBE_BOOL,
    get_tbes_to_register_from_iterable,
    is_fused_param_quant_state_dict_split_scale_bias,
    is_fused_param_register_tbe,
)
from flambeau.rec.distributed.quant_embeddingbag import Env, flatten_feature_lengths, in_order, with_output_type
from flambeau.rec.distributed.quant_state import ShardedQuantEmbeddingModuleState
from flambeau.rec.distributed.sharding.cw_sequence_sharding import InferCwSequenceEmbeddingSharding
from flambeau.rec.distributed.sharding.rw_sequence_sharding import InferRwSequenceEmbeddingSharding
from flambeau.rec.distributed.sharding.sequence_sharding import InferSequenceShardingContext
from flambeau.rec.distributed.sharding.tw_sequence_sharding import InferTwSequenceEmbeddingSharding
from flambeau.rec.distributed.types import (
    EmbeddingModuleShardingPlan,
    ParameterSharding,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.modules.embedding_configs import EmbeddingConfig
from flambeau.rec.quant.embedding_modules import (
    MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
)
from flambeau.rec.quant.embedding_modules import (
    EmbeddingCollection as QuantEmbeddingCollection,
)
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable

if TYPE_CHECKING:
    from flambeau.rec.distributed._quant_managed_collisions import (
        ManagedCollisionEmbeddingCollectionContext,
        QuantManagedCollisionEmbeddingCollectionSharder,
        ShardedMCECLookup,
        ShardedQuantManagedCollisionEmbeddingCollection,
    )

__all__ = [
    "FUSED_PARAM_IS_SSD_TABLE",
    "FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS",
    "FUSED_PARAM_REGISTER_TBE_BOOL",
    "MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS",
    "EmbeddingCollectionContext",
    "ManagedCollisionEmbeddingCollectionContext",
    "QuantEmbeddingCollectionSharder",
    "QuantManagedCollisionEmbeddingCollectionSharder",
    "ShardedMCECLookup",
    "ShardedQuantEcInputDist",
    "ShardedQuantEmbeddingCollection",
    "ShardedQuantManagedCollisionEmbeddingCollection",
    "annotate_embedding_names",
    "create_infer_embedding_sharding",
    "format_embedding_names_per_rank_per_sharding",
    "get_device_for_first_shard_from_sharding_infos",
    "get_device_from_parameter_sharding",
    "get_device_from_sharding_infos",
    "input_dist_permute",
]

SequenceSharding = EmbeddingSharding[InferSequenceShardingContext, InputDistOutputs, list[Tensor], list[Tensor]]


@dataclass
class EmbeddingCollectionContext(Multistreamable):
    """What the stages of one batch share.

    Args:
        sharding_contexts: of each sharding.
    """

    sharding_contexts: list[InferSequenceShardingContext] = field(default_factory=list)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for ctx in self.sharding_contexts:
            ctx.record_stream(stream)


def create_infer_embedding_sharding(
    sharding_type: str,
    sharding_infos: list[EmbeddingShardingInfo],
    env: ShardingEnv,
    device: torch.device | None = None,
) -> SequenceSharding:
    """The sharding of quantized tables that are spread in one way, a row for each id.

    Args:
        sharding_type: table-wise, column-wise or row-wise.
        sharding_infos: the tables.
        env: the devices.
        device: where results come together.

    Raises:
        ValueError: another way.
    """
    made: Any
    if sharding_type == ShardingType.TABLE_WISE.value:
        kind = get_device_for_first_shard_from_sharding_infos(sharding_infos)
        made = InferTwSequenceEmbeddingSharding(
            sharding_infos, env, device, storage_device_type_from_sharding_infos=kind
        )
    elif sharding_type == ShardingType.COLUMN_WISE.value:
        made = InferCwSequenceEmbeddingSharding(sharding_infos, env, device)
    elif sharding_type == ShardingType.ROW_WISE.value:
        kinds = get_device_from_sharding_infos(sharding_infos)
        made = InferRwSequenceEmbeddingSharding(sharding_infos, env, device, device_type_from_sharding_infos=kinds)
    else:
        raise ValueError(
            f"sharding_type is {sharding_type!r}, expected table_wise, column_wise or row_wise: quantized tables are "
            "spread over devices of one process."
        )
    return made  # type: ignore[no-any-return]


def annotate_embedding_names(embedding_names: list[str], dummy: list[list[Tensor]]) -> list[str]:
    """The names, as they are: a mark that traces of models keep.

    Args:
        embedding_names: of results.
        dummy: what the names depend on in traces.
    """
    return [str(name) for name in embedding_names]


def format_embedding_names_per_rank_per_sharding(
    embedding_names_per_rank_per_sharding: list[list[list[str]]], dummy: list[list[Tensor]]
) -> list[list[list[str]]]:
    """The names, as they are, by sharding and device: a mark that traces of models keep."""
    return [
        [annotate_embedding_names(names, dummy) for names in per_rank]
        for per_rank in embedding_names_per_rank_per_sharding
    ]


def input_dist_permute(
    features: KeyedJaggedTensor, features_order: list[int], features_order_tensor: Tensor
) -> KeyedJaggedTensor:
    """Features in another order.

    Args:
        features: of a batch.
        features_order: which of them.
        features_order_tensor: the same on their device.
    """
    return features.permute(features_order, features_order_tensor)


class ShardedQuantEcInputDist(nn.Module):
    """Gives the devices of each sharding the features that they look up.

    Args:
        input_feature_names: features of batches, in their order.
        sharding_type_device_group_to_sharding: the shardings.
        device: where results come together.
        feature_device: where batches are.
    """

    def __init__(
        self,
        input_feature_names: list[str],
        sharding_type_device_group_to_sharding: dict[ShardingKey, SequenceSharding],
        device: torch.device | None = None,
        feature_device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self._feature_device = feature_device
        shardings = list(sharding_type_device_group_to_sharding.values())
        self._names = [name for sharding in shardings for name in sharding.feature_names()]
        self._splits = [len(sharding.feature_names()) for sharding in shardings]
        self._input_feature_names = input_feature_names
        self._input_dists = nn.ModuleList(sharding.create_input_dist(device) for sharding in shardings)

    def forward(
        self, features: KeyedJaggedTensor
    ) -> tuple[
        list[KJTList],
        list[KeyedJaggedTensor],
        list[Tensor | None],
        list[Tensor | None],
        list[Tensor | None],
    ]:
        """By sharding: features of each device, there; those features before they were cut; and of ids that were sorted
        by device, where each went, its device, and how many there are of each bag.

        Args:
            features: with all features of the tables, in any order; others are left out.

        Raises:
            ValueError: a feature is missing.
        """
        parts = in_order(flatten_feature_lengths(features), self._names).split(self._splits)
        given = [dist(part) for dist, part in zip(self._input_dists, parts, strict=True)]
        return (
            [one.features for one in given],
            parts,
            [one.unbucketize_permute_tensor for one in given],
            [one.bucket_mapping_tensor for one in given],
            [one.bucketized_length for one in given],
        )


class ShardedQuantEmbeddingCollection(ShardedQuantEmbeddingModuleState):
    """A quantized `EmbeddingCollection` whose tables are spread over the devices of one process.

    Args:
        module: the quantized collection; where it has values they are taken over.
        table_name_to_parameter_sharding: where each table goes.
        env: the devices, or those of each kind.
        fused_params: options of kernels, by the names in `fused_params`.
        device: where results come together; "meta" keeps shapes alone.

    Raises:
        AssertionError: tables are cut by rows or columns while their scales and biases are inside of the rows; it is a
            ValueError too.
    """

    def __init__(
        self,
        module: QuantEmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: Env,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self._embedding_configs: list[EmbeddingConfig] = module.embedding_configs()
        self._need_indices: bool = module.need_indices()
        self._embedding_dim: int = module.embedding_dim()
        self._device = None if device is None else torch.device(device)
        state = module.state_dict()
        weights = {table.name: state[f"embeddings.{table.name}.weight"] for table in self._embedding_configs}
        self._sharding_type_device_group_to_sharding_infos = infos_by_device_group(
            self._embedding_configs, weights, table_name_to_parameter_sharding, fused_params, pooled=False
        )
        self._sharding_type_device_group_to_sharding: dict[ShardingKey, Any] = {
            key: create_infer_embedding_sharding(key[0], infos, environment(env, infos), self._device)
            for key, infos in self._sharding_type_device_group_to_sharding_infos.items()
        }
        shardings = list(self._sharding_type_device_group_to_sharding.values())
        self._embedding_names_per_rank_per_sharding = [sharding.embedding_names_per_rank() for sharding in shardings]
        self._lookups = [sharding.create_lookup(self._device, fused_params) for sharding in shardings]
        self._output_dists: Any = nn.ModuleList(sharding.create_output_dist(self._device) for sharding in shardings)
        self._tbes_configs = get_tbes_to_register_from_iterable(self._lookups)
        if is_fused_param_register_tbe(fused_params):
            self.tbes = nn.ModuleList(self._tbes_configs.keys())
        check_scales(table_name_to_parameter_sharding, fused_params)
        self._initialize_torch_state(
            self._tbes_configs,
            table_name_to_parameter_sharding,
            "embeddings",
            names=[table.name for table in self._embedding_configs],
            split_scale_bias=is_fused_param_quant_state_dict_split_scale_bias(fused_params),
        )
        self._take_over(state)
        names = [name for table in self._embedding_configs for name in table.feature_names]
        self._input_dist = ShardedQuantEcInputDist(names, self._sharding_type_device_group_to_sharding, self._device)

    def tbes_configs(self) -> dict[IntNBitTableBatchedEmbeddingBagsCodegen, GroupedEmbeddingConfig]:
        """The kernels, and the tables of each."""
        return self._tbes_configs

    def sharding_type_device_group_to_sharding_infos(self) -> dict[ShardingKey, list[EmbeddingShardingInfo]]:
        """Tables by the way in which they are spread, and by the devices they are on."""
        return self._sharding_type_device_group_to_sharding_infos

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The tables, as they were given."""
        return self._embedding_configs

    def input_dist(self, ctx: EmbeddingCollectionContext, features: KeyedJaggedTensor) -> list[KJTList]:  # type: ignore[override]
        """Features of each device, there, by sharding; notes in `ctx` what puts rows into order again.

        Args:
            ctx: of the batch.
            features: with all features of the tables, in any order; others are left out.

        Raises:
            ValueError: a feature is missing.
        """
        given = self._input_dist(features)
        for each in zip(*given, self._embedding_names_per_rank_per_sharding, strict=True):
            ctx.sharding_contexts.append(InferSequenceShardingContext(*each))
        found: list[KJTList] = given[0]
        return found

    def compute(self, ctx: EmbeddingCollectionContext, dist_input: ListOfKJTList) -> list[list[Tensor]]:
        """What each device finds, by sharding: (ids, columns)."""
        pairs = zip(self._lookups, dist_input, strict=True)
        return [lookup(InputDistOutputs(features=features)) for lookup, features in pairs]

    def output_dist(self, ctx: EmbeddingCollectionContext, output: list[list[Tensor]]) -> dict[str, JaggedTensor]:  # type: ignore[override]
        """All results in one place."""
        contexts = ctx.sharding_contexts
        found = [
            dist(parts, context) for dist, parts, context in zip(self._output_dists, output, contexts, strict=True)
        ]
        return self.output_jt_dict(
            found,
            [context.features for context in contexts],
            [context.features_before_input_dist for context in contexts],  # type: ignore[misc]
            [context.unbucketize_permute_tensor for context in contexts],
            [context.bucket_mapping_tensor for context in contexts],
            [context.bucketized_length for context in contexts],
        )

    def output_jt_dict(
        self,
        emb_per_sharding: list[list[Tensor]],
        features_per_sharding: list[KJTList],
        features_before_input_dist_per_sharding: list[KeyedJaggedTensor],
        unbucketize_tensors: list[Tensor | None],
        bucket_mapping_tensors: list[Tensor | None],
        bucketized_lengths: list[Tensor | None],
    ) -> dict[str, JaggedTensor]:
        """Rows by name.

        Args:
            emb_per_sharding: of each sharding, (ids, columns) of each device.
            features_per_sharding: of each sharding, features of each device.
            features_before_input_dist_per_sharding: of each sharding, its features before they were cut.
            unbucketize_tensors: of each sharding by rows, place of each id among those of all devices.
            bucket_mapping_tensors: of each sharding by rows, device of each id.
            bucketized_lengths: of each sharding by rows, ids of each bag and device.
        """
        found: dict[str, JaggedTensor] = {}
        shardings = self._sharding_type_device_group_to_sharding.values()
        for at, sharding in enumerate(shardings):
            rows, before = emb_per_sharding[at], features_before_input_dist_per_sharding[at]
            places = unbucketize_tensors[at]
            if places is not None:
                whole = torch.cat(rows).index_select(0, places.to(rows[0].device).long())
                found |= self._by_name([whole], [before], [sharding.embedding_names()])
            elif hasattr(sharding, "joined"):
                found |= self._with_all_columns(sharding, rows, list(features_per_sharding[at]))
            else:
                names = self._embedding_names_per_rank_per_sharding[at]
                found |= self._by_name(rows, list(features_per_sharding[at]), names)
        return found

    def _by_name(
        self, rows: list[Tensor], features: list[KeyedJaggedTensor], names: list[list[str]]
    ) -> dict[str, JaggedTensor]:
        """Rows of each device, feature by feature."""
        found: dict[str, JaggedTensor] = {}
        for part, kjt, own in zip(rows, features, names, strict=True):
            if own:
                found |= dict(zip(own, self._cut(part, kjt), strict=True))
        return found

    def _cut(self, rows: Tensor, kjt: KeyedJaggedTensor) -> list[JaggedTensor]:
        """(ids, columns) by feature, where results are."""
        home = rows.device
        counts = kjt.length_per_key()
        lengths = kjt.lengths().view(len(kjt.keys()), -1).to(home)
        ids = kjt.values().to(home).split(counts) if self._need_indices else [None] * len(counts)
        return [
            JaggedTensor(part, weights=own, lengths=length)
            for part, own, length in zip(rows.split(counts), ids, lengths, strict=True)
        ]

    def _with_all_columns(
        self, sharding: Any, rows: list[Tensor], features: list[KeyedJaggedTensor]
    ) -> dict[str, JaggedTensor]:
        """Rows whose columns come from several devices, side by side in the order in which they are in the table."""
        parts = [cut for part, kjt in zip(rows, features, strict=True) if kjt.keys() for cut in self._cut(part, kjt)]
        found = {}
        for name, places in sharding.joined.places.items():
            first = parts[places[0]]
            values = torch.cat([parts[at].values() for at in places], 1)
            found[name] = JaggedTensor(values, weights=first.weights_or_none(), lengths=first.lengths())
        return found

    def compute_and_output_dist(  # type: ignore[override]
        self, ctx: EmbeddingCollectionContext, input: ListOfKJTList
    ) -> dict[str, JaggedTensor]:
        """`compute`, then `output_dist`."""
        return self.output_dist(ctx, self.compute(ctx, input))

    def forward(self, *input: Any, **kwargs: Any) -> dict[str, JaggedTensor]:  # type: ignore[override]
        """Embeddings of all ids.

        Args:
            *input: (`KeyedJaggedTensor`,) with all features of the tables, in any order; others are left out.
            **kwargs: the same by name, `features`.

        Returns:
            By feature, `<feature>@<table>` where several tables read one: (ids, columns), with the features' lengths.

        Raises:
            ValueError: a feature is missing.
        """
        ctx = self.create_context()
        return self.compute_and_output_dist(ctx, self.input_dist(ctx, *input, **kwargs))  # type: ignore[arg-type]

    def create_context(self) -> EmbeddingCollectionContext:
        """What the stages of one batch share."""
        return EmbeddingCollectionContext(sharding_contexts=[])

    def copy(self, device: torch.device) -> nn.Module:
        """The module itself, with results on another device; tables stay where they are.

        Args:
            device: where results come together.
        """
        self._device = torch.device(device)
        for dist in self._output_dists:
            (dist._device_dist if hasattr(dist, "_device_dist") else dist._dist).set_device(str(device))
        return self

    @property
    def shardings(self) -> dict[ShardingKey, FeatureShardingMixIn]:  # type: ignore[override]
        """Each sharding, by its type and devices."""
        return self._sharding_type_device_group_to_sharding

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """The class of which this is the sharded form."""
        return QuantEmbeddingCollection


class QuantEmbeddingCollectionSharder(BaseQuantEmbeddingSharder[QuantEmbeddingCollection]):
    """Spreads quantized `EmbeddingCollection`s over the devices of one process.

    Args:
        fused_params: options of kernels.
        shardable_params: the tables that may be spread; all by default.
    """

    def shard(
        self,
        module: QuantEmbeddingCollection,
        params: EmbeddingModuleShardingPlan | dict[str, ParameterSharding],
        env: Env,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedQuantEmbeddingCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        options = with_output_type(self.fused_params, module.output_dtype())
        return ShardedQuantEmbeddingCollection(module, dict(params), env, options, device)

    @property
    def module_type(self) -> type[QuantEmbeddingCollection]:
        """Quantized `EmbeddingCollection`."""
        return QuantEmbeddingCollection


# Collections that map ids are built on this one.
_MAPPING = (
    "ManagedCollisionEmbeddingCollectionContext",
    "QuantManagedCollisionEmbeddingCollectionSharder",
    "ShardedMCECLookup",
    "ShardedQuantManagedCollisionEmbeddingCollection",
)


def __getattr__(name: str) -> Any:
    if name not in _MAPPING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flambeau.rec.distributed import _quant_managed_collisions

    return getattr(_quant_managed_collisions, name)

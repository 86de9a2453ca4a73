"""Collections of pooled quantized embeddings over the devices of one process."""

from __future__ import annotations

import copy
from collections.abc import Mapping
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
from flambeau.rec.distributed.embeddingbag import construct_output_kt
from flambeau.rec.distributed.fused_params import (
    FUSED_PARAM_IS_SSD_TABLE,
    FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
    FUSED_PARAM_REGISTER_TBE_BOOL,
    get_tbes_to_register_from_iterable,
    is_fused_param_quant_state_dict_split_scale_bias,
    is_fused_param_register_tbe,
)
from flambeau.rec.distributed.quant_state import ShardedQuantEmbeddingModuleState
from flambeau.rec.distributed.sharding.cw_sharding import InferCwPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.rw_sharding import InferRwPooledEmbeddingSharding
from flambeau.rec.distributed.sharding.tw_sharding import InferTwEmbeddingSharding
from flambeau.rec.distributed.types import (
    EmbeddingModuleShardingPlan,
    NullShardedModuleContext,
    NullShardingContext,
    ParameterSharding,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollectionInterface
from flambeau.rec.modules.feature_processor_ import FeatureProcessorsCollection
from flambeau.rec.quant._tables import output_type
from flambeau.rec.quant.embedding_modules import (
    MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
)
from flambeau.rec.quant.embedding_modules import (
    EmbeddingBagCollection as QuantEmbeddingBagCollection,
)
from flambeau.rec.quant.embedding_modules import (
    FeatureProcessedEmbeddingBagCollection as QuantFeatureProcessedEmbeddingBagCollection,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

if TYPE_CHECKING:
    from flambeau.rec.distributed._quant_managed_collisions import (
        QuantManagedCollisionEmbeddingBagCollectionSharder,
        ShardedMCEBCLookup,
        ShardedQuantManagedCollisionEmbeddingBagCollection,
    )

__all__ = [
    "FUSED_PARAM_IS_SSD_TABLE",
    "FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS",
    "FUSED_PARAM_REGISTER_TBE_BOOL",
    "MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS",
    "QuantEmbeddingBagCollectionSharder",
    "QuantFeatureProcessedEmbeddingBagCollectionSharder",
    "QuantManagedCollisionEmbeddingBagCollectionSharder",
    "ShardedMCEBCLookup",
    "ShardedQuantEbcInputDist",
    "ShardedQuantEmbeddingBagCollection",
    "ShardedQuantFeatureProcessedEmbeddingBagCollection",
    "ShardedQuantManagedCollisionEmbeddingBagCollection",
    "create_infer_embedding_bag_sharding",
    "flatten_feature_lengths",
    "get_device_for_first_shard_from_sharding_infos",
    "get_device_from_parameter_sharding",
    "get_device_from_sharding_infos",
]

Env = ShardingEnv | Mapping[str, ShardingEnv]
PooledSharding = EmbeddingSharding[NullShardingContext, InputDistOutputs, list[Tensor], Tensor]


def create_infer_embedding_bag_sharding(
    sharding_type: str,
    sharding_infos: list[EmbeddingShardingInfo],
    env: ShardingEnv,
    device: torch.device | None = None,
) -> PooledSharding:
    """The sharding of pooled quantized tables that are spread in one way.

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
        made = InferTwEmbeddingSharding(sharding_infos, env, device)
    elif sharding_type == ShardingType.COLUMN_WISE.value:
        made = InferCwPooledEmbeddingSharding(sharding_infos, env, device, permute_embeddings=True)
    elif sharding_type == ShardingType.ROW_WISE.value:
        made = InferRwPooledEmbeddingSharding(sharding_infos, env, device)
    else:
        raise ValueError(
            f"sharding_type is {sharding_type!r}, expected table_wise, column_wise or row_wise: quantized tables are "
            "spread over devices of one process."
        )
    return made  # type: ignore[no-any-return]


def flatten_feature_lengths(features: KeyedJaggedTensor) -> KeyedJaggedTensor:
    """Features whose lengths are one-dimensional, whatever theirs are."""
    if features.lengths().dim() == 1:
        return features
    return KeyedJaggedTensor(
        features.keys(), features.values(), features.weights_or_none(), lengths=features.lengths().view(-1)
    )


class ShardedQuantEbcInputDist(nn.Module):
    """Gives the devices of each sharding the features that they look up.

    Args:
        sharding_type_device_group_to_sharding: the shardings.
        device: where results come together.
    """

    def __init__(
        self,
        sharding_type_device_group_to_sharding: dict[ShardingKey, PooledSharding],
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        shardings = list(sharding_type_device_group_to_sharding.values())
        self._names = [name for sharding in shardings for name in sharding.feature_names()]
        self._splits = [len(sharding.feature_names()) for sharding in shardings]
        # A list: what is a submodule would put buffers of sizes into the model.
        self._input_dists = [sharding.create_input_dist(device) for sharding in shardings]

    def forward(self, features: KeyedJaggedTensor) -> ListOfKJTList:
        """Features of each device, there, by sharding.

        Args:
            features: with all features of the tables, in any order; others are left out.

        Raises:
            ValueError: a feature is missing.
        """
        parts = in_order(flatten_feature_lengths(features), self._names).split(self._splits)
        given = [dist(part) for dist, part in zip(self._input_dists, parts, strict=True)]
        return ListOfKJTList([one.features for one in given])


def in_order(features: KeyedJaggedTensor, names: list[str]) -> KeyedJaggedTensor:
    """Features by name, in the order of the names; one may come several times."""
    keys = features.keys()
    if keys == names:
        return features
    if missing := sorted(set(names) - set(keys)):
        raise OptionError(f"the batch has no features {missing}; it has {keys}.")
    return features.permute([keys.index(name) for name in names])


class ShardedQuantEmbeddingBagCollection(ShardedQuantEmbeddingModuleState):
    """A quantized `EmbeddingBagCollection` whose tables are spread over the devices of one process.

    Results come in the order of shardings, and within them of devices; they are found by name. Where the collection has
    values they are taken over.

    Args:
        module: the quantized collection.
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
        module: EmbeddingBagCollectionInterface,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: Env,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self._embedding_bag_configs: list[EmbeddingBagConfig] = module.embedding_bag_configs()
        self._is_weighted: bool = module.is_weighted()
        self._device = None if device is None else torch.device(device)
        state = module.state_dict()
        weights = {table.name: state[f"embedding_bags.{table.name}.weight"] for table in self._embedding_bag_configs}
        self._sharding_type_device_group_to_sharding_infos = infos_by_device_group(
            self._embedding_bag_configs,
            weights,
            table_name_to_parameter_sharding,
            fused_params,
            pooled=True,
            is_weighted=self._is_weighted,
        )
        self._sharding_type_device_group_to_sharding: dict[ShardingKey, Any] = {
            key: create_infer_embedding_bag_sharding(key[0], infos, environment(env, infos), self._device)
            for key, infos in self._sharding_type_device_group_to_sharding_infos.items()
        }
        shardings = list(self._sharding_type_device_group_to_sharding.values())
        self._embedding_dims = [width for sharding in shardings for width in sharding.embedding_dims()]
        self._embedding_names = [name for sharding in shardings for name in sharding.embedding_names()]
        self._lookups = [sharding.create_lookup(self._device, fused_params) for sharding in shardings]
        self._output_dists: Any = nn.ModuleList(sharding.create_output_dist(self._device) for sharding in shardings)
        self._tbes_configs = get_tbes_to_register_from_iterable(self._lookups)
        if is_fused_param_register_tbe(fused_params):
            self.tbes = nn.ModuleList(self._tbes_configs.keys())
        check_scales(table_name_to_parameter_sharding, fused_params)
        self._initialize_torch_state(
            self._tbes_configs,
            table_name_to_parameter_sharding,
            "embedding_bags",
            names=[table.name for table in self._embedding_bag_configs],
            split_scale_bias=is_fused_param_quant_state_dict_split_scale_bias(fused_params),
        )
        self._take_over(state)
        self._input_dist_module = ShardedQuantEbcInputDist(self._sharding_type_device_group_to_sharding, self._device)

    def tbes_configs(self) -> dict[IntNBitTableBatchedEmbeddingBagsCodegen, GroupedEmbeddingConfig]:
        """The kernels, and the tables of each."""
        return self._tbes_configs

    def sharding_type_device_group_to_sharding_infos(self) -> dict[ShardingKey, list[EmbeddingShardingInfo]]:
        """Tables by the way in which they are spread, and by the devices they are on."""
        return self._sharding_type_device_group_to_sharding_infos

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables, as they were given."""
        return self._embedding_bag_configs

    def input_dist(self, ctx: NullShardedModuleContext, features: KeyedJaggedTensor) -> ListOfKJTList:  # type: ignore[override]
        """Features of each device, there, by sharding.

        Args:
            ctx: of the batch.
            features: with all features of the tables, in any order; others are left out.

        Raises:
            ValueError: a feature is missing.
        """
        found: ListOfKJTList = self._input_dist_module(features)
        return found

    def compute(self, ctx: NullShardedModuleContext, dist_input: ListOfKJTList) -> list[list[Tensor]]:
        """What each device finds, by sharding: (examples, columns)."""
        pairs = zip(self._lookups, dist_input, strict=True)
        return [lookup(InputDistOutputs(features=features)) for lookup, features in pairs]

    def output_dist(self, ctx: NullShardedModuleContext, output: list[list[Tensor]]) -> KeyedTensor:  # type: ignore[override]
        """All results in one place."""
        found = [dist(parts) for dist, parts in zip(self._output_dists, output, strict=True)]
        return construct_output_kt(found, self._embedding_names, self._embedding_dims)

    def compute_and_output_dist(self, ctx: NullShardedModuleContext, input: ListOfKJTList) -> KeyedTensor:  # type: ignore[override]
        """`compute`, then `output_dist`."""
        return self.output_dist(ctx, self.compute(ctx, input))

    def forward(self, *input: Any, **kwargs: Any) -> KeyedTensor:  # type: ignore[override]
        """Pooled embeddings.

        Args:
            *input: (`KeyedJaggedTensor`,) with all features of the tables, in any order; others are left out.
            **kwargs: the same by name, `features`.

        Returns:
            (batch, columns of all features), found by name.

        Raises:
            ValueError: a feature is missing.
        """
        ctx = self.create_context()
        return self.compute_and_output_dist(ctx, self.input_dist(ctx, *input, **kwargs))

    def create_context(self) -> NullShardedModuleContext:
        """There is nothing that the stages of a batch share."""
        return NullShardedModuleContext()

    def copy(self, device: torch.device) -> nn.Module:
        """The module itself, with results on another device; tables stay where they are.

        Args:
            device: where results come together.
        """
        self._device = torch.device(device)
        for dist in self._output_dists:
            dist._dist.set_device(str(device))
        return self

    @property
    def shardings(self) -> dict[ShardingKey, FeatureShardingMixIn]:  # type: ignore[override]
        """Each sharding, by its type and devices."""
        return self._sharding_type_device_group_to_sharding

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """The class of which this is the sharded form."""
        return QuantEmbeddingBagCollection


class ShardedQuantFeatureProcessedEmbeddingBagCollection(ShardedQuantEmbeddingBagCollection):
    """A quantized `FeatureProcessedEmbeddingBagCollection` whose tables are spread over the devices of one process.

    Each device has a copy of the processors of its own, as features are processed where they are looked up.

    Args:
        module: the quantized collection.
        table_name_to_parameter_sharding: where each table goes: whole, or cut by columns.
        env: the devices, or those of each kind.
        fused_params: options of kernels.
        device: where results come together.
        feature_processor: gives features weights.

    Raises:
        AssertionError: no processor; tables that are cut by rows, whose positions in bags are lost. It is a ValueError
            too.
    """

    def __init__(
        self,
        module: EmbeddingBagCollectionInterface,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: Env,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
        feature_processor: FeatureProcessorsCollection | None = None,
    ) -> None:
        super().__init__(module, table_name_to_parameter_sharding, env, fused_params, device)
        if feature_processor is None:
            raise OptionError("feature_processor is None, expected what gives features weights.")
        by_rows = [name for name, one in table_name_to_parameter_sharding.items()
                   if one.sharding_type == ShardingType.ROW_WISE.value]  # fmt: skip
        if by_rows:
            raise OptionError(
                f"tables {by_rows} are cut by rows, and processors go by places in whole bags; cut columns."
            )
        there: dict[Any, nn.Module] = {}
        self.feature_processors_per_rank = nn.ModuleList()
        for lookup in self._lookups[0]._embedding_lookups_per_rank if self._lookups else ():  # type: ignore[union-attr]
            if lookup.device not in there:
                there[lookup.device] = copy.deepcopy(feature_processor).to(lookup.device)
            processor = there[lookup.device]
            # Ranks on one device share the memory of parameters.
            shared: dict[int, Any] = {id(buffer): buffer for buffer in processor.buffers()}
            for param in processor.parameters():
                shared[id(param)] = nn.Parameter(param.detach(), param.requires_grad)
            self.feature_processors_per_rank.append(copy.deepcopy(processor, shared))

    def apply_feature_processor(self, kjt_list: KJTList) -> KJTList:
        """Features of each device with weights."""
        pairs = zip(self.feature_processors_per_rank, kjt_list, strict=True)
        return KJTList([processor(part) if part.keys() else part for processor, part in pairs])

    def compute(self, ctx: NullShardedModuleContext, dist_input: ListOfKJTList) -> list[list[Tensor]]:
        """Process features, then look up; see `ShardedQuantEmbeddingBagCollection.compute`."""
        return super().compute(ctx, ListOfKJTList([self.apply_feature_processor(part) for part in dist_input]))


# ----- sharders -------------------------------------------------------------------------------------------------------


def with_output_type(fused_params: dict[str, Any] | None, dtype: torch.dtype) -> dict[str, Any]:
    """Options of kernels whose results have a module's dtype."""
    return {**(fused_params or {}), "output_dtype": output_type(dtype)}


class QuantEmbeddingBagCollectionSharder(BaseQuantEmbeddingSharder[QuantEmbeddingBagCollection]):
    """Spreads quantized `EmbeddingBagCollection`s over the devices of one process.

    Args:
        fused_params: options of kernels.
        shardable_params: the tables that may be spread; all by default.
    """

    def shard(
        self,
        module: QuantEmbeddingBagCollection,
        params: EmbeddingModuleShardingPlan | dict[str, ParameterSharding],
        env: Env,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedQuantEmbeddingBagCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        options = with_output_type(self.fused_params, module.output_dtype())
        return ShardedQuantEmbeddingBagCollection(module, dict(params), env, options, device)

    @property
    def module_type(self) -> type[QuantEmbeddingBagCollection]:
        """Quantized `EmbeddingBagCollection`."""
        return QuantEmbeddingBagCollection


class QuantFeatureProcessedEmbeddingBagCollectionSharder(
    BaseQuantEmbeddingSharder[QuantFeatureProcessedEmbeddingBagCollection]
):
    """Spreads quantized `FeatureProcessedEmbeddingBagCollection`s over the devices of one process.

    Args:
        fused_params: options of kernels.
        shardable_params: the tables that may be spread; all by default.
    """

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """Tables are on the devices themselves."""
        return ["quant"]

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """Whole tables, or columns: rows of a bag must stay together, as processors go by their places."""
        return [ShardingType.TABLE_WISE.value, ShardingType.COLUMN_WISE.value]

    def shard(
        self,
        module: QuantFeatureProcessedEmbeddingBagCollection,
        params: EmbeddingModuleShardingPlan | dict[str, ParameterSharding],
        env: Env,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedQuantEmbeddingBagCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        options = with_output_type(self.fused_params, module.output_dtype())
        return ShardedQuantFeatureProcessedEmbeddingBagCollection(
            module, dict(params), env, options, device, module.feature_processor
        )

    @property
    def module_type(self) -> type[QuantFeatureProcessedEmbeddingBagCollection]:
        """Quantized `FeatureProcessedEmbeddingBagCollection`."""
        return QuantFeatureProcessedEmbeddingBagCollection


# Collections that map ids are built on this one.
_MAPPING = (
    "QuantManagedCollisionEmbeddingBagCollectionSharder",
    "ShardedMCEBCLookup",
    "ShardedQuantManagedCollisionEmbeddingBagCollection",
)


def __getattr__(name: str) -> Any:
    if name not in _MAPPING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flambeau.rec.distributed import _quant_managed_collisions

    return getattr(_quant_managed_collisions, name)

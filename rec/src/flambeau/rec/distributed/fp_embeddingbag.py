"""Collections of tables over several processes, whose features are weighted where they are looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.distributed.embedding_types import BaseEmbeddingSharder, KJTList, ShardedEmbeddingModule
from flambeau.rec.distributed.embeddingbag import (
    EmbeddingBagCollectionContext,
    EmbeddingBagCollectionSharder,
    ShardedEmbeddingBagCollection,
    features_of,
)
from flambeau.rec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.distributed.utils import append_prefix, init_parameters
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.feature_processor_ import FeatureProcessorsCollection, get_stride_per_key_per_rank
from flambeau.rec.modules.fp_embedding_modules import (
    FeatureProcessedEmbeddingBagCollection,
    apply_feature_processors_to_kjt,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

__all__ = [
    "FeatureProcessedEmbeddingBagCollectionSharder",
    "ShardedFeatureProcessedEmbeddingBagCollection",
    "param_dp_sync",
]

_BY_ROWS = (ShardingType.ROW_WISE.value, ShardingType.TABLE_ROW_WISE.value, ShardingType.GRID_SHARD.value)


class BagTooLongError(RuntimeError, IndexError):
    """A bag with more ids than a feature processor has weights for."""


def param_dp_sync(kt: KeyedTensor, no_op_tensor: Tensor) -> KeyedTensor:
    """Add a tensor to the values of a result, in place.

    Args:
        kt: the result.
        no_op_tensor: 0, made of parameters that have to take part in the backward pass.

    Returns:
        `kt`.
    """
    kt._values = kt.values() + no_op_tensor
    return kt


class ShardedFeatureProcessedEmbeddingBagCollection(
    ShardedEmbeddingModule[KJTList, list[Tensor], KeyedTensor, EmbeddingBagCollectionContext]
):
    """A `FeatureProcessedEmbeddingBagCollection` whose tables are spread over processes.

    Each process has all processors, and weighs the features that it looks up. Gradients of processors are those of the
    sum over all processes' losses where a feature is looked up, times the number of processes over which it is spread:
    averaged by data parallelism, as `DistributedModelParallel` does, they are those of the mean of all losses.

    Args:
        module: the collection; where its tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes.
        ebc_sharder: spreads the tables.
        env: the processes.
        device: of this process.
        module_fqn: path of the module in the model.

    Raises:
        OptionError: the plan does not fit, or rows of a table are on several processes and a processor of its features
            has no `pre_process_input`, by which it would know of bags before they are divided.
    """

    def __init__(
        self,
        module: FeatureProcessedEmbeddingBagCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        ebc_sharder: EmbeddingBagCollectionSharder,
        env: ShardingEnv,
        device: torch.device,
        module_fqn: str | None = None,
    ) -> None:
        super().__init__()
        self._device, self._env = device, env
        self._embedding_bag_collection: ShardedEmbeddingBagCollection = ebc_sharder.shard(
            module._embedding_bag_collection, table_name_to_parameter_sharding, env, device, module_fqn
        )
        self._lookups = self._embedding_bag_collection._lookups
        self._row_wise_sharded = any(
            sharding.sharding_type in _BY_ROWS for sharding in table_name_to_parameter_sharding.values()
        )
        self._is_collection = isinstance(module._feature_processors, FeatureProcessorsCollection)
        processors = module._feature_processors
        if device.type != "meta":
            init_parameters(processors, device)
            processors = processors.to(device)
        self._feature_processors = processors
        self._table_of = {
            feature: table.name
            for table in self._embedding_bag_collection.embedding_bag_configs()
            for feature in table.feature_names
        }
        if self._row_wise_sharded:
            self._check_processors()

    def _check_processors(self) -> None:
        found = {"all features": self._feature_processors} if self._is_collection else self._by_feature()
        for name, processor in found.items():
            if not hasattr(processor, "pre_process_input"):
                raise OptionError(
                    f"rows of tables are on several processes, and {type(processor).__name__}, the processor of "
                    f"{name}, has no pre_process_input(features), which is called with whole bags and writes their "
                    "weights; define it, or spread tables table_wise, column_wise or data_parallel."
                )

    def _by_feature(self) -> dict[str, Any]:
        """Processors of single features, where there is none of all."""
        processors: Any = self._feature_processors
        return dict(processors.items())

    # ----- features ---------------------------------------------------------------------------------------------------

    def _longest(self) -> dict[str, int]:
        """Of each feature, the ids of the longest bag that there are weights for."""
        lengths = getattr(self._feature_processors, "max_feature_lengths", None)
        if lengths is not None:
            return dict(lengths)
        if self._is_collection:
            return {}
        return {
            name: processor.position_weight.numel()
            for name, processor in self._by_feature().items()
            if isinstance(getattr(processor, "position_weight", None), Tensor)
        }

    def _check_lengths(self, features: KeyedJaggedTensor) -> None:
        """Refuse bags that are too long where they come from, as the process that would weigh them is another one."""
        if features.device().type != "cpu":
            return
        bounds = self._longest()
        lengths = features.lengths().view(-1).split(features.stride_per_key())
        for key, of_key in zip(features.keys(), lengths, strict=True):
            bound = bounds.get(key)
            if bound is None or key not in self._table_of or not of_key.numel():
                continue
            longest = int(of_key.max())
            if longest > bound:
                raise BagTooLongError(
                    f"feature {key!r} has a bag of {longest} ids on process {self._rank()}, and its processor has "
                    f"weights for {bound}, before it is looked up in table {self._table_of[key]!r}; truncate the bag, "
                    f"or make max_feature_length {longest}."
                )

    def _rank(self) -> int:
        pg = self._env.process_group
        return self._env.rank if pg is None else dist.get_rank(pg)

    def _with_places(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Where bags will be divided, features with what processors want to know of them as weights."""
        if not self._row_wise_sharded:
            return features
        weights = torch.zeros(features.values().shape[0], dtype=torch.float32, device=features.device())
        variable = features.variable_stride_per_key()
        placed = KeyedJaggedTensor(
            keys=features.keys(),
            values=features.values(),
            weights=weights,
            lengths=features.lengths(),
            offsets=features.offsets(),
            stride=None if variable else features.stride(),
            stride_per_key_per_rank=get_stride_per_key_per_rank(features),
            inverse_indices=features.inverse_indices_or_none(),
        )
        if self._is_collection:
            self._feature_processors.pre_process_input(placed)  # type: ignore[operator]
            return placed
        for name, processor in self._by_feature().items():
            if name in placed.keys():  # noqa: SIM118, a method of ours
                processor.pre_process_input(placed[name])
        return placed

    def preprocess_input(self, args: list[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """Arguments whose features have what processors want to know of whole bags, where bags will be divided.

        Args:
            args: of `forward`.
            kwargs: of `forward`.
        """

        def placed(one: Any) -> Any:
            return self._with_places(one) if isinstance(one, KeyedJaggedTensor) else one

        return [placed(one) for one in args], {name: placed(one) for name, one in kwargs.items()}

    def apply_feature_processors_to_kjt_list(self, dist_input: KJTList) -> KJTList:
        """Features with the weights that processors give them.

        Args:
            dist_input: of each sharding, features of all processes.
        """
        return KJTList([self._processed(features) for features in dist_input])

    def _processed(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        if not features.keys():
            return features
        processors = self._feature_processors
        if self._is_collection:
            processed: KeyedJaggedTensor = processors(features)
            return processed
        return apply_feature_processors_to_kjt(features, self._by_feature())

    # ----- stages -----------------------------------------------------------------------------------------------------

    def create_context(self) -> EmbeddingBagCollectionContext:
        """What the stages of one batch share."""
        return self._embedding_bag_collection.create_context()

    def input_dist(
        self, ctx: EmbeddingBagCollectionContext, features: KeyedJaggedTensor
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send features.

        Args:
            ctx: of the batch.
            features: of the local batch; those of no table are left out.

        Raises:
            IdOutOfBoundsError: an id that its table has no row for, with the feature's name.
            RuntimeError: a bag has more ids than its processor has weights for.
            OptionError: a feature is missing.
        """
        features = features_of(features)
        self._check_lengths(features)
        return self._embedding_bag_collection.input_dist(ctx, self._with_places(features))

    def compute(self, ctx: EmbeddingBagCollectionContext, dist_input: KJTList) -> list[Tensor]:
        """Weigh and look up what all processes asked this one for."""
        return self._embedding_bag_collection.compute(ctx, self.apply_feature_processors_to_kjt_list(dist_input))

    def output_dist(self, ctx: EmbeddingBagCollectionContext, output: list[Tensor]) -> LazyAwaitable[KeyedTensor]:
        """Start to send pooled rows back."""
        return self.add_fp_params_grad_sync_callback(self._embedding_bag_collection.output_dist(ctx, output))

    def compute_and_output_dist(self, ctx: EmbeddingBagCollectionContext, input: KJTList) -> LazyAwaitable[KeyedTensor]:
        """Look up one sharding after another, and start to send each one's results at once."""
        weighted = self.apply_feature_processors_to_kjt_list(input)
        return self.add_fp_params_grad_sync_callback(
            self._embedding_bag_collection.compute_and_output_dist(ctx, weighted)
        )

    def add_fp_params_grad_sync_callback(
        self, lazy_awaitable_kt: LazyAwaitable[KeyedTensor]
    ) -> LazyAwaitable[KeyedTensor]:
        """Have all parameters of processors take part in the backward pass, as data parallelism expects of them.

        A process that looks no features of a processor up would have no gradients of it otherwise.

        Args:
            lazy_awaitable_kt: the result.

        Returns:
            The same.
        """
        params = [param for param in self._feature_processors.parameters() if param.requires_grad]
        if params and torch.is_grad_enabled():
            nothing = torch.stack([param.sum() for param in params]).sum() * 0
            lazy_awaitable_kt.callbacks.append(partial(param_dp_sync, no_op_tensor=nothing))
        return lazy_awaitable_kt

    def prefetch(
        self,
        dist_input: KJTList,
        forward_stream: torch.Stream | None = None,
        ctx: EmbeddingBagCollectionContext | None = None,
    ) -> None:
        """Fetch rows of tables on the host that the batch will need."""
        self._embedding_bag_collection.prefetch(dist_input, forward_stream, ctx)

    # ----- names ------------------------------------------------------------------------------------------------------

    def sharded_parameter_names(self, prefix: str = "") -> Iterator[str]:
        """Names of all tables; every process has the processors."""
        yield from self._embedding_bag_collection.sharded_parameter_names(
            append_prefix(prefix, "_embedding_bag_collection")
        )

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`FeatureProcessedEmbeddingBagCollection`."""
        return FeatureProcessedEmbeddingBagCollection


class FeatureProcessedEmbeddingBagCollectionSharder(BaseEmbeddingSharder[FeatureProcessedEmbeddingBagCollection]):
    """Spreads `FeatureProcessedEmbeddingBagCollection` over processes.

    Args:
        ebc_sharder: spreads the tables; an `EmbeddingBagCollectionSharder` by default.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        ebc_sharder: EmbeddingBagCollectionSharder | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry=qcomm_codecs_registry)
        self._ebc_sharder = ebc_sharder or EmbeddingBagCollectionSharder(qcomm_codecs_registry=qcomm_codecs_registry)

    def shard(
        self,
        module: FeatureProcessedEmbeddingBagCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedFeatureProcessedEmbeddingBagCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        here = torch.device("cpu") if device is None else device
        return ShardedFeatureProcessedEmbeddingBagCollection(module, params, self._ebc_sharder, env, here, module_fqn)

    @property
    def fused_params(self) -> dict[str, Any] | None:
        """Options of the kernels."""
        return self._ebc_sharder.fused_params

    def shardable_parameters(self, module: FeatureProcessedEmbeddingBagCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return self._ebc_sharder.shardable_parameters(module._embedding_bag_collection)

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread."""
        if compute_device_type == "mtia":
            return [ShardingType.TABLE_WISE.value, ShardingType.COLUMN_WISE.value]
        return [
            ShardingType.DATA_PARALLEL.value,
            ShardingType.TABLE_WISE.value,
            ShardingType.COLUMN_WISE.value,
            ShardingType.TABLE_COLUMN_WISE.value,
            ShardingType.TABLE_ROW_WISE.value,
            ShardingType.ROW_WISE.value,
            ShardingType.GRID_SHARD.value,
        ]

    @property
    def module_type(self) -> type[FeatureProcessedEmbeddingBagCollection]:
        """`FeatureProcessedEmbeddingBagCollection`."""
        return FeatureProcessedEmbeddingBagCollection

    @property
    def sharded_module_type(self) -> type[ShardedFeatureProcessedEmbeddingBagCollection]:
        """The class of what it makes."""
        return ShardedFeatureProcessedEmbeddingBagCollection

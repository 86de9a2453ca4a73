"""Collections of embeddings, a row for each id, over several processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed._bounds import within_bounds
from flambeau.rec.distributed._sharded_tables import ShardedTables, infos_by_type
from flambeau.rec.distributed._sharders import EmbeddingCollectionSharder
from flambeau.rec.distributed.embedding_sharding import (
    EmbeddingSharding,
    EmbeddingShardingInfo,
    KJTListSplitsAwaitable,
)
from flambeau.rec.distributed.embedding_types import KJTList
from flambeau.rec.distributed.embeddingbag import features_of, get_device_from_parameter_sharding
from flambeau.rec.distributed.fused_params import FUSED_PARAM_IS_SSD_TABLE, FUSED_PARAM_SSD_TABLE_LIST
from flambeau.rec.distributed.sharding.cw_sequence_sharding import CwSequenceEmbeddingSharding
from flambeau.rec.distributed.sharding.dp_sequence_sharding import DpSequenceEmbeddingSharding
from flambeau.rec.distributed.sharding.rw_sequence_sharding import RwSequenceEmbeddingSharding
from flambeau.rec.distributed.sharding.sequence_sharding import SequenceShardingContext
from flambeau.rec.distributed.sharding.tw_sequence_sharding import TwSequenceEmbeddingSharding
from flambeau.rec.distributed.types import (
    Awaitable,
    EmbeddingEvent,
    EmbeddingModuleShardingPlan,
    LazyAwaitable,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.distributed.utils import maybe_annotate_embedding_event
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingCollection, EmbeddingCollectionInterface
from flambeau.rec.modules.utils import SequenceVBEContext, construct_jagged_tensors
from flambeau.rec.ops.permute import sources
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable

__all__ = [
    "EC_INDEX_DEDUP",
    "FUSED_PARAM_IS_SSD_TABLE",
    "FUSED_PARAM_SSD_TABLE_LIST",
    "EmbeddingCollectionAwaitable",
    "EmbeddingCollectionContext",
    "EmbeddingCollectionSharder",
    "ShardedEmbeddingCollection",
    "create_sharding_infos_by_sharding_device_group",
    "get_device_from_parameter_sharding",
    "get_ec_index_dedup",
    "pad_vbe_kjt_lengths",
    "set_ec_index_dedup",
]

EC_INDEX_DEDUP: bool = False


def set_ec_index_dedup(val: bool) -> None:
    """Say whether each id is sent and looked up once for each batch, in collections that are sharded from now on."""
    global EC_INDEX_DEDUP
    EC_INDEX_DEDUP = val


def get_ec_index_dedup() -> bool:
    """Whether each id is sent and looked up once for each batch."""
    return EC_INDEX_DEDUP


def pad_vbe_kjt_lengths(features: KeyedJaggedTensor) -> KeyedJaggedTensor:
    """Features with batches of their own as ones of one batch, as large as the largest, by adding empty bags.

    Args:
        features: of one process.
    """
    largest = max(features.stride_per_key(), default=0)
    lengths = features.lengths().view(-1)
    padded = lengths.new_zeros(len(features.keys()), largest)
    for row, own in zip(padded, lengths.split(features.stride_per_key()), strict=True):
        row[: own.numel()] = own
    return KeyedJaggedTensor(
        features.keys(),
        features.values(),
        features.weights_or_none(),
        lengths=padded.view(-1),
        stride=largest,
        length_per_key=features.length_per_key_or_none(),
    )


# ----- plans ----------------------------------------------------------------------------------------------------------


def _infos(
    module: EmbeddingCollectionInterface,
    plan: dict[str, ParameterSharding],
    fused_params: dict[str, Any] | None,
) -> dict[str, list[EmbeddingShardingInfo]]:
    named = dict(module.named_parameters())
    tables = module.embedding_configs()
    weights = {table.name: named[f"embeddings.{table.name}.weight"] for table in tables}
    return infos_by_type(tables, weights, plan, fused_params, pooled=False)


def create_sharding_infos_by_sharding_device_group(
    module: EmbeddingCollectionInterface,
    table_name_to_parameter_sharding: dict[str, ParameterSharding],
    fused_params: dict[str, Any] | None,
) -> dict[tuple[str, str | tuple[str, ...]], list[EmbeddingShardingInfo]]:
    """Tables by the way in which they are spread, and by the devices they are on.

    Args:
        module: whose tables they are.
        table_name_to_parameter_sharding: where each goes.
        fused_params: options of kernels.
    """
    grouped: dict[tuple[str, str | tuple[str, ...]], list[EmbeddingShardingInfo]] = {}
    for kind, infos in _infos(module, table_name_to_parameter_sharding, fused_params).items():
        for info in infos:
            spec = info.param_sharding.sharding_spec
            device = get_device_from_parameter_sharding(info.param_sharding) if spec is not None else "cpu"
            grouped.setdefault((kind, device), []).append(info)
    return grouped


# ----- results --------------------------------------------------------------------------------------------------------


@dataclass
class EmbeddingCollectionContext(Multistreamable):
    """What the stages of one batch share.

    Args:
        sharding_contexts: of each sharding.
        input_features: of each sharding, the features before each id was left once.
        reverse_indices: of each sharding, which of the ids left each one is.
        seq_vbe_ctx: of each sharding, how embeddings become those of the full batch.
        table_name_to_unpruned_hash_sizes: rows of tables before pruning.
        early_releasable_inputs: features whose memory is free once they were sent.
    """

    sharding_contexts: list[SequenceShardingContext] = field(default_factory=list)
    input_features: list[KeyedJaggedTensor] = field(default_factory=list)
    reverse_indices: list[Tensor] = field(default_factory=list)
    seq_vbe_ctx: list[SequenceVBEContext] = field(default_factory=list)
    table_name_to_unpruned_hash_sizes: dict[str, int] = field(default_factory=dict)
    early_releasable_inputs: list[KeyedJaggedTensor] = field(default_factory=list)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for held in (*self.sharding_contexts, *self.input_features, *self.seq_vbe_ctx):
            held.record_stream(stream)
        for tensor in self.reverse_indices:
            tensor.record_stream(stream)


class EmbeddingCollectionAwaitable(LazyAwaitable[dict[str, JaggedTensor]]):
    """Embeddings of all features, under way.

    Args:
        awaitables_per_sharding: of each sharding.
        features_per_sharding: the features that were sent, of each sharding.
        embedding_names_per_sharding: what the results are called, of each sharding.
        ctx: of the batch.
        need_indices: whether ids are given as weights.
        features_to_permute_indices: of a result whose columns come from several processes, their order.
        module_fqn: path of the module, for profiles.
        sharding_types: of the shardings, for profiles.
        use_gather_select: pick rows by `gather`.
        use_gather_select_per_sharding: the same by the type of sharding.
        resize_awaitables: changes of memory to wait for as well.
    """

    def __init__(
        self,
        awaitables_per_sharding: list[Awaitable[Tensor]],
        features_per_sharding: list[KeyedJaggedTensor],
        embedding_names_per_sharding: list[list[str]],
        ctx: EmbeddingCollectionContext,
        need_indices: bool = False,
        features_to_permute_indices: dict[str, list[int]] | None = None,
        module_fqn: str | None = None,
        sharding_types: list[str] | None = None,
        use_gather_select: bool = False,
        use_gather_select_per_sharding: dict[str, bool] | None = None,
        resize_awaitables: list[Awaitable[Tensor]] | None = None,
    ) -> None:
        super().__init__()
        self._awaitables, self._features, self._names = (
            awaitables_per_sharding,
            features_per_sharding,
            embedding_names_per_sharding,
        )
        self._ctx, self._need_indices = ctx, need_indices
        self._orders = features_to_permute_indices
        self._module_fqn, self._sharding_types = module_fqn, sharding_types
        self._gather, self._gather_by_kind = use_gather_select, use_gather_select_per_sharding or {}
        self._resize_awaitables = resize_awaitables or []

    def _wait_impl(self) -> dict[str, JaggedTensor]:
        found: dict[str, JaggedTensor] = {}
        for at, awaitable in enumerate(self._awaitables):
            kind = self._sharding_types[at] if self._sharding_types else None
            with maybe_annotate_embedding_event(EmbeddingEvent.OUTPUT_DIST_WAIT, self._module_fqn, kind):
                rows = awaitable.wait()
            found |= construct_jagged_tensors(
                embeddings=rows,
                features=self._features[at],
                embedding_names=self._names[at],
                need_indices=self._need_indices,
                features_to_permute_indices=self._orders,
                original_features=self._ctx.input_features[at] if self._ctx.input_features else None,
                reverse_indices=self._ctx.reverse_indices[at] if self._ctx.reverse_indices else None,
                seq_vbe_ctx=self._ctx.seq_vbe_ctx[at] if self._ctx.seq_vbe_ctx else None,
                use_gather_select=self._gather_by_kind.get(kind or "", self._gather),
            )
        for one in self._resize_awaitables:
            one.wait()
        return found


# ----- the collection -------------------------------------------------------------------------------------------------

_SHARDINGS: dict[str, Any] = {
    ShardingType.TABLE_WISE.value: TwSequenceEmbeddingSharding,
    ShardingType.ROW_WISE.value: RwSequenceEmbeddingSharding,
    ShardingType.COLUMN_WISE.value: CwSequenceEmbeddingSharding,
    ShardingType.DATA_PARALLEL.value: DpSequenceEmbeddingSharding,
}


class ShardedEmbeddingCollection(ShardedTables):
    """An `EmbeddingCollection` whose tables are spread over processes.

    Args:
        module: the collection; where its tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes.
        env: the processes.
        fused_params: options of kernels, such as their optimizer.
        device: of this process.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        use_index_dedup: whether each id is sent and looked up once for each batch.
        module_fqn: path of the module in the model.

    Raises:
        OptionError: the plan and the collection have different tables, or the plan does not fit the processes.
    """

    def __init__(
        self,
        module: EmbeddingCollectionInterface,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        use_index_dedup: bool = False,
        module_fqn: str | None = None,
    ) -> None:
        self._embedding_configs: list[EmbeddingConfig] = module.embedding_configs()
        infos = self.create_grouped_sharding_infos(module, table_name_to_parameter_sharding, fused_params)
        source = {info.embedding_config.name: info.param for of_kind in infos.values() for info in of_kind}
        object.__setattr__(self, "_table_order", [table.name for table in self._embedding_configs])
        super().__init__("embeddings", infos, env, device, qcomm_codecs_registry, module_fqn, source)
        self._table_order = [table.name for table in self._embedding_configs]
        self.module_sharding_plan = EmbeddingModuleShardingPlan(table_name_to_parameter_sharding)
        self._need_indices: bool = module.need_indices()
        self._embedding_dim: int = module.embedding_dim()
        self._gather = bool(getattr(module, "use_gather_select", lambda: False)())
        self._gather_by_kind = getattr(module, "use_gather_select_per_sharding", lambda: None)()
        self._use_index_dedup = use_index_dedup or get_ec_index_dedup()
        self._names = [
            sharding.uncombined_embedding_names() if hasattr(sharding, "joined") else sharding.embedding_names()
            for sharding in self._embedding_shardings
        ]
        # Columns of one result come from several processes; its parts are joined by where they lie in the table.
        self._orders: dict[str, list[int]] = {}
        for sharding in self._embedding_shardings:
            if hasattr(sharding, "joined"):
                for name, places in sharding.joined.places.items():
                    rank = {at: number for number, at in enumerate(sorted(places))}
                    self._orders[name] = [rank[at] for at in places]
        self._widths = {kind: self._width(kind, sharding) for kind, sharding in self.shardings.items()}
        if env.process_group is not None and self._device.type != "meta":
            self.init_data_parallel()

    def _sharding_of(self, kind: str, infos: list[EmbeddingShardingInfo]) -> EmbeddingSharding[Any, Any, Any, Any]:
        return self.create_embedding_sharding(kind, infos, self._env, self._device, self.qcomm_codecs_registry)

    @classmethod
    def create_embedding_sharding(
        cls,
        sharding_type: str,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> EmbeddingSharding[SequenceShardingContext, KeyedJaggedTensor, Tensor, Tensor]:
        """The sharding of tables that are spread in one way.

        Args:
            sharding_type: which way.
            sharding_infos: the tables.
            env: the processes.
            device: of this one.
            qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        """
        if sharding_type not in _SHARDINGS:
            raise OptionError(
                f"sharding_type is {sharding_type!r}; tables whose rows are not pooled are spread by one of "
                f"{sorted(_SHARDINGS)}."
            )
        options: dict[str, Any] = {}
        if sharding_type != ShardingType.DATA_PARALLEL.value:
            options["qcomm_codecs_registry"] = qcomm_codecs_registry
        made: EmbeddingSharding[Any, Any, Any, Any] = _SHARDINGS[sharding_type](sharding_infos, env, device, **options)
        return made

    @classmethod
    def create_grouped_sharding_infos(
        cls,
        module: EmbeddingCollectionInterface,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        fused_params: dict[str, Any] | None,
    ) -> dict[str, list[EmbeddingShardingInfo]]:
        """Tables by the way in which they are spread; see `create_sharding_infos_by_sharding_device_group`."""
        return _infos(module, table_name_to_parameter_sharding, fused_params)

    @staticmethod
    def _width(kind: str, sharding: Any) -> int:
        widths = set(sharding.uncombined_embedding_dims())
        if len(widths) > 1:
            raise OptionError(
                f"tables that are spread {kind} have parts of {sorted(widths)} columns; rows of sequences are sent "
                "together, so give all parts as many columns."
            )
        return int(widths.pop()) if widths else 1

    # ----- stages -----------------------------------------------------------------------------------------------------

    def create_context(self) -> EmbeddingCollectionContext:
        """What the stages of one batch share."""
        return EmbeddingCollectionContext()

    def input_dist(self, ctx: EmbeddingCollectionContext, features: KeyedJaggedTensor) -> Awaitable[Awaitable[KJTList]]:
        """Start to send features.

        Args:
            ctx: of the batch.
            features: of the local batch; those of no table are left out. With batches of features' own and inverse
                indices, results are of the full batch.

        Raises:
            IdOutOfBoundsError: an id that its table has no row for, with the feature's name.
            OptionError: a feature is missing.
        """
        features = features_of(features)
        self._init_input_dists(features.keys())
        with torch.no_grad():
            ordered = within_bounds(self._ordered(features), self._feature_bounds)
            parts = ordered.split(self._feature_splits)
            inverse = features.inverse_indices_or_none()
            if inverse is not None:
                ctx.seq_vbe_ctx = [to_full_batch(part, inverse, self._need_indices) for part in parts]
            if self._use_index_dedup:
                parts = [each_once(part, ctx) for part in parts]
            awaitables = []
            for kind, dist, part in zip(self._sharding_types, self._input_dists, parts, strict=True):
                with maybe_annotate_embedding_event(EmbeddingEvent.KJT_SPLITS_DIST, self._module_fqn, kind):
                    awaitables.append(dist(part))
                ctx.sharding_contexts.append(
                    SequenceShardingContext(
                        features_before_input_dist=part,
                        batch_size_per_feature_pre_a2a=part.stride_per_key(),
                        variable_batch_per_feature=part.variable_stride_per_key(),
                        unbucketize_permute_tensor=getattr(dist, "unbucketize_permute_tensor", None),
                    )
                )
            return KJTListSplitsAwaitable(awaitables, ctx, self._module_fqn, self._sharding_types)

    def compute(self, ctx: EmbeddingCollectionContext, dist_input: KJTList) -> list[Tensor]:
        """Look up what all processes asked this one for."""
        found = []
        for kind, lookup, features in zip(self._sharding_types, self._lookups, dist_input, strict=True):
            with maybe_annotate_embedding_event(EmbeddingEvent.LOOKUP, self._module_fqn, kind):
                rows = self._rows(kind, lookup, features)
            found.append(rows)
        return found

    def _rows(self, kind: str, lookup: Any, features: KeyedJaggedTensor) -> Tensor:
        # A process without tables sends and receives rows as wide as those of the others.
        rows: Tensor = lookup(features).view(-1, self._widths[kind])
        if self.post_lookup_tracker_fn is not None:
            self.post_lookup_tracker_fn(features, rows, self, None)
        return rows

    def output_dist(
        self, ctx: EmbeddingCollectionContext, output: list[Tensor]
    ) -> LazyAwaitable[dict[str, JaggedTensor]]:
        """Start to send rows back."""
        awaitables = [
            dist(rows, sharding_ctx)
            for dist, rows, sharding_ctx in zip(self._output_dists, output, ctx.sharding_contexts, strict=True)
        ]
        return self._results(ctx, awaitables)

    def compute_and_output_dist(
        self, ctx: EmbeddingCollectionContext, input: KJTList
    ) -> LazyAwaitable[dict[str, JaggedTensor]]:
        """Look up one sharding after another, and start to send each one's results at once."""
        awaitables = []
        stages = zip(self._sharding_types, self._lookups, self._output_dists, ctx.sharding_contexts, input, strict=True)
        for kind, lookup, dist, sharding_ctx, features in stages:
            with maybe_annotate_embedding_event(EmbeddingEvent.LOOKUP, self._module_fqn, kind):
                rows = self._rows(kind, lookup, features)
            with maybe_annotate_embedding_event(EmbeddingEvent.OUTPUT_DIST, self._module_fqn, kind):
                awaitables.append(dist(rows, sharding_ctx))
        return self._results(ctx, awaitables)

    def _results(
        self, ctx: EmbeddingCollectionContext, awaitables: list[Awaitable[Tensor]]
    ) -> LazyAwaitable[dict[str, JaggedTensor]]:
        if self.post_odist_tracker_fn is not None:
            self.post_odist_tracker_fn()
        features = [one.features_before_input_dist for one in ctx.sharding_contexts]
        return EmbeddingCollectionAwaitable(
            awaitables_per_sharding=awaitables,
            features_per_sharding=features,  # type: ignore[arg-type]
            embedding_names_per_sharding=self._names,
            ctx=ctx,
            need_indices=self._need_indices,
            features_to_permute_indices=self._orders or None,
            module_fqn=self._module_fqn,
            sharding_types=self._sharding_types,
            use_gather_select=self._gather,
            use_gather_select_per_sharding=self._gather_by_kind,
        )

    # ----- rows that are overwritten ----------------------------------------------------------------------------------

    def write_dist(
        self, ctx: EmbeddingCollectionContext, embeddings: KeyedJaggedTensor
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send rows to the processes that hold them.

        Args:
            ctx: of the batch.
            embeddings: ids of each feature, whose weights are rows, (L, columns).
        """
        if not hasattr(self, "_write_dists"):
            self._write_dists = [sharding.create_write_dist() for sharding in self._embedding_shardings]
            self._updates = [
                sharding.create_update(lookup)  # type: ignore[arg-type]
                for sharding, lookup in zip(self._embedding_shardings, self._lookups, strict=True)
            ]
        self._init_input_dists(embeddings.keys())
        ctx.sharding_contexts = [SequenceShardingContext() for _ in self._write_dists]
        parts = self._ordered(embeddings).split(self._feature_splits)
        awaitables = [dist(part) for dist, part in zip(self._write_dists, parts, strict=True)]
        return KJTListSplitsAwaitable(awaitables, ctx, self._module_fqn, self._sharding_types)

    def update(self, ctx: EmbeddingCollectionContext, dist_input: KJTList) -> None:
        """Put rows that all processes sent into this one's part of the tables."""
        for update, features in zip(self._updates, dist_input, strict=True):
            update(features)

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The tables."""
        return self._embedding_configs

    def embedding_dim(self) -> int:
        """Columns of all tables."""
        return self._embedding_dim

    def need_indices(self) -> bool:
        """Whether ids are given as weights."""
        return self._need_indices

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`EmbeddingCollection`."""
        return EmbeddingCollection


def each_once(features: KeyedJaggedTensor, ctx: Any) -> KeyedJaggedTensor:
    """Features with each id of a key once, all in the key's first bag.

    Args:
        features: of the local batch.
        ctx: of the batch; it is given the features, and which of the ids left each one is.
    """
    ctx.input_features.append(features)
    ids, reverse, counts, begin = [], [], [], 0
    for of_key in features.values().split(features.length_per_key()):
        once, which = torch.unique(of_key, return_inverse=True)
        ids.append(once)
        reverse.append(which + begin)
        counts.append(once.numel())
        begin += once.numel()
    ctx.reverse_indices.append(torch.cat(reverse) if reverse else features.values().new_empty(0).long())
    strides = [max(1, stride) for stride in features.stride_per_key()]
    lengths = features.lengths().new_zeros(sum(strides))
    at = 0
    for stride, count in zip(strides, counts, strict=True):
        lengths[at] = count
        at += stride
    variable = features.variable_stride_per_key()
    return KeyedJaggedTensor(
        features.keys(),
        torch.cat(ids) if ids else features.values(),
        lengths=lengths,
        stride=None if variable else (strides[0] if strides else features.stride()),
        stride_per_key_per_rank=[[stride] for stride in strides] if variable else None,
        length_per_key=counts,
    )


def to_full_batch(
    features: KeyedJaggedTensor, inverse: tuple[list[str], Tensor], need_indices: bool
) -> SequenceVBEContext:
    """How embeddings of each key's own batch become those of the full one."""
    keys, rows = inverse
    places = {key: at for at, key in enumerate(keys)}
    begins = features.lengths_offset_per_key()
    lengths = features.lengths().view(-1)
    # Which bag, among all bags of all keys, each example of the full batch has.
    bags = torch.cat([rows[places[key]] + begins[at] for at, key in enumerate(features.keys())])
    order = sources(bags, lengths)
    full = lengths[bags.long()].view(len(features.keys()), -1)
    return SequenceVBEContext(
        recat=order,
        unpadded_lengths=lengths,
        reindexed_lengths=full,
        reindexed_length_per_key=full.sum(1).tolist(),
        reindexed_values=features.values()[order] if need_indices else None,
    )

"""Managed collisions over several processes: each maps the ids of its part of the ids to its part of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import ShardedTensor  # type: ignore[attr-defined]
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties
from torch.distributed.tensor import DTensor, Shard

from flambeau.rec.distributed._bounds import IdOutOfBoundsError
from flambeau.rec.distributed.embedding_kernel import joined_shards
from flambeau.rec.distributed.embedding_sharding import EmbeddingSharding, EmbeddingShardingInfo, KJTListSplitsAwaitable
from flambeau.rec.distributed.embedding_types import BaseEmbeddingSharder, DTensorMetadata, KJTList
from flambeau.rec.distributed.embeddingbag import features_of
from flambeau.rec.distributed.sharding.rw_sequence_sharding import RwSequenceEmbeddingDist, RwSequenceEmbeddingSharding
from flambeau.rec.distributed.sharding.rw_sharding import RwSparseFeaturesDist
from flambeau.rec.distributed.sharding.sequence_sharding import (
    InferSequenceShardingContext,
    SequenceShardingContext,
)
from flambeau.rec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardedModule,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.mc_modules import ManagedCollisionCollection, ManagedCollisionModule
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable

if TYPE_CHECKING:
    from flambeau.rec.distributed._infer_mc_modules import (
        InferManagedCollisionCollectionSharder,
        ShardedQuantManagedCollisionCollection,
    )

__all__ = [
    "EmbeddingCollectionContext",
    "InferManagedCollisionCollectionSharder",
    "ManagedCollisionCollectionAwaitable",
    "ManagedCollisionCollectionContext",
    "ManagedCollisionCollectionSharder",
    "ShardedMCCRemapper",
    "ShardedManagedCollisionCollection",
    "ShardedQuantManagedCollisionCollection",
    "create_mc_sharding",
    "input_dist_permute",
    "update_jagged_tensor_dict",
]

# What every process has all of; what else a module keeps in checkpoints is kept for each row.
_WHOLE = frozenset({"_current_iter_tensor", "_hash_zch_bucket", "_output_segments_tensor"})


@dataclass
class EmbeddingCollectionContext(Multistreamable):
    """What the stages of one batch share.

    Args:
        sharding_contexts: of each sharding.
        input_features: of each sharding, the features before each id was left once.
        inverse_indices: keys, and (keys, full batch), where features have batches of their own.
        variable_batch_per_feature: whether they have.
        early_releasable_inputs: features whose memory is free once they were sent.
        reverse_indices: of each sharding, which of the ids left each one is.
    """

    sharding_contexts: list[InferSequenceShardingContext | SequenceShardingContext]
    input_features: list[KeyedJaggedTensor] = field(default_factory=list)
    inverse_indices: tuple[list[str], Tensor] | None = None
    variable_batch_per_feature: bool = False
    early_releasable_inputs: list[KeyedJaggedTensor] = field(default_factory=list)
    reverse_indices: list[Tensor] = field(default_factory=list)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for held in (*self.sharding_contexts, *self.input_features):
            held.record_stream(stream)
        inverse = [] if self.inverse_indices is None else [self.inverse_indices[1]]
        for tensor in (*inverse, *self.reverse_indices):
            tensor.record_stream(stream)


@dataclass
class ManagedCollisionCollectionContext(EmbeddingCollectionContext):
    """What the stages of one batch share; see `EmbeddingCollectionContext`."""


def create_mc_sharding(
    sharding_type: str,
    sharding_infos: list[EmbeddingShardingInfo],
    env: ShardingEnv,
    device: torch.device | None = None,
) -> EmbeddingSharding[SequenceShardingContext, KeyedJaggedTensor, Tensor, Tensor]:
    """The sharding of tables whose collisions are managed.

    Args:
        sharding_type: "row_wise".
        sharding_infos: the tables.
        env: the processes.
        device: of this one.

    Raises:
        OptionError: another type.
    """
    _check_type(sharding_type, [info.embedding_config.name for info in sharding_infos])
    return RwSequenceEmbeddingSharding(sharding_infos, env, device)


def _check_type(sharding_type: str, names: Sequence[str]) -> None:
    if sharding_type != ShardingType.ROW_WISE.value:
        raise OptionError(
            f"tables {list(names)} are spread {sharding_type}; where collisions are managed, only row_wise is "
            "supported: a process has the rows of the ids that it maps."
        )


def check_plan(plan: Mapping[str, ParameterSharding]) -> None:
    """Look whether each process has rows of all tables, which the ids that it maps come to.

    Args:
        plan: where each table goes.

    Raises:
        OptionError: a table that is spread in another way, or of which a process has no rows.
    """
    for name, sharding in plan.items():
        _check_type(sharding.sharding_type, [name])
        shards = getattr(sharding.sharding_spec, "shards", [])
        empty = [number for number, shard in enumerate(shards) if not shard.shard_sizes[0]]
        if empty:
            raise OptionError(
                f"table {name!r} has {sum(shard.shard_sizes[0] for shard in shards)} rows, of which some processes "
                f"have none, {empty}: their ids could not be mapped. Give each process a row, or use fewer processes."
            )


def input_dist_permute(
    features: KeyedJaggedTensor, features_order: list[int], features_order_tensor: Tensor
) -> KeyedJaggedTensor:
    """Features in another order: a place where graphs can be cut.

    Args:
        features: they.
        features_order: of each feature of the result, its place.
        features_order_tensor: the same, int32.
    """
    return features.permute(features_order, features_order_tensor, include_inverse_indices=True)


def update_jagged_tensor_dict(
    output: dict[str, JaggedTensor], new_dict: dict[str, JaggedTensor]
) -> dict[str, JaggedTensor]:
    """Add the entries of one dictionary to another, in place: a place where graphs can be cut.

    Args:
        output: it, which is returned.
        new_dict: what is added.
    """
    output.update(new_dict)
    return output


# ----- results --------------------------------------------------------------------------------------------------------


class ManagedCollisionCollectionAwaitable(LazyAwaitable[KeyedJaggedTensor]):
    """Rows of all ids of the local batch, under way.

    Args:
        awaitables_per_sharding: of each sharding: (ids, 1) rows, -1 for ids that have none.
        features_per_sharding: the features that were sent, of each sharding.
        embedding_names_per_sharding: what the results are called, of each sharding.
        need_indices: whether ids are given as weights; else these are those of the features, if they have any.
        features_to_permute_indices: accepted for upstream's sake; rows have one column.
        reverse_indices: of each sharding, where ids were left once, which of those each one is.
        original_features: of each sharding, where ids were left once, the features before.
        inverse_indices: keys, and (keys, full batch), where features have batches of their own.
    """

    def __init__(
        self,
        awaitables_per_sharding: list[Awaitable[Tensor]],
        features_per_sharding: list[KeyedJaggedTensor],
        embedding_names_per_sharding: list[list[str]],
        need_indices: bool = False,
        features_to_permute_indices: dict[str, list[int]] | None = None,
        reverse_indices: list[Tensor] | None = None,
        original_features: list[KeyedJaggedTensor] | None = None,
        inverse_indices: tuple[list[str], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self._awaitables, self._features = awaitables_per_sharding, features_per_sharding
        self._names, self._need_indices = embedding_names_per_sharding, need_indices
        self._reverse, self._originals = reverse_indices or [], original_features or []
        self._inverse = inverse_indices

    def _wait_impl(self) -> KeyedJaggedTensor:
        parts = []
        for at, awaitable in enumerate(self._awaitables):
            rows, features = awaitable.wait().view(-1), self._features[at]
            if self._reverse:
                rows, features = rows[self._reverse[at]], self._originals[at]
            weights = features.values() if self._need_indices else features.weights_or_none()
            parts.append(_with_rows(features, rows, weights, self._inverse))
        return parts[0] if len(parts) == 1 else KeyedJaggedTensor.concat(parts)


def _with_rows(
    features: KeyedJaggedTensor, rows: Tensor, weights: Tensor | None, inverse: tuple[list[str], Tensor] | None = None
) -> KeyedJaggedTensor:
    """Features with rows in place of ids, without those ids that have none."""
    rows, lengths, kept = without_missing(rows, features.lengths().view(-1))
    variable = features.variable_stride_per_key()
    return KeyedJaggedTensor(
        keys=features.keys(),
        values=rows,
        weights=weights if weights is None or kept is None else weights[kept],
        lengths=lengths,
        stride=None if variable else features.stride(),
        stride_per_key_per_rank=features.stride_per_key_per_rank() if variable else None,
        inverse_indices=inverse if inverse is not None else features.inverse_indices_or_none(),
    )


def without_missing(rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Bags of rows without those that are -1.

    Args:
        rows: (L,).
        lengths: (bags,): rows of each.

    Returns:
        The rows left, how many each bag has, and which those are; None where all are.
    """
    if not rows.numel() or int(rows.min()) >= 0:
        return rows, lengths, None
    kept = rows >= 0
    bags = torch.arange(lengths.numel(), device=rows.device).repeat_interleave(lengths, output_size=rows.numel())
    left = torch.zeros_like(lengths).index_add_(0, bags, kept.to(lengths.dtype))
    return rows[kept], left, kept


# ----- the collection -------------------------------------------------------------------------------------------------


class ShardedManagedCollisionCollection(
    ShardedModule[KJTList, KJTList, KeyedJaggedTensor, ManagedCollisionCollectionContext]
):
    """A `ManagedCollisionCollection` of which each process has a part.

    Ids are divided into as many blocks as there are processes (or parts, see `buckets` of the modules), and those of a
    block come to rows on its process alone; so a process maps them as the unsharded module would, had it that block and
    those rows only.

    Args:
        module: the collection; its state is not taken over, as ids may lie elsewhere.
        table_name_to_parameter_sharding: where each table goes: "row_wise".
        env: the processes.
        device: of this one.
        embedding_shardings: of the tables, by which their rows are known.
        qcomm_codecs_registry: not used: rows are exact.
        use_index_dedup: whether each id is sent and mapped once for each batch.

    Raises:
        OptionError: tables that are spread in another way, a table with fewer rows than processes, or rows of a process
            that do not begin and end with a part.
    """

    _features_order_tensor: Tensor

    def __init__(
        self,
        module: ManagedCollisionCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device,
        embedding_shardings: Sequence[EmbeddingSharding[Any, KeyedJaggedTensor, Tensor, Tensor]],
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        use_index_dedup: bool = False,
    ) -> None:
        super().__init__(qcomm_codecs_registry)
        check_plan(table_name_to_parameter_sharding)
        self.need_preprocess = module.need_preprocess
        self._env, self._device = env, torch.device(device)
        self._pg = embedding_shardings[0]._pg if embedding_shardings else env.process_group  # type: ignore[attr-defined]
        self._embedding_shardings: list[Any] = list(embedding_shardings)
        self._embedding_names_per_sharding = [sharding.embedding_names() for sharding in embedding_shardings]
        self._use_index_dedup = use_index_dedup
        self.post_lookup_tracker_fn: Callable[..., None] | None = None
        self._table_name_to_config = {table.name: table for table in module.embedding_configs()}
        self._features_order: list[int] | None = None
        self._input_keys: list[str] | None = None
        self._find_tables(module)
        self._managed_collision_modules = nn.ModuleDict(
            {name: self._rebuilt(name, module) for tables in self._sharding_tables for name in tables}
        )
        self.train(module.training)
        self._create_dists()
        self._register_state_dict_hook(self._whole_states)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(self._parts_of_states)  # type: ignore[no-untyped-call]

    def _find_tables(self, module: ManagedCollisionCollection) -> None:
        self._sharding_tables: list[list[str]] = []
        self._sharding_per_table_feature_splits: list[list[int]] = []
        self._feature_to_table: dict[str, str] = {}
        self._table_to_features: dict[str, list[str]] = {}
        # Of each table, the first row of each process, and the one behind the last.
        self._bounds: dict[str, list[int]] = {}
        self._placements: dict[str, list[ShardMetadata]] = {}
        for sharding in self._embedding_shardings:
            tables = [table for config in sharding._grouped_embedding_configs for table in config.embedding_tables]
            self._sharding_tables.append([table.name for table in tables])
            self._sharding_per_table_feature_splits.append([len(table.feature_names) for table in tables])
            for table in tables:
                self._table_to_features[table.name] = list(table.feature_names)
                self._feature_to_table |= dict.fromkeys(table.feature_names, table.name)
                places = [
                    one.local_metadata
                    for of_rank in sharding._grouped_embedding_configs_per_rank
                    for config in of_rank
                    for one in config.embedding_tables
                    if one.name == table.name
                ]
                self._placements[table.name] = places
                starts = [place.shard_offsets[0] for place in places]
                self._bounds[table.name] = [*starts, places[-1].shard_offsets[0] + places[-1].shard_sizes[0]]
        self._rank = dist.get_rank(self._pg) if self._pg is not None else self._env.rank
        self._table_to_offset = {name: bounds[self._rank] for name, bounds in self._bounds.items()}

    def _rebuilt(self, name: str, module: ManagedCollisionCollection) -> ManagedCollisionModule:
        bounds, whole = self._bounds[name], module._managed_collision_modules[name]
        assert isinstance(whole, ManagedCollisionModule)
        buckets = whole.buckets()
        segments: list[int] | None = getattr(whole, "_output_segments", None)
        if segments is None:
            even = buckets > 1 and bounds[-1] % buckets == 0
            segments = [bounds[-1] // buckets * at for at in range(buckets + 1)] if even else bounds
        first, behind = bounds[self._rank], bounds[self._rank + 1]
        if first not in segments or behind not in segments:
            raise OptionError(
                f"table {name!r}: process {self._rank} has rows {first} to {behind}, which do not begin and end with "
                f"parts, {segments}; choose a number of buckets that the number of processes divides."
            )
        return whole.rebuild_with_output_id_range((first, behind), segments, self._device)

    def _create_dists(self) -> None:
        if self._pg is None:
            raise OptionError("tables go to several processes, but the environment has none; give it a process group.")
        self._dists: list[RwSparseFeaturesDist] = []
        self._row_dists: list[RwSequenceEmbeddingDist] = []
        size = dist.get_world_size(self._pg)
        for sharding, tables in zip(self._embedding_shardings, self._sharding_tables, strict=True):
            names = [name for name in tables for _ in self._table_to_features[name]]
            modules = [self._module(name) for name in names]
            # Modules of their own blocks of ids for each part; else a block for each process.
            buckets = [one.buckets() if one.buckets() % size == 0 else size for one in modules]
            self._dists.append(
                RwSparseFeaturesDist(
                    self._pg,
                    len(names),
                    [one.input_size() for one in modules],
                    feature_total_num_buckets=buckets,
                    device=self._device,
                    is_sequence=True,
                    keep_original_indices=True,
                )
            )
            self._row_dists.append(RwSequenceEmbeddingDist(self._pg, len(sharding.feature_names()), self._device, None))

    def _module(self, name: str) -> Any:
        return self._managed_collision_modules[name]

    # ----- stages -----------------------------------------------------------------------------------------------------

    def create_context(self) -> ManagedCollisionCollectionContext:
        """What the stages of one batch share."""
        return ManagedCollisionCollectionContext(sharding_contexts=[])

    def _find_features(self, keys: list[str]) -> None:
        if keys == self._input_keys:
            return
        names = [name for sharding in self._embedding_shardings for name in sharding.feature_names()]
        places = {key: at for at, key in enumerate(keys)}
        missing = sorted(set(names) - set(places))
        if missing:
            raise OptionError(f"features {missing} are not in the batch, which has {keys}.")
        order = [places[name] for name in names]
        self._features_order = [] if order == list(range(len(keys))) else order
        self.register_buffer(
            "_features_order_tensor",
            torch.tensor(self._features_order, device=self._device, dtype=torch.int32),
            persistent=False,
        )
        self._input_keys = keys

    def input_dist(
        self, ctx: ManagedCollisionCollectionContext, features: KeyedJaggedTensor, skip_permute: bool = False
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send ids.

        Args:
            ctx: of the batch.
            features: of the local batch; those of no table are left out.
            skip_permute: whether features are in the order of the shardings.

        Raises:
            IdOutOfBoundsError: an id that belongs to no process, with the feature's name.
            OptionError: a feature is missing.
        """
        features = features_of(features)
        ctx.inverse_indices = features.inverse_indices_or_none()
        ctx.variable_batch_per_feature = features.variable_stride_per_key()
        awaitables: list[Awaitable[Awaitable[KeyedJaggedTensor]]] = []
        with torch.no_grad():
            if not skip_permute:
                self._find_features(list(features.keys()))
                if self._features_order:
                    features = input_dist_permute(features, self._features_order, self._features_order_tensor)
            counts = [len(sharding.feature_names()) for sharding in self._embedding_shardings]
            for at, part in enumerate(features.split(counts)):
                ids = self._preprocessed(at, part)
                if self._use_index_dedup:
                    ids = _each_once(ids, ctx)
                send = self._dists[at]
                awaitables.append(send(ids))
                ctx.sharding_contexts.append(
                    SequenceShardingContext(
                        features_before_input_dist=ids,
                        batch_size_per_feature_pre_a2a=ids.stride_per_key(),
                        variable_batch_per_feature=ids.variable_stride_per_key(),
                        unbucketize_permute_tensor=send.unbucketize_permute_tensor,
                    )
                )
        return KJTListSplitsAwaitable(awaitables, ctx)

    def _preprocessed(self, at: int, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Ids as they are divided among processes, such as hashes of them."""
        names, counts = self._sharding_tables[at], self._sharding_per_table_feature_splits[at]
        ids = []
        for name, part in zip(names, features.split(counts), strict=True):
            module = self._module(name)
            given = {name: JaggedTensor(part.values(), part.weights_or_none(), part.lengths().view(-1))}
            values = (module.preprocess(given) if self.need_preprocess else given)[name].values()
            self._check_ids(name, part, values, module)
            ids.append(values.to(torch.int64))
        values = torch.cat(ids) if ids else features.values()
        return features._with(values, features.weights_or_none(), features.lengths(), features.offsets_or_none())

    def _check_ids(self, name: str, features: KeyedJaggedTensor, ids: Tensor, module: Any) -> None:
        if not ids.numel() or ids.device.type != "cpu":
            return
        # Only modules that place ids by blocks of their own have no place for larger ones.
        bound = module.input_size() if hasattr(module, "input_mapper") else 0
        low, high = torch.aminmax(ids)
        if int(low) >= 0 and (not bound or int(high) < bound):
            return
        place = int(((ids < 0) | (ids >= bound) if bound else ids < 0).nonzero()[0])
        at = int(torch.searchsorted(torch.tensor(features.offset_per_key()), torch.tensor(place), right=True)) - 1
        wanted = f"0 to {bound - 1}, its input_hash_size less 1" if bound else "none below 0"
        raise IdOutOfBoundsError(
            f"feature {features.keys()[at]!r} has the id {int(ids[place])} on process {self._rank}, expected {wanted}: "
            f"collisions are managed for table {name!r}. Correct the ids, or hash them first."
        )

    def compute(self, ctx: ManagedCollisionCollectionContext, dist_input: KJTList) -> KJTList:
        """Map what all processes asked this one for.

        Returns:
            Of each sharding, the features with rows as this process counts its own; -1 for an id that has none.
        """
        return KJTList([self._mapped(at, features) for at, features in enumerate(dist_input)])

    @torch.no_grad()
    def _mapped(self, at: int, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        names, counts = self._sharding_tables[at], self._sharding_per_table_feature_splits[at]
        rows = [
            self.get_lookup_value(name, part)[name].values()
            for name, part in zip(names, features.split(counts), strict=True)
        ]
        values = torch.cat(rows) if rows else features.values()
        mapped = features._with(values, features.weights_or_none(), features.lengths(), features.offsets_or_none())
        if self.post_lookup_tracker_fn is not None:
            self.post_lookup_tracker_fn(mapped, torch.empty(0), self, features.values(), None)
        return mapped

    @torch.no_grad()
    def get_lookup_value(
        self, table: str, features: KeyedJaggedTensor, write_weights: Tensor | None = None
    ) -> dict[str, JaggedTensor]:
        """Map the ids of one table; in training, learn from them.

        Args:
            table: its name.
            features: ids of its features, of all processes.
            write_weights: (L, numbers): what is noted of rows, by modules that do so.

        Returns:
            By the table's name, rows as this process counts its own; -1 for an id that has none.

        Raises:
            OptionError: a module leaves ids out by itself, so that it is not known which.
        """
        module = self._module(table)
        given = JaggedTensor(features.values(), features.weights_or_none(), features.lengths().view(-1))
        rows_of = getattr(module, "rows_of", None)
        if rows_of is not None:
            rows = rows_of(given, write_weights)
        else:
            rows = module({table: given}, mutate_miss_lengths=False)[table].values()
            if rows.numel() != given.values().numel():
                raise OptionError(
                    f"{type(module).__name__}, which manages collisions of table {table!r}, gave {rows.numel()} rows "
                    f"for {given.values().numel()} ids; give a row for each, or define rows_of(feature), which gives "
                    "-1 for those without one."
                )
        found = JaggedTensor(values=rows, lengths=given.lengths(), weights=given.weights_or_none())
        return self.global_to_local_index({table: found})

    def global_to_local_index(self, jt_dict: dict[str, JaggedTensor]) -> dict[str, JaggedTensor]:
        """Rows of whole tables as rows of the parts here.

        Args:
            jt_dict: by the names of tables; -1, an id without a row, stays.
        """
        return {name: _moved(jagged, -self._table_to_offset[name]) for name, jagged in jt_dict.items()}

    def output_dist(self, ctx: ManagedCollisionCollectionContext, output: KJTList) -> LazyAwaitable[KeyedJaggedTensor]:
        """Start to send rows back, as those of whole tables.

        Args:
            ctx: of the batch.
            output: what `compute` gave.

        Returns:
            Awaitable of the features of all tables, with rows in place of ids.
        """
        return ManagedCollisionCollectionAwaitable(
            self.rows_dist(ctx, output),
            [one.features_before_input_dist for one in ctx.sharding_contexts],  # type: ignore[misc]
            self._embedding_names_per_sharding,
            reverse_indices=ctx.reverse_indices,
            original_features=ctx.input_features,
            inverse_indices=ctx.inverse_indices,
        )

    @torch.no_grad()
    def rows_dist(self, ctx: ManagedCollisionCollectionContext, output: KJTList) -> list[Awaitable[Tensor]]:
        """Start to send rows back; of each sharding, awaitables of (ids sent, 1) rows of whole tables.

        Args:
            ctx: of the batch.
            output: what `compute` gave.
        """
        awaitables = []
        for at, (features, sharding_ctx) in enumerate(zip(output, ctx.sharding_contexts, strict=True)):
            names, counts = self._sharding_tables[at], self._sharding_per_table_feature_splits[at]
            ends, begin, rows = features.offset_per_key(), 0, []
            for name, count in zip(names, counts, strict=True):
                local = features.values()[ends[begin] : ends[begin + count]]
                rows.append(torch.where(local >= 0, local + self._table_to_offset[name], local))
                begin += count
            values = torch.cat(rows) if rows else features.values()
            awaitables.append(self._row_dists[at](values.view(-1, 1), sharding_ctx))
        return awaitables

    # ----- what modules say -------------------------------------------------------------------------------------------

    def evict(self) -> dict[str, Tensor | None]:
        """Of each table, rows here that changed hands since this was last asked, as rows of the whole table."""
        return {name: module.evict() for name, module in self._managed_collision_modules.items()}  # type: ignore[operator]

    def open_slots(self) -> dict[str, Tensor]:
        """Of each table, rows here that are nobody's yet."""
        return {name: module.open_slots() for name, module in self._managed_collision_modules.items()}  # type: ignore[operator]

    def leaves_ids_out(self) -> bool:
        """Whether any module may have ids without rows."""
        return any(bool(getattr(module, "disable_fallback", False)) for module in self._modules_here())

    def _modules_here(self) -> Iterator[nn.Module]:
        yield from self._managed_collision_modules.values()

    def embedding_configs(self) -> list[Any]:
        """The tables."""
        return list(self._table_name_to_config.values())

    def register_post_lookup_tracker_fn(
        self, record_fn: Callable[[KeyedJaggedTensor, Tensor, nn.Module | None, Tensor | None, Tensor | None], None]
    ) -> None:
        """Call a function with what was mapped.

        Args:
            record_fn: of the features with rows here in place of ids, an empty tensor, this module, the ids, and None.
        """
        self.post_lookup_tracker_fn = record_fn

    # ----- states -----------------------------------------------------------------------------------------------------

    def _kept(self) -> Iterator[tuple[str, str, Tensor]]:
        """Of each table, the name of what is kept for each row in checkpoints, and it."""
        for table, module in self._managed_collision_modules.items():
            own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in own:
                if name not in _WHOLE and name not in module._non_persistent_buffers_set and tensor.dim():
                    yield table, name, tensor

    def _whole_states(self, module: nn.Module, destination: dict[str, Any], prefix: str, _: Any) -> None:
        """Replace parts by wholes in a state dictionary."""
        for table, name, tensor in self._kept():
            key = f"{prefix}_managed_collision_modules.{table}.{name}"
            if key in destination:
                destination[key] = self._whole(table, tensor.detach())

    def _whole(self, table: str, tensor: Tensor) -> ShardedTensor | DTensor:
        rest = list(tensor.shape[1:])
        places = [
            ShardMetadata(
                [place.shard_offsets[0], *[0] * len(rest)], [place.shard_sizes[0], *rest], placement=place.placement
            )
            for place in self._placements[table]
        ]
        size = torch.Size([self._bounds[table][-1], *rest])
        properties = TensorProperties(
            dtype=tensor.dtype, layout=tensor.layout, requires_grad=False, memory_format=torch.contiguous_format,
            pin_memory=False,
        )  # fmt: skip
        dtensor = None
        if self._env.output_dtensor:
            strides = tuple(int(torch.Size(rest[at:]).numel()) for at in range(len(rest) + 1))
            dtensor = DTensorMetadata(self._embedding_shardings[0]._mesh(), (Shard(0),), tuple(size), strides)
        assert self._pg is not None
        return joined_shards(
            [tensor], [places[self._rank]], ShardedTensorMetadata(places, size, properties), self._pg, dtensor
        )

    def _parts_of_states(self, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        """Replace wholes by the parts here, before a state is loaded."""
        for table, name, tensor in self._kept():
            key = f"{prefix}_managed_collision_modules.{table}.{name}"
            if key in state_dict:
                state_dict[key] = _part(state_dict[key], self._table_to_offset[table], tensor.shape[0], table)

    def sharded_parameter_names(self, prefix: str = "") -> Iterator[str]:
        """Names of all that modules keep, which differs between processes."""
        inside = f"{prefix}.{_MODULES}" if prefix else _MODULES
        for name, _ in self._managed_collision_modules.named_parameters(inside):
            yield name
        for name, _ in self._managed_collision_modules.named_buffers(inside):
            yield name

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`ManagedCollisionCollection`."""
        return ManagedCollisionCollection


_MODULES = "_managed_collision_modules"


def _moved(jagged: JaggedTensor, by: int) -> JaggedTensor:
    values = jagged.values()
    return JaggedTensor(
        values=torch.where(values >= 0, values + by, values),
        lengths=jagged.lengths(),
        offsets=jagged.offsets_or_none(),
        weights=jagged.weights_or_none(),
    )


def _part(whole: Any, first: int, count: int, table: str) -> Tensor:
    """Some rows of a whole tensor."""
    if isinstance(whole, ShardedTensor):
        for shard in whole.local_shards():
            if shard.metadata.shard_offsets[0] == first and shard.tensor.shape[0] == count:
                return shard.tensor.detach()
        raise OptionError(
            f"the state has other ids of table {table!r} on this process than it should have; load it by "
            "torch.distributed.checkpoint, which moves them."
        )
    if isinstance(whole, DTensor):
        local = whole._local_tensor
        shards = getattr(local, "local_shards", None)
        return (shards()[0] if shards is not None else local).detach()
    part: Tensor = whole.detach()
    return part if part.shape[0] == count else part[first : first + count]


def _each_once(features: KeyedJaggedTensor, ctx: ManagedCollisionCollectionContext) -> KeyedJaggedTensor:
    from flambeau.rec.distributed.embedding import each_once

    return each_once(features, ctx)


# ----- a part of it for one device ------------------------------------------------------------------------------------


class ShardedMCCRemapper(nn.Module):
    """Maps ids of features to the rows of one part of their tables.

    Args:
        table_feature_splits: features of each table.
        fns: all features, table by table.
        managed_collision_modules: of the part, by the names of tables.
        shard_metadata: of each table, the first row of the part, and how many it has.
    """

    def __init__(
        self,
        table_feature_splits: list[int],
        fns: list[str],
        managed_collision_modules: nn.ModuleDict,
        shard_metadata: dict[str, list[int]],
    ) -> None:
        super().__init__()
        self._table_feature_splits, self._fns = table_feature_splits, fns
        self.zchs = managed_collision_modules
        self._tables = list(managed_collision_modules)
        self._shard_metadata = shard_metadata

    def global_to_local_index(self, jt_dict: dict[str, JaggedTensor]) -> dict[str, JaggedTensor]:
        """Rows of whole tables as rows of the part.

        Args:
            jt_dict: by the names of tables.
        """
        return {name: _moved(jagged, -self._shard_metadata[name][0]) for name, jagged in jt_dict.items()}

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Map.

        Args:
            features: ids of all features, table by table.

        Returns:
            The features with rows of the part in place of ids.
        """
        output: dict[str, JaggedTensor] = {}
        for name, part in zip(self._tables, features.split(self._table_feature_splits), strict=True):
            given = {name: JaggedTensor(part.values(), part.weights_or_none(), part.lengths().view(-1))}
            mapped = self.global_to_local_index(self.zchs[name](given))
            output = update_jagged_tensor_dict(output, mapped)
        weights = [one.weights_or_none() for one in output.values()]
        variable = features.variable_stride_per_key()
        return KeyedJaggedTensor(
            keys=self._fns,
            values=torch.cat([one.values() for one in output.values()]),
            weights=torch.cat(weights) if weights and weights[0] is not None else None,  # type: ignore[arg-type]
            lengths=torch.cat([one.lengths().view(-1) for one in output.values()]),
            stride=None if variable else features.stride(),
            stride_per_key_per_rank=features.stride_per_key_per_rank() if variable else None,
        )


# ----- sharders -------------------------------------------------------------------------------------------------------


class ManagedCollisionCollectionSharder(BaseEmbeddingSharder[ManagedCollisionCollection]):
    """Spreads `ManagedCollisionCollection` over processes, beside the tables.

    Args:
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(self, qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None) -> None:
        super().__init__(qcomm_codecs_registry=qcomm_codecs_registry)

    def shard(  # type: ignore[override]
        self,
        module: ManagedCollisionCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        embedding_shardings: Sequence[EmbeddingSharding[Any, KeyedJaggedTensor, Tensor, Tensor]],
        device: torch.device | None = None,
        use_index_dedup: bool = False,
    ) -> ShardedManagedCollisionCollection:
        """The sharded collection.

        Args:
            module: the collection.
            params: where each table goes.
            env: the processes.
            embedding_shardings: of the tables.
            device: of this process.
            use_index_dedup: whether each id is sent and mapped once for each batch.
        """
        here = torch.device("cpu") if device is None else device
        return ShardedManagedCollisionCollection(
            module, params, env, here, embedding_shardings, self.qcomm_codecs_registry, use_index_dedup
        )

    def shardable_parameters(self, module: ManagedCollisionCollection) -> dict[str, nn.Parameter]:
        """None: what is kept goes where the tables go."""
        return {}

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """Row-wise."""
        return [ShardingType.ROW_WISE.value]

    @property
    def module_type(self) -> type[ManagedCollisionCollection]:
        """`ManagedCollisionCollection`."""
        return ManagedCollisionCollection


# What maps ids for inference is built on this module.
_FOR_INFERENCE = ("InferManagedCollisionCollectionSharder", "ShardedQuantManagedCollisionCollection")


def __getattr__(name: str) -> Any:
    if name not in _FOR_INFERENCE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flambeau.rec.distributed import _infer_mc_modules

    return getattr(_infer_mc_modules, name)

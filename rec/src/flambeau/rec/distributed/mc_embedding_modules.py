"""What sharded collections of tables whose collisions are managed share: map ids where their rows are, and look up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from flambeau.rec.distributed._hash_tables import merged_rows
from flambeau.rec.distributed.embedding import (
    EmbeddingCollectionAwaitable,
    EmbeddingCollectionSharder,
    to_full_batch,
)
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingSharder,
    EmbeddingComputeKernel,
    KJTList,
    ShardedEmbeddingModule,
)
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.mc_modules import (
    ManagedCollisionCollectionSharder,
    ShardedManagedCollisionCollection,
    check_plan,
    without_missing,
)
from flambeau.rec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    NoWait,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
)
from flambeau.rec.distributed.utils import append_prefix
from flambeau.rec.modules.mc_embedding_modules import (
    BaseManagedCollisionEmbeddingCollection,
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = ["BaseManagedCollisionEmbeddingCollectionSharder", "BaseShardedManagedCollisionEmbeddingCollection"]

M = TypeVar("M", bound=nn.Module)


class BaseShardedManagedCollisionEmbeddingCollection(ShardedEmbeddingModule[KJTList, list[Tensor], Any, Any]):
    """Ids are sent to the processes that map them, and looked up there; they are sent once.

    Args:
        module: the collection; where its tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes: "row_wise".
        e_sharder: spreads the tables.
        mc_sharder: spreads what maps.
        env: the processes.
        device: of this one.

    Raises:
        OptionError: tables that are spread in another way, or that have fewer rows than there are processes.
    """

    def __init__(
        self,
        module: ManagedCollisionEmbeddingBagCollection | ManagedCollisionEmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        e_sharder: EmbeddingBagCollectionSharder | EmbeddingCollectionSharder,
        mc_sharder: ManagedCollisionCollectionSharder,
        env: ShardingEnv,
        device: torch.device,
    ) -> None:
        super().__init__()
        self._device, self._env = device, env
        self.bagged = isinstance(module, ManagedCollisionEmbeddingBagCollection)
        check_plan(table_name_to_parameter_sharding)
        self._embedding_module: Any = e_sharder.shard(
            module._embedding_module,  # type: ignore[arg-type]
            table_name_to_parameter_sharding,
            env,
            device,
        )
        self._managed_collision_collection: ShardedManagedCollisionCollection = mc_sharder.shard(
            module._managed_collision_collection,
            table_name_to_parameter_sharding,
            env,
            self._embedding_module._embedding_shardings,
            device,
            use_index_dedup=bool(getattr(self._embedding_module, "_use_index_dedup", False)),
        )
        self._return_remapped_features = module._return_remapped_features
        self._allow_in_place_embed_weight_update = module._allow_in_place_embed_weight_update
        self._lookups = self._embedding_module._lookups
        self._leaves_ids_out = self._managed_collision_collection.leaves_ids_out()

    # ----- stages -----------------------------------------------------------------------------------------------------

    def input_dist(self, ctx: Any, features: KeyedJaggedTensor) -> Awaitable[Awaitable[KJTList]]:
        """Start to send ids.

        Args:
            ctx: of the batch.
            features: of the local batch; those of no table are left out.

        Raises:
            IdOutOfBoundsError: an id that belongs to no process, with the feature's name.
            OptionError: a feature is missing.
        """
        sent = self._managed_collision_collection.input_dist(ctx, features)
        with torch.no_grad():
            self._describe(ctx)
        return sent

    def _describe(self, ctx: Any) -> None:
        """Note what the look-up wants to know of the features that were sent."""
        inverse = ctx.inverse_indices
        if self.bagged or inverse is None:
            return
        originals = ctx.input_features or [one.features_before_input_dist for one in ctx.sharding_contexts]
        need_indices = self._embedding_module._need_indices
        ctx.seq_vbe_ctx = [to_full_batch(features, inverse, need_indices) for features in originals]

    def compute(self, ctx: Any, dist_input: KJTList) -> list[Tensor]:
        """Map and look up what all processes asked this one for."""
        collection = self._managed_collision_collection
        rows = collection.compute(ctx, dist_input)
        ctx.remapped_kjt = rows
        ctx.evictions_per_table = collection.evict()
        # Upstream: in sharded modules whatever allow_in_place_embed_weight_update says.
        self._begin_anew(ctx.evictions_per_table)
        if not self._leaves_ids_out:
            return self._embedding_module.compute(ctx, rows)  # type: ignore[no-any-return]
        left, kept = [], []
        for features in rows:
            values, lengths, mask = without_missing(features.values(), features.lengths().view(-1))
            weights = features.weights_or_none()
            variable = features.variable_stride_per_key()
            left.append(
                KeyedJaggedTensor(
                    features.keys(),
                    values,
                    weights if weights is None or mask is None else weights[mask],
                    lengths=lengths,
                    stride=None if variable else features.stride(),
                    stride_per_key_per_rank=features.stride_per_key_per_rank() if variable else None,
                )
            )
            kept.append(mask)
        found: list[Tensor] = self._embedding_module.compute(ctx, KJTList(left))
        if self.bagged:
            return found
        # Of ids without a row, rows of 0 are sent back, which are left out where they arrive.
        return [
            one if mask is None else one.new_zeros(mask.numel(), one.shape[1]).index_put((mask,), one)
            for one, mask in zip(found, kept, strict=True)
        ]

    @torch.no_grad()
    def _begin_anew(self, evictions: dict[str, Tensor | None]) -> None:
        """Begin rows here anew that changed hands, as the configuration of their table says; their means of squared
        gradients (row-wise Adagrad) begin at 0, too.
        """
        parts = self._embedding_module._local_parts()
        offsets = self._managed_collision_collection._table_to_offset
        for name, table in self._managed_collision_collection._table_name_to_config.items():
            rows = evictions.get(name)
            if rows is None or not rows.numel():
                continue
            weight = parts[name][0][1]
            fresh = torch.empty(rows.numel(), weight.shape[1], dtype=weight.dtype, device=weight.device)
            assert table.init_fn is not None
            table.init_fn(fresh)
            weight[rows - offsets[name]] = fresh
            for kept in self._rows_of(name, True):
                if kept.dim() == 1:
                    kept[rows - offsets[name]] = 0

    def output_dist(  # type: ignore[override]
        self, ctx: Any, output: list[Tensor]
    ) -> tuple[LazyAwaitable[Any], LazyAwaitable[KeyedJaggedTensor | None]]:
        """Start to send embeddings back.

        Returns:
            Awaitables of the embeddings, and of the rows of whole tables, or of None.
        """
        collection = self._managed_collision_collection
        remapped: Any = NoWait(None)
        if self._return_remapped_features:
            remapped = collection.output_dist(ctx, ctx.remapped_kjt)
        if self.bagged:
            if self._leaves_ids_out:
                self._correct_means(ctx)
            return self._embedding_module.output_dist(ctx, output), remapped
        found = self._embedding_module.output_dist(ctx, output)
        if self._leaves_ids_out or self._embedding_module._need_indices:
            found = _MappedSequences(
                found, self._rows_by_name(ctx), self._leaves_ids_out, self._embedding_module._need_indices
            )
        return found, remapped

    def _rows_by_name(self, ctx: Any) -> EmbeddingCollectionAwaitable:
        """Rows of all ids, in the form of their embeddings."""
        return EmbeddingCollectionAwaitable(
            awaitables_per_sharding=self._managed_collision_collection.rows_dist(ctx, ctx.remapped_kjt),
            features_per_sharding=[one.features_before_input_dist for one in ctx.sharding_contexts],
            embedding_names_per_sharding=self._embedding_module._names,
            ctx=ctx,
        )

    def _correct_means(self, ctx: Any) -> None:
        """Divide by the ids of a bag that have rows, where bags are averaged, as it is known only now."""
        if all(factor is None for factor in ctx.factors):
            return
        waits = self._managed_collision_collection.rows_dist(ctx, ctx.remapped_kjt)
        module = self._embedding_module
        ctx.factors = []
        for wait, one, kind, means in zip(
            waits, ctx.sharding_contexts, module._sharding_types, module._means, strict=True
        ):
            features = one.features_before_input_dist
            _, lengths, _ = without_missing(wait.wait().view(-1), features.lengths().view(-1))
            left = features._with(features.values(), None, lengths, None)
            ctx.factors.append(module._factor(module.shardings[kind], left, means))

    def prefetch(self, dist_input: KJTList, forward_stream: torch.Stream | None = None, ctx: Any | None = None) -> None:
        """Nothing: which rows the batch will need is known once its ids are mapped."""

    # ----- copies that are kept equal ---------------------------------------------------------------------------------

    @torch.no_grad()
    def sync_hash_zch_weights(
        self,
        table_name: str,
        rank_to_global: Tensor,
        survived: Tensor,
        include_optimizer_state: bool,
        allreduce_fn: Callable[[dict[torch.dtype, list[Tensor]], str, Any], None],
        indices_slots: Tensor | None = None,
    ) -> None:
        """Average rows over copies of a table whose ids lie in different rows of each; see `merged_rows`.

        Args:
            table_name: of the table.
            rank_to_global: (rows here,) int64: where the id of each row of this copy lies in all; -1 for none.
            survived: (rows here,) bool: rows of this copy whose id is in the table after all copies were joined.
            include_optimizer_state: whether what the optimizer keeps of rows is averaged as well.
            allreduce_fn: adds up or averages, in place, tensors by their dtype over the copies; it is given them, a
                name for profiles, and options.
            indices_slots: (rows,): the only rows to average; all by default.
        """
        for tensor in self._rows_of(table_name, include_optimizer_state):
            merged_rows(tensor, rank_to_global, survived, allreduce_fn, indices_slots)

    def _rows_of(self, table_name: str, include_optimizer_state: bool) -> Iterator[Tensor]:
        for kernel in self._embedding_module._kernels():
            states: list[Any] = getattr(kernel.emb_module, "split_optimizer_states", list)()
            for at, (table, weight) in enumerate(
                zip(kernel.config.embedding_tables, kernel.split_embedding_weights(), strict=True)
            ):
                if table.name != table_name:
                    continue
                yield weight
                if include_optimizer_state and states:
                    yield from states[at]

    # ----- names ------------------------------------------------------------------------------------------------------

    def sharded_parameter_names(self, prefix: str = "") -> Iterator[str]:
        """Names of all tables, and of all that is kept of ids."""
        yield from self._embedding_module.sharded_parameter_names(append_prefix(prefix, "_embedding_module"))
        yield from self._managed_collision_collection.sharded_parameter_names(
            append_prefix(prefix, "_managed_collision_collection")
        )


class _MappedSequences(LazyAwaitable[dict[str, JaggedTensor]]):
    """Embeddings of ids, without those that have no row, and with rows as weights where that is asked for."""

    def __init__(
        self,
        embeddings: LazyAwaitable[dict[str, JaggedTensor]],
        rows: LazyAwaitable[dict[str, JaggedTensor]],
        leaves_out: bool,
        need_indices: bool,
    ) -> None:
        super().__init__()
        self._embeddings, self._rows, self._leaves_out, self._need_indices = embeddings, rows, leaves_out, need_indices

    def _wait_impl(self) -> dict[str, JaggedTensor]:
        rows = self._rows.wait()
        found = {}
        for name, of_name in self._embeddings.wait().items():
            own, lengths = rows[name].values().view(-1), of_name.lengths()
            kept = None
            if self._leaves_out:
                own, lengths, kept = without_missing(own, lengths)
            found[name] = JaggedTensor(
                values=of_name.values() if kept is None else of_name.values()[kept],
                lengths=lengths,
                weights=own if self._need_indices else None,
            )
        return found


class BaseManagedCollisionEmbeddingCollectionSharder(BaseEmbeddingSharder[M]):
    """Spreads tables whose collisions are managed over processes.

    Args:
        e_sharder: spreads the tables.
        mc_sharder: spreads what maps.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        e_sharder: EmbeddingBagCollectionSharder | EmbeddingCollectionSharder,
        mc_sharder: ManagedCollisionCollectionSharder,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry=qcomm_codecs_registry)
        self._e_sharder, self._mc_sharder = e_sharder, mc_sharder

    def shardable_parameters(self, module: BaseManagedCollisionEmbeddingCollection) -> dict[str, nn.Parameter]:  # type: ignore[override]
        """The tables, by name."""
        return self._e_sharder.shardable_parameters(module._embedding_module)  # type: ignore[arg-type]

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread, of which what maps can be spread as well."""
        maps = self._mc_sharder.sharding_types(compute_device_type)
        return [kind for kind in self._e_sharder.sharding_types(compute_device_type) if kind in maps]

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        """The kernels, of any device."""
        return [
            EmbeddingComputeKernel.FUSED.value,
            EmbeddingComputeKernel.FUSED_UVM_CACHING.value,
            EmbeddingComputeKernel.FUSED_UVM.value,
            EmbeddingComputeKernel.KEY_VALUE.value,
        ]

    @property
    def fused_params(self) -> dict[str, Any] | None:
        """Options of the kernels."""
        return self._e_sharder.fused_params

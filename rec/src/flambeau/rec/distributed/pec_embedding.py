"""Collections over several processes whose batches are split by what they have in common with the batch before.

Rows that the batch before trains have to wait for its gradients; all others are looked up and sent while it computes.
In the backward pass the gradients that the next batch waits for are sent first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.embedding import (
    EmbeddingCollectionContext,
    EmbeddingCollectionSharder,
    ShardedEmbeddingCollection,
)
from flambeau.rec.distributed.embedding_types import BaseEmbeddingSharder, KJTList, ShardedEmbeddingModule
from flambeau.rec.distributed.pec_collision_handlers import (
    MaskDistAwaitable,
    OverlapHandler,
    OverlapSplits,
    create_overlap_handler,
    order_by_process,
    split_kjt_by_values_mask,
)
from flambeau.rec.distributed.pec_comm_ops import PECAll2AllSeqInfo, PECAll2AllSeqWait, PECGradUpdateAwaitable
from flambeau.rec.distributed.sharding.sequence_sharding import SequenceShardingContext
from flambeau.rec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.pec_embedding_modules import PECEmbeddingCollection
from flambeau.rec.modules.utils import construct_jagged_tensors
from flambeau.rec.optim.fused import FusedOptimizerModule
from flambeau.rec.optim.keyed import KeyedOptimizer
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = [
    "BackwardPartitionContext",
    "ForwardPartitionContext",
    "OverlapDistAwaitable",
    "OverlapDistOutput",
    "PECEmbeddingCollectionAwaitable",
    "PECEmbeddingCollectionContext",
    "PECEmbeddingCollectionSharder",
    "ShardedPECEmbeddingCollection",
]


@dataclass
class ForwardPartitionContext:
    """The two parts of a batch: ids that the batch before has as well (ol), and the others (nol).

    Args:
        splits: how many ids of each part go where.
        permute: (ids,) the place of each id of the local batch among the rows of both parts.
        ol_features: the first part, as it came to this process.
        nol_features: the second.
    """

    splits: OverlapSplits
    permute: Tensor
    ol_features: KeyedJaggedTensor
    nol_features: KeyedJaggedTensor


@dataclass
class BackwardPartitionContext:
    """The two parts of the batch before: ids that this batch has as well (ol), and the others (nol).

    Args:
        splits: how many ids of each part go where.
        ol_permute: which ids of the local batch the first part has, in the order in which they were sent.
        nol_permute: which ids the second has.
        ol_features: the first part, as it came to this process.
        nol_features: the second.
    """

    splits: OverlapSplits
    ol_permute: Tensor
    nol_permute: Tensor
    ol_features: KeyedJaggedTensor
    nol_features: KeyedJaggedTensor


OverlapDistOutput = tuple[ForwardPartitionContext | None, BackwardPartitionContext | None]


@dataclass
class PECEmbeddingCollectionContext(EmbeddingCollectionContext):
    """What the stages of one batch share.

    Args:
        remapped_kjt_values: of each sharding, ids of all tables as numbers that no two rows share.
        autograd_ctx_per_sharding: of each sharding, how rows are joined and gradients parted.
    """

    remapped_kjt_values: list[Tensor] | None = None
    autograd_ctx_per_sharding: list[PECAll2AllSeqInfo] | None = None


class OverlapDistAwaitable(LazyAwaitable[OverlapDistOutput]):
    """The parts of a batch, and of the one before, under way.

    Args:
        handler: of the sharding.
        ol_features: ids of this batch that the batch before has as well; None without this batch.
        nol_features: the others.
        forward_mask_dist: which they are, on the way to those who asked.
        forward_sharding_ctx: of this batch.
        backward_mask_dist: the same of the batch before; None without it.
        backward_sharding_ctx: of the batch before.
        bwd_ol_features: ids of the batch before that this one has as well.
        bwd_nol_features: the others.
    """

    def __init__(
        self,
        handler: OverlapHandler,
        ol_features: KeyedJaggedTensor | None,
        nol_features: KeyedJaggedTensor | None,
        forward_mask_dist: MaskDistAwaitable | None,
        forward_sharding_ctx: SequenceShardingContext | None,
        backward_mask_dist: MaskDistAwaitable | None,
        backward_sharding_ctx: SequenceShardingContext | None,
        bwd_ol_features: KeyedJaggedTensor | None,
        bwd_nol_features: KeyedJaggedTensor | None,
    ) -> None:
        super().__init__()
        self._handler = handler
        self._forward = forward_mask_dist, forward_sharding_ctx, ol_features, nol_features
        self._backward = backward_mask_dist, backward_sharding_ctx, bwd_ol_features, bwd_nol_features

    def _wait_impl(self) -> OverlapDistOutput:
        forward: ForwardPartitionContext | None = None
        backward: BackwardPartitionContext | None = None
        mask_dist, ctx, inside, outside = self._forward
        if mask_dist is not None:
            assert ctx is not None and inside is not None and outside is not None
            sent, came = mask_dist.wait()
            splits = self._handler.compute_splits(sent, came, ctx)
            permute = self._handler.compute_forward_permute(sent, ctx)
            forward = ForwardPartitionContext(splits, permute, inside, outside)
        mask_dist, ctx, inside, outside = self._backward
        if mask_dist is not None:
            assert ctx is not None and inside is not None and outside is not None
            sent, came = mask_dist.wait()
            splits = self._handler.compute_splits(sent, came, ctx)
            permutes = self._handler.compute_backward_permutes(sent, ctx)
            backward = BackwardPartitionContext(splits, *permutes, inside, outside)
        return forward, backward


class PECEmbeddingCollectionAwaitable(LazyAwaitable[dict[str, JaggedTensor]]):
    """Embeddings of all features, under way in two parts.

    Args:
        overlapped_awaitables: of each sharding, rows of ids that the batch before has as well.
        nonoverlapped_awaitables: of each sharding, rows of the others.
        autograd_ctxs: of each sharding, how they are joined.
        features_per_sharding: the features that were sent, of each sharding.
        embedding_names_per_sharding: what the results are called, of each sharding.
        need_indices: whether ids are given as weights.
        features_to_permute_indices: of a result whose columns come from several processes, their order.
    """

    def __init__(
        self,
        overlapped_awaitables: list[Awaitable[Tensor]],
        nonoverlapped_awaitables: list[Awaitable[Tensor]],
        autograd_ctxs: list[PECAll2AllSeqInfo],
        features_per_sharding: list[KeyedJaggedTensor],
        embedding_names_per_sharding: list[list[str]],
        need_indices: bool,
        features_to_permute_indices: dict[str, list[int]],
    ) -> None:
        super().__init__()
        self._overlapped, self._nonoverlapped = overlapped_awaitables, nonoverlapped_awaitables
        self._autograd_ctxs, self._features = autograd_ctxs, features_per_sharding
        self._names, self._need_indices = embedding_names_per_sharding, need_indices
        self._orders = features_to_permute_indices

    def _wait_impl(self) -> dict[str, JaggedTensor]:
        found: dict[str, JaggedTensor] = {}
        parts = zip(self._autograd_ctxs, self._overlapped, self._nonoverlapped, strict=True)
        for at, (info, overlapped, nonoverlapped) in enumerate(parts):
            inside, outside = overlapped.wait(), nonoverlapped.wait()
            anchor = torch.empty(0, device=inside.device, requires_grad=True)
            rows = PECAll2AllSeqWait.apply(info, inside, outside, anchor)  # type: ignore[no-untyped-call]
            found |= construct_jagged_tensors(
                embeddings=rows,
                features=self._features[at],
                embedding_names=self._names[at],
                need_indices=self._need_indices,
                features_to_permute_indices=self._orders or None,
            )
        return found


class ShardedPECEmbeddingCollection(ShardedEmbeddingModule[Any, Any, Any, Any], FusedOptimizerModule):
    """A `PECEmbeddingCollection` whose tables are spread over processes by rows.

    Called as it is, it is the collection inside. Pipelines call `input_dist` of a batch, `overlap_dist` with the batch
    before, `compute_and_output_dist_in_partition` for the ids that are not in common, which need not wait, then, when
    `grad_dist` of the batch before has trained those in common, for these, and `merge_partitioned_embeddings`. Each row
    is trained once for each batch, as without partitions.

    Args:
        module: the collection.
        table_name_to_parameter_sharding: where each table goes; row-wise.
        ec_sharder: what spreads the collection inside.
        env: the processes.
        device: of this one.
        qcomm_codecs_registry: codecs of what is exchanged; those of `ec_sharder` by default.

    Raises:
        OptionError: a table is spread in another way, or each id is to be sent once.
    """

    _embedding_collection: ShardedEmbeddingCollection

    def __init__(
        self,
        module: PECEmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        ec_sharder: EmbeddingCollectionSharder,
        env: ShardingEnv,
        device: torch.device,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry)
        for name, sharding in table_name_to_parameter_sharding.items():
            if sharding.sharding_type != ShardingType.ROW_WISE.value:
                raise OptionError(f"table {name!r} is spread by {sharding.sharding_type}, expected 'row_wise'.")
        self._env, self._device = env, torch.device(device)
        self._embedding_collection = ec_sharder.shard(
            module.embedding_collection, table_name_to_parameter_sharding, env, device
        )
        if self._embedding_collection._use_index_dedup:
            raise OptionError("use_index_dedup is on; batches that are sent in parts need an id for each row.")
        tables = {table.name: table for table in module.embedding_configs()}
        assert env.process_group is not None
        self._overlap_handlers = [
            create_overlap_handler(
                kind, self._device, sharding._grouped_embedding_configs, tables, env.process_group, module._checker_type
            )
            for kind, sharding in self._embedding_collection.shardings.items()
        ]

    # ----- without partitions -----------------------------------------------------------------------------------------

    def create_context(self) -> PECEmbeddingCollectionContext:
        """What the stages of one batch share."""
        return PECEmbeddingCollectionContext()

    def input_dist(
        self, ctx: PECEmbeddingCollectionContext, features: KeyedJaggedTensor
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send features; see `ShardedEmbeddingCollection.input_dist`."""
        return self._embedding_collection.input_dist(ctx, features)

    def compute(self, ctx: PECEmbeddingCollectionContext, dist_input: KJTList) -> list[Tensor]:
        """Look up what all processes asked this one for."""
        return self._embedding_collection.compute(ctx, dist_input)

    def output_dist(
        self, ctx: PECEmbeddingCollectionContext, output: list[Tensor]
    ) -> LazyAwaitable[dict[str, JaggedTensor]]:
        """Start to send rows back."""
        return self._embedding_collection.output_dist(ctx, output)

    def compute_and_output_dist(
        self, ctx: PECEmbeddingCollectionContext, input: KJTList
    ) -> LazyAwaitable[dict[str, JaggedTensor]]:
        """Look up, and start to send rows back."""
        return self._embedding_collection.compute_and_output_dist(ctx, input)

    # ----- in two parts -----------------------------------------------------------------------------------------------

    def overlap_dist(
        self,
        ctx: PECEmbeddingCollectionContext | None = None,
        dist_input: KJTList | None = None,
        prev_ctx: PECEmbeddingCollectionContext | None = None,
        prev_dist_input: KJTList | None = None,
    ) -> list[LazyAwaitable[OverlapDistOutput]]:
        """Find what a batch and the one before it have in common, and start to tell the processes that asked.

        Args:
            ctx: of this batch; None after the last one.
            dist_input: its features, as `input_dist` gave them.
            prev_ctx: of the batch before, for which this was called; None before the first one.
            prev_dist_input: its features.

        Returns:
            Of each sharding, the parts of this batch, and those of the batch before.

        Raises:
            OptionError: a context without its features, neither batch, or features with batches of their own.
        """
        if (ctx is None) != (dist_input is None) or (prev_ctx is None) != (prev_dist_input is None):
            raise OptionError("a batch needs both its context and its features.")
        for one in (ctx, prev_ctx):
            contexts = [] if one is None else one.sharding_contexts
            if any(sharding_ctx.variable_batch_per_feature for sharding_ctx in contexts):
                raise OptionError("features have batches of their own; batches that are sent in parts have one size.")
        if prev_ctx is not None and prev_ctx.remapped_kjt_values is None:
            assert prev_dist_input is not None
            prev_ctx.remapped_kjt_values = self._remapped(prev_dist_input)
        if ctx is not None:
            assert dist_input is not None
            ctx.remapped_kjt_values = self._remapped(dist_input)
        return [
            self._overlap(at, handler, ctx, dist_input, prev_ctx, prev_dist_input)
            for at, handler in enumerate(self._overlap_handlers)
        ]

    def _remapped(self, dist_input: KJTList) -> list[Tensor]:
        handlers = self._overlap_handlers
        return [handler.remap_kjt_values(one) for handler, one in zip(handlers, dist_input, strict=True)]

    @staticmethod
    def _overlap(
        at: int, handler: OverlapHandler, ctx: Any, dist_input: Any, prev_ctx: Any, prev_dist_input: Any
    ) -> LazyAwaitable[OverlapDistOutput]:
        masks = handler.detect_overlap(
            None if ctx is None else ctx.remapped_kjt_values[at],
            None if prev_ctx is None else prev_ctx.remapped_kjt_values[at],
        )
        found: list[tuple[Any, ...]] = []
        for one, features, mask in (
            (ctx, dist_input, masks.forward_overlap_mask),
            (prev_ctx, prev_dist_input, masks.backward_overlap_mask),
        ):
            if one is None:
                found.append((None, None, None, None))
                continue
            sharding_ctx = one.sharding_contexts[at]
            way = handler.mask_dist(features[at], sharding_ctx, mask)  # type: ignore[arg-type]
            found.append((way, sharding_ctx, *split_kjt_by_values_mask(features[at], mask)))  # type: ignore[arg-type]
        forward, backward = found
        return OverlapDistAwaitable(
            handler, forward[2], forward[3], forward[0], forward[1], backward[0], backward[1], backward[2], backward[3]
        )

    def compute_and_output_dist_in_partition(
        self,
        ctx: PECEmbeddingCollectionContext,
        features: KeyedJaggedTensor,
        overlap_splits: OverlapSplits,
        is_overlapped: bool,
    ) -> list[Awaitable[Tensor]]:
        """Look one part up, and start to send its rows back.

        Args:
            ctx: of the batch.
            features: the part, as it came to this process; may be empty.
            overlap_splits: how many ids of each part go where.
            is_overlapped: whether it is the ids that the batch before has as well.

        Returns:
            Of each sharding, (ids of the part, columns) in the order in which ids were sent.
        """
        at = 0 if is_overlapped else 1
        collection = self._embedding_collection
        found: list[Awaitable[Tensor]] = []
        stages = zip(
            collection._sharding_types,
            collection._lookups,
            collection._output_dists,
            ctx.sharding_contexts,
            strict=True,
        )
        for kind, lookup, output_dist, sharding_ctx in stages:
            # The rows are trained by `grad_dist`, which looks them up again.
            with torch.no_grad():
                rows = collection._rows(kind, lookup, features)
                part = replace(
                    sharding_ctx,
                    input_splits=overlap_splits.input_splits[at],
                    output_splits=overlap_splits.output_splits[at],
                    lengths_after_input_dist=features.lengths().view(-1, features.stride()),
                    unbucketize_permute_tensor=None,
                )
                found.append(output_dist(rows, part))
        return found

    def merge_partitioned_embeddings(
        self,
        ctx: PECEmbeddingCollectionContext,
        overlapped_awaitables: list[Awaitable[Tensor]],
        nonoverlapped_awaitables: list[Awaitable[Tensor]],
        forward_ctxs: list[ForwardPartitionContext],
        backward_ctxs: list[BackwardPartitionContext] | None = None,
    ) -> LazyAwaitable[dict[str, JaggedTensor]]:
        """Join the rows of both parts when they are waited for.

        Args:
            ctx: of the batch.
            overlapped_awaitables: of each sharding, rows of ids that the batch before has as well.
            nonoverlapped_awaitables: of each sharding, rows of the others.
            forward_ctxs: of each sharding, the parts of the batch.
            backward_ctxs: of each sharding, its parts by what the next batch has as well, which `overlap_dist` of that
                one finds; needed by the backward pass.
        """
        infos = []
        for at, forward in enumerate(forward_ctxs):
            info = PECAll2AllSeqInfo(forward.permute, pg=self._env.process_group)
            if backward_ctxs is not None:
                backward = backward_ctxs[at]
                info.backward_ol_permute, info.backward_nol_permute = backward.ol_permute, backward.nol_permute
                info.backward_splits = backward.splits
            infos.append(info)
        ctx.autograd_ctx_per_sharding = infos
        collection = self._embedding_collection
        return PECEmbeddingCollectionAwaitable(
            overlapped_awaitables,
            nonoverlapped_awaitables,
            infos,
            [one.features_before_input_dist for one in ctx.sharding_contexts],  # type: ignore[misc]
            collection._names,
            collection._need_indices,
            collection._orders,
        )

    def grad_dist(
        self, ctx: PECEmbeddingCollectionContext, backward_features: KJTList, is_overlapped: bool
    ) -> list[Awaitable[None]]:
        """Start to send the gradients of one part; waiting trains its rows.

        Args:
            ctx: of the batch, after its backward pass.
            backward_features: of each sharding, the part, as it came to this process.
            is_overlapped: whether it is the ids that the next batch has as well.

        Raises:
            OptionError: there was no backward pass.
        """
        collection = self._embedding_collection
        found: list[Awaitable[None]] = []
        infos = ctx.autograd_ctx_per_sharding or []
        if len(infos) != len(collection._lookups):
            raise OptionError("the batch's parts were not merged; there are no gradients.")
        for at, (info, features) in enumerate(zip(infos, backward_features, strict=True)):
            applier = info.ol_grad_apply if is_overlapped else info.nol_grad_apply
            if applier is None:
                raise OptionError("there was no backward pass of this batch; there are no gradients.")
            applier.dist()
            width = collection._widths[collection._sharding_types[at]]
            found.append(PECGradUpdateAwaitable(applier, features, self._looked_up(at, ctx), width))
        return found

    def _looked_up(self, at: int, ctx: PECEmbeddingCollectionContext) -> Callable[[KeyedJaggedTensor], Tensor]:
        collection = self._embedding_collection

        def look_up(features: KeyedJaggedTensor) -> Tensor:
            rows = collection._rows(collection._sharding_types[at], collection._lookups[at], features)
            return rows[order_by_process(features, ctx.sharding_contexts[at])]

        return look_up

    # ----- what the collection inside says ----------------------------------------------------------------------------

    @property
    def fused_optimizer(self) -> KeyedOptimizer:
        """What kernels train the tables by."""
        return self._embedding_collection.fused_optimizer

    @property
    def shardings(self) -> dict[str, Any]:
        """Each sharding, by its type."""
        return self._embedding_collection.shardings

    def sharded_parameter_names(self, prefix: str = "") -> Any:
        """Names of all tables."""
        name = "_embedding_collection"
        yield from self._embedding_collection.sharded_parameter_names(f"{prefix}.{name}" if prefix else name)

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`PECEmbeddingCollection`."""
        return PECEmbeddingCollection


class PECEmbeddingCollectionSharder(BaseEmbeddingSharder[PECEmbeddingCollection]):
    """Spreads `PECEmbeddingCollection` over processes.

    Args:
        ec_sharder: what spreads the collection inside.
        fused_params: options of the kernels, where `ec_sharder` is not given.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        ec_sharder: EmbeddingCollectionSharder | None = None,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(fused_params=fused_params, qcomm_codecs_registry=qcomm_codecs_registry)
        self._ec_sharder = ec_sharder or EmbeddingCollectionSharder(
            fused_params=self.fused_params, qcomm_codecs_registry=self.qcomm_codecs_registry
        )

    def shard(
        self,
        module: PECEmbeddingCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedPECEmbeddingCollection:
        """The sharded collection; see `ModuleSharder.shard`."""
        where = torch.device("cpu") if device is None else torch.device(device)
        return ShardedPECEmbeddingCollection(module, params, self._ec_sharder, env, where, self.qcomm_codecs_registry)

    def shardable_parameters(self, module: PECEmbeddingCollection) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return self._ec_sharder.shardable_parameters(module.embedding_collection)

    @property
    def module_type(self) -> type[PECEmbeddingCollection]:
        """`PECEmbeddingCollection`."""
        return PECEmbeddingCollection

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread: by rows."""
        return [ShardingType.ROW_WISE.value]

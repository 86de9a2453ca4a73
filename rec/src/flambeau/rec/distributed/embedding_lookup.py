"""Look-ups of all groups of tables of one sharding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from flambeau.rec.distributed._infer_lookups import (
    InferGroupedEmbeddingsLookup,
    InferGroupedLookupMixin,
    InferGroupedPooledEmbeddingsLookup,
    MetaInferGroupedEmbeddingsLookup,
    MetaInferGroupedPooledEmbeddingsLookup,
    embeddings_cat_empty_rank_handle_inference,
)
from flambeau.rec.distributed._key_value_kernels import (
    KeyValueEmbedding,
    KeyValueEmbeddingBag,
    ZeroCollisionEmbeddingCache,
    ZeroCollisionKeyValueEmbedding,
    ZeroCollisionKeyValueEmbeddingBag,
    backend_of,
)
from flambeau.rec.distributed.batched_embedding_kernel import (
    BatchedDenseEmbedding,
    BatchedDenseEmbeddingBag,
    BatchedFusedEmbedding,
    BatchedFusedEmbeddingBag,
)
from flambeau.rec.distributed.composable.table_batched_embedding_slice import TableBatchedEmbeddingSlice
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseEmbeddingUpdate,
    BaseGroupedFeatureProcessor,
    EmbeddingComputeKernel,
    GroupedEmbeddingConfig,
)
from flambeau.rec.distributed.types import ShardingEnv, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import data_type_to_dtype
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "CommOpGradientScaling",
    "GroupedEmbeddingsLookup",
    "GroupedEmbeddingsUpdate",
    "GroupedPooledEmbeddingsLookup",
    "InferGroupedEmbeddingsLookup",
    "InferGroupedLookupMixin",
    "InferGroupedPooledEmbeddingsLookup",
    "MetaInferGroupedEmbeddingsLookup",
    "MetaInferGroupedPooledEmbeddingsLookup",
    "dummy_tensor",
    "embeddings_cat_empty_rank_handle",
    "embeddings_cat_empty_rank_handle_inference",
    "fx_wrap_tensor_view2d",
]

_FUSED = (
    EmbeddingComputeKernel.FUSED,
    EmbeddingComputeKernel.FUSED_UVM,
    EmbeddingComputeKernel.FUSED_UVM_CACHING,
    EmbeddingComputeKernel.FUSED_TRITON,
)
_VIRTUAL = (
    EmbeddingComputeKernel.SSD_VIRTUAL_TABLE,
    EmbeddingComputeKernel.DRAM_VIRTUAL_TABLE,
    EmbeddingComputeKernel.DRAM_SSD_VIRTUAL_TABLE,
)


class CommOpGradientScaling(Function):
    """Gives its input, and its gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, input_tensor: Tensor, scale_gradient_factor: int) -> Tensor:
        """The input."""
        ctx.factor = scale_gradient_factor
        return input_tensor

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """The gradient times the factor."""
        return grad_output * ctx.factor, None


def dummy_tensor(sparse_features: KeyedJaggedTensor, dtype: torch.dtype) -> Tensor:
    """What a process without tables gives for a batch: a matrix without columns, or nothing where all is flat."""
    shape = [0] if sparse_features.variable_stride_per_key() else [sparse_features.stride(), 0]
    return torch.empty(shape, dtype=dtype, device=sparse_features.device(), requires_grad=True)


@torch.fx.wrap
def fx_wrap_tensor_view2d(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """The same numbers as (dim0, dim1), which is one node of a traced graph."""
    return x.view(dim0, dim1)


def embeddings_cat_empty_rank_handle(embeddings: list[Tensor], dummy_embs_tensor: Tensor, dim: int = 0) -> Tensor:
    """Embeddings of several kernels as one; those of a process without any take part in the gradient as well."""
    if not embeddings:
        return dummy_embs_tensor
    return embeddings[0] if len(embeddings) == 1 else torch.cat(embeddings, dim=dim)


def _check(config: GroupedEmbeddingConfig) -> None:
    serving = (EmbeddingComputeKernel.DENSE, *_FUSED, EmbeddingComputeKernel.KEY_VALUE, *_VIRTUAL)
    if config.compute_kernel not in serving:
        known = ", ".join(kernel.value for kernel in serving)
        raise OptionError(
            f"no kernel {config.compute_kernel.value!r} looks up tables {config.table_names()}; choose one of {known}."
        )


class _Grouped(BaseEmbeddingLookup[KeyedJaggedTensor, Tensor]):
    """Looks up groups of tables, each by a kernel of its own.

    Args:
        grouped_configs: the groups.
        pg: who has parts of the tables.
        device: of the parts here.
    """

    def __init__(
        self, grouped_configs: list[GroupedEmbeddingConfig], pg: dist.ProcessGroup | None, device: torch.device | None
    ) -> None:
        super().__init__()
        for config in grouped_configs:
            _check(config)
        self.grouped_configs = grouped_configs
        self._pg, self._device = pg, device
        self._feature_splits = [config.num_features() for config in grouped_configs]
        self._emb_modules: Any = nn.ModuleList(self._kernel(config) for config in grouped_configs)
        self._tracker: Callable[..., None] | None = None

    def _kernel(self, config: GroupedEmbeddingConfig) -> nn.Module:
        raise NotImplementedError

    def _parts(self, sparse_features: KeyedJaggedTensor) -> list[KeyedJaggedTensor]:
        if len(self._feature_splits) == 1 and len(sparse_features.keys()) == self._feature_splits[0]:
            return [sparse_features]
        return sparse_features.split(self._feature_splits)

    def _dtype(self) -> torch.dtype:
        kinds = [data_type_to_dtype(config.data_type) for config in self.grouped_configs]
        return kinds[0] if kinds else torch.float32

    def prefetch(self, sparse_features: KeyedJaggedTensor, forward_stream: torch.Stream | None = None) -> None:
        """Fetch rows of tables on the host that a batch will need."""
        for kernel, features in zip(self._emb_modules, self._parts(sparse_features), strict=True):
            kernel.prefetch(features, forward_stream)

    def register_optim_state_tracker_fn(
        self, record_fn: Callable[[KeyedJaggedTensor, Tensor, nn.Module | None], None]
    ) -> None:
        """Call a function with features, embeddings and kernel of each look-up."""
        self._tracker = record_fn

    def named_parameters_by_table(self) -> Iterator[tuple[str, TableBatchedEmbeddingSlice]]:
        """A parameter for each table."""
        for kernel in self._emb_modules:
            yield from kernel.named_parameters_by_table()

    def flush(self) -> None:
        """Write caches back to the tables."""
        for kernel in self._emb_modules:
            kernel.flush()

    def purge(self) -> None:
        """Empty caches."""
        for kernel in self._emb_modules:
            kernel.purge()

    def get_resize_awaitables(self) -> list[Any]:
        """Changes of memory that are under way; there are none."""
        return []

    def create_rocksdb_hard_link_snapshot(self) -> None:
        """Make tables on disk durable as they are now, for a checkpoint to read; others are left alone."""
        for kernel in self._stored():
            kernel.create_rocksdb_hard_link_snapshot()

    def get_named_split_embedding_weights_snapshot(self, prefix: str = "") -> Iterator[tuple[Any, ...]]:
        """Tables on disk as they are now: name, rows, and of virtual tables ids, buckets and facts, else None."""
        for kernel in self._stored():
            yield from kernel.get_named_split_embedding_weights_snapshot(prefix)

    def _stored(self) -> Iterator[Any]:
        return (one for one in self._emb_modules if hasattr(one, "get_named_split_embedding_weights_snapshot"))


class GroupedEmbeddingsLookup(_Grouped):
    """Looks up groups of tables, a row for each id.

    Args:
        grouped_configs: the groups.
        pg: who has parts of the tables.
        device: of the parts here.
        env: the processes.
    """

    def __init__(
        self,
        grouped_configs: list[GroupedEmbeddingConfig],
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        env: ShardingEnv | None = None,
    ) -> None:
        super().__init__(grouped_configs, pg, device)

    def _kernel(self, config: GroupedEmbeddingConfig) -> nn.Module:
        if config.compute_kernel == EmbeddingComputeKernel.DENSE:
            return BatchedDenseEmbedding(config, self._pg, self._device)
        if config.compute_kernel == EmbeddingComputeKernel.KEY_VALUE:
            return KeyValueEmbedding(config, self._pg, self._device)
        if config.compute_kernel in _VIRTUAL:
            virtual = ZeroCollisionEmbeddingCache if config.enable_embedding_update else ZeroCollisionKeyValueEmbedding
            return virtual(config, self._pg, self._device, backend_of(config.compute_kernel))
        return BatchedFusedEmbedding(config, self._pg, self._device)

    def forward(self, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Rows of all ids, (L, columns)."""
        found = []
        if self._emb_modules:
            for kernel, features in zip(self._emb_modules, self._parts(sparse_features), strict=True):
                rows = kernel(features).view(-1, kernel.config.embedding_tables[0].local_cols)
                if self._tracker is not None:
                    self._tracker(features, rows, kernel)
                found.append(rows)
        width = self.grouped_configs[0].embedding_tables[0].local_cols if self.grouped_configs else 0
        nothing = torch.empty(0, width, dtype=self._dtype(), device=sparse_features.device(), requires_grad=True)
        return embeddings_cat_empty_rank_handle(found, nothing)


class GroupedPooledEmbeddingsLookup(_Grouped):
    """Looks up groups of tables, and pools rows over bags.

    Args:
        grouped_configs: the groups.
        device: of the parts here.
        pg: who has parts of the tables.
        feature_processor: computes weights of ids where a group asks for it.
        scale_weight_gradients: whether gradients of these weights are taken times the number of processes, by which
            those of embeddings are divided.
        sharding_type: of the tables.
        env: the processes.
    """

    def __init__(
        self,
        grouped_configs: list[GroupedEmbeddingConfig],
        device: torch.device | None = None,
        pg: dist.ProcessGroup | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
        scale_weight_gradients: bool = True,
        sharding_type: ShardingType | None = None,
        env: ShardingEnv | None = None,
    ) -> None:
        self._sharding_type = sharding_type
        super().__init__(grouped_configs, pg, device)
        self._feature_processor = feature_processor
        from flambeau.rec.distributed.comm_ops import get_gradient_division

        world = 1 if pg is None else dist.get_world_size(pg)
        self._scale_gradient_factor = world if scale_weight_gradients and get_gradient_division() else 1

    def _kernel(self, config: GroupedEmbeddingConfig) -> nn.Module:
        if config.compute_kernel == EmbeddingComputeKernel.DENSE:
            return BatchedDenseEmbeddingBag(config, self._pg, self._device, self._sharding_type)
        if config.compute_kernel == EmbeddingComputeKernel.KEY_VALUE:
            return KeyValueEmbeddingBag(config, self._pg, self._device, self._sharding_type)
        if config.compute_kernel in _VIRTUAL:
            backend = backend_of(config.compute_kernel)
            return ZeroCollisionKeyValueEmbeddingBag(config, self._pg, self._device, self._sharding_type, backend)
        return BatchedFusedEmbeddingBag(config, self._pg, self._device, self._sharding_type)

    def forward(self, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Pooled rows of all bags, (examples, columns of all groups); flat where features have batches of their own."""
        parts = self._parts(sparse_features) if self._emb_modules else []
        found = []
        for kernel, features in zip(self._emb_modules, parts, strict=True):
            if kernel.config.has_feature_processor and self._feature_processor is not None:
                features = self._feature_processor(features)
            if kernel.config.is_weighted and self._scale_gradient_factor != 1:
                weights = features.weights_or_none()
                if weights is not None and weights.requires_grad:
                    features = KeyedJaggedTensor(
                        features.keys(),
                        features.values(),
                        CommOpGradientScaling.apply(weights, self._scale_gradient_factor),  # type: ignore[no-untyped-call]
                        lengths=features.lengths(),
                        stride=None if features.variable_stride_per_key() else features.stride(),
                        stride_per_key_per_rank=features.stride_per_key_per_rank() or None,
                    )
            pooled = kernel(features)
            if self._tracker is not None:
                self._tracker(features, pooled, kernel)
            found.append(pooled)
        nothing = dummy_tensor(sparse_features, self._dtype())
        if sparse_features.variable_stride_per_key():
            return self._by_rank(found, parts, nothing)
        return embeddings_cat_empty_rank_handle(found, nothing, dim=1)

    def wait_for_forward(self) -> None:
        """Wait until look-ups that were begun are done on the current stream; they are whenever `forward` returns."""

    def _by_rank(self, found: list[Tensor], parts: list[KeyedJaggedTensor], nothing: Tensor) -> Tensor:
        """From group by group to process by process, group by group."""
        if len(found) <= 1:
            return embeddings_cat_empty_rank_handle(found, nothing)
        pieces = []
        for pooled, features, config in zip(found, parts, self.grouped_configs, strict=True):
            strides, widths = features.stride_per_key_per_rank(), config.embedding_dims()
            sizes = [
                sum(size * width for size, width in zip(of_rank, widths, strict=True))
                for of_rank in zip(*strides, strict=True)
            ]
            pieces.append(pooled.split(sizes))
        return torch.cat([piece for of_rank in zip(*pieces, strict=True) for piece in of_rank])


class GroupedEmbeddingsUpdate(BaseEmbeddingUpdate[KeyedJaggedTensor]):
    """Overwrites rows of groups of tables.

    Args:
        grouped_embeddings_lookup: whose tables they are.
    """

    def __init__(self, grouped_embeddings_lookup: GroupedEmbeddingsLookup) -> None:
        super().__init__()
        self._lookup = [grouped_embeddings_lookup]

    @torch.no_grad()
    def forward(self, embeddings: KeyedJaggedTensor) -> None:
        """Write the weights of each id, which are rows, into the tables of its feature; of several, the last."""
        lookup = self._lookup[0]
        at = 0
        ids, rows = embeddings.values(), embeddings.weights()
        ends = embeddings.offset_per_key()
        parts = lookup._parts(embeddings) if len(lookup._emb_modules) > 1 else [embeddings]
        for kernel, part in zip(lookup._emb_modules, parts, strict=True):
            if isinstance(kernel, ZeroCollisionEmbeddingCache):
                kernel.update(part)
                at += len(kernel._feature_table_map)
                continue
            tables = kernel.split_embedding_weights()
            for number in kernel._feature_table_map:
                mine = slice(ends[at], ends[at + 1])
                for place, row in zip(ids[mine].tolist(), rows[mine], strict=True):
                    tables[number][place] = row
                at += 1

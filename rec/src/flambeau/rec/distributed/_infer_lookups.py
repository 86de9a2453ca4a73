"""Look-ups of quantized tables, of one device and of all devices of a process."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _IncompatibleKeys

from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseGroupedFeatureProcessor,
    EmbeddingComputeKernel,
    GroupedEmbeddingConfig,
    InputDistOutputs,
)
from flambeau.rec.distributed.fused_params import TBEToRegisterMixIn
from flambeau.rec.distributed.quant_embedding_kernel import QuantBatchedEmbedding, QuantBatchedEmbeddingBag
from flambeau.rec.distributed.types import rank_device
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "InferGroupedEmbeddingsLookup",
    "InferGroupedLookupMixin",
    "InferGroupedPooledEmbeddingsLookup",
    "MetaInferGroupedEmbeddingsLookup",
    "MetaInferGroupedPooledEmbeddingsLookup",
    "devices_of_ranks",
    "embeddings_cat_empty_rank_handle_inference",
]

Tables = IntNBitTableBatchedEmbeddingBagsCodegen

_QUANTIZED = (
    EmbeddingComputeKernel.QUANT,
    EmbeddingComputeKernel.QUANT_UVM,
    EmbeddingComputeKernel.QUANT_UVM_CACHING,
)


def embeddings_cat_empty_rank_handle_inference(
    embeddings: list[Tensor], dim: int = 0, device: str | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Embeddings of several kernels as one; nothing, (0,), of a device without kernels.

    Args:
        embeddings: of each kernel.
        dim: along which they are joined.
        device: of nothing.
        dtype: of nothing.
    """
    if not embeddings:
        return torch.empty([0], device=device, dtype=dtype)
    return embeddings[0] if len(embeddings) == 1 else torch.cat(embeddings, dim)


def devices_of_ranks(
    device: torch.device | None, kinds: str | tuple[str, ...] | None, world_size: int
) -> list[torch.device]:
    """Where the parts of each rank lie.

    Args:
        device: that of the module; "meta" holds for all ranks.
        kinds: of devices: one for all ranks, or one for each; CUDA by default.
        world_size: ranks.
    """
    if device is not None and device.type == "meta":
        return [device] * world_size
    if kinds is None or isinstance(kinds, str):
        return [rank_device(kinds or "cuda", rank) for rank in range(world_size)]
    # Among several kinds each counts its own devices.
    return [rank_device(kind, kinds[:rank].count(kind)) for rank, kind in enumerate(kinds)]


class _OfDevice(BaseEmbeddingLookup[KeyedJaggedTensor, Tensor], TBEToRegisterMixIn):
    """Looks up the groups of tables of one device.

    Args:
        grouped_configs: the groups.
        device: of the tables.
        fused_params: options of kernels.
        shard_index: which of the devices it is.
    """

    _kind: Any = QuantBatchedEmbedding
    _dim = 0

    def __init__(
        self,
        grouped_configs: list[GroupedEmbeddingConfig],
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        shard_index: int | None = None,
    ) -> None:
        super().__init__()
        for config in grouped_configs:
            if config.compute_kernel not in _QUANTIZED:
                raise OptionError(
                    f"no kernel {config.compute_kernel.value!r} looks up quantized tables {config.table_names()}; "
                    f"choose one of {', '.join(kernel.value for kernel in _QUANTIZED)}."
                )
        self.grouped_configs, self.device = grouped_configs, device
        self._emb_modules = nn.ModuleList(
            self._kind(config, device=device, fused_params={**(config.fused_params or {}), **(fused_params or {})},
                       shard_index=shard_index)
            for config in grouped_configs
        )  # fmt: skip
        self._feature_splits = [config.num_features() for config in grouped_configs]
        chosen = (fused_params or {}).get("output_dtype", SparseType.FP32)
        self.output_dtype: torch.dtype = chosen.as_dtype() if isinstance(chosen, SparseType) else chosen

    def get_tbes_to_register(self) -> dict[Tables, GroupedEmbeddingConfig]:
        """The kernels, and the tables of each."""
        found: dict[Tables, GroupedEmbeddingConfig] = {}
        for kernel in self._emb_modules:
            found |= kernel.get_tbes_to_register()  # type: ignore[operator]
        return found

    def embeddings_cat_empty_rank_handle_inference(self, embeddings: list[Tensor], dim: int = 0) -> Tensor:
        """Embeddings of all kernels as one; nothing where there are no tables."""
        device = None if self.device is None else str(self.device)
        return embeddings_cat_empty_rank_handle_inference(embeddings, dim, device, self.output_dtype)

    def forward(self, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Look up.

        Args:
            sparse_features: those of all tables here, in order, on their device.

        Returns:
            (examples, columns), or (ids, columns) where rows are not pooled; (0,) without tables.
        """
        if not self._emb_modules:
            return self.embeddings_cat_empty_rank_handle_inference([], self._dim)
        whole = len(self._emb_modules) == 1
        parts = [sparse_features] if whole else sparse_features.split(self._feature_splits)
        found = [kernel(part) for kernel, part in zip(self._emb_modules, parts, strict=True)]
        return self.embeddings_cat_empty_rank_handle_inference(found, self._dim)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """`<table>.weight` of all tables; also scales and biases where they are told apart."""
        for kernel in self._emb_modules:
            yield from kernel.named_buffers(prefix, recurse, remove_duplicate)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """None: quantized tables are not trained."""
        yield from ()

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """`named_buffers` as a dictionary."""
        found: dict[str, Any] = {} if destination is None else destination
        for kernel in self._emb_modules:
            kernel.state_dict(destination=found, prefix=prefix, keep_vars=keep_vars)
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> _IncompatibleKeys:  # type: ignore[override]
        """Overwrite tables by name.

        Args:
            state_dict: as `state_dict` gives it.
            strict: whether all names must be there, and no others.

        Raises:
            RuntimeError: names that are missing or unknown, where that is strict.
        """
        return loaded(self, state_dict, strict)

    def flush(self) -> None:
        """Write caches back; quantized tables have none."""

    def purge(self) -> None:
        """Empty caches; quantized tables have none."""


def loaded(lookup: nn.Module, state_dict: Mapping[str, Any], strict: bool) -> _IncompatibleKeys:
    """Overwrite the buffers of a look-up by name."""
    mine = lookup.state_dict()
    missing = [name for name in mine if name not in state_dict]
    unknown = [name for name in state_dict if name not in mine]
    if strict and (missing or unknown):
        raise RuntimeError(f"the state dict lacks {missing}, and has {unknown}, which there are no tables of.")
    for name in mine:
        if name in state_dict:
            mine[name].copy_(state_dict[name])
    return _IncompatibleKeys(missing, unknown)


class MetaInferGroupedEmbeddingsLookup(_OfDevice):
    """Looks up the groups of tables of one device, a row for each id.

    Args:
        grouped_configs: the groups.
        device: of the tables.
        fused_params: options of kernels.
        shard_index: which of the devices it is.
    """


class MetaInferGroupedPooledEmbeddingsLookup(_OfDevice):
    """Looks up the groups of tables of one device, and pools rows over bags.

    Args:
        grouped_configs: the groups.
        device: of the tables.
        feature_processor: computes weights of ids where a group asks for it.
        fused_params: options of kernels.
        shard_index: which of the devices it is.
    """

    _kind = QuantBatchedEmbeddingBag
    _dim = 1

    def __init__(
        self,
        grouped_configs: list[GroupedEmbeddingConfig],
        device: torch.device | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
        fused_params: dict[str, Any] | None = None,
        shard_index: int | None = None,
    ) -> None:
        super().__init__(grouped_configs, device, fused_params, shard_index)
        self._feature_processor = feature_processor

    def forward(self, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Look up and pool; see `MetaInferGroupedEmbeddingsLookup.forward`."""
        processor = self._feature_processor
        if processor is not None and any(config.has_feature_processor for config in self.grouped_configs):
            sparse_features = processor(sparse_features)
        return super().forward(sparse_features)


class InferGroupedLookupMixin(abc.ABC):
    """Looks up on all devices of a process, those of rank 0 first."""

    _embedding_lookups_per_rank: list[Any]

    def forward(self, input_dist_outputs: InputDistOutputs) -> list[Tensor]:
        """What each device finds.

        Args:
            input_dist_outputs: features of each device, there.

        Returns:
            Of each device, on it: (examples, columns), or (ids, columns) where rows are not pooled.
        """
        pairs = zip(self._embedding_lookups_per_rank, input_dist_outputs.features, strict=True)
        return [lookup(features) for lookup, features in pairs]

    def state_dict(
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """`<table>.weight` of all tables; of a table on several devices, the part of the last one."""
        found: dict[str, Any] = {} if destination is None else destination
        for lookup in self._embedding_lookups_per_rank:
            lookup.state_dict(destination=found, prefix=prefix, keep_vars=keep_vars)
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> _IncompatibleKeys:
        """Overwrite tables by name; see `MetaInferGroupedEmbeddingsLookup.load_state_dict`."""
        missing: list[str] = []
        known: set[str] = set()
        for lookup in self._embedding_lookups_per_rank:
            names = list(lookup.state_dict())
            known |= set(names)
            mine = {name: value for name, value in state_dict.items() if name in names}
            missing += lookup.load_state_dict(mine, strict).missing_keys
        unknown = [name for name in state_dict if name not in known]
        if strict and unknown:
            raise RuntimeError(f"the state dict has {unknown}, which there are no tables of.")
        return _IncompatibleKeys(missing, unknown)

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, nn.Parameter]]:
        """None: quantized tables are not trained."""
        yield from ()

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Tables of all devices; a name comes once for each part."""
        for lookup in self._embedding_lookups_per_rank:
            yield from lookup.named_buffers(prefix, recurse)

    def get_tbes_to_register(self) -> dict[Tables, GroupedEmbeddingConfig]:
        """The kernels of all devices, and the tables of each."""
        return {
            tables: config
            for lookup in self._embedding_lookups_per_rank
            for tables, config in lookup.get_tbes_to_register().items()
        }


class InferGroupedEmbeddingsLookup(  # type: ignore[misc]
    InferGroupedLookupMixin, BaseEmbeddingLookup[InputDistOutputs, list[Tensor]], TBEToRegisterMixIn
):
    """Looks up on all devices of a process, a row for each id.

    Args:
        grouped_configs_per_rank: groups of tables of each device.
        world_size: devices.
        fused_params: options of kernels.
        device: of the module; "meta" keeps shapes alone.
        device_type_from_sharding_infos: kind of the devices, or of each.
    """

    def __init__(
        self,
        grouped_configs_per_rank: list[list[GroupedEmbeddingConfig]],
        world_size: int,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
        device_type_from_sharding_infos: str | tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        devices = devices_of_ranks(device, device_type_from_sharding_infos, world_size)
        # A list, not a module list: `tbes` of the sharded module says what is registered.
        self._embedding_lookups_per_rank = [
            MetaInferGroupedEmbeddingsLookup(configs, devices[rank], fused_params, rank)
            for rank, configs in enumerate(grouped_configs_per_rank)
        ]


class InferGroupedPooledEmbeddingsLookup(  # type: ignore[misc]
    InferGroupedLookupMixin, BaseEmbeddingLookup[InputDistOutputs, list[Tensor]], TBEToRegisterMixIn
):
    """Looks up on all devices of a process, and pools rows over bags.

    Where bags of one table are summed in part on several devices and are to be averaged, each part is divided by the
    number of ids that all devices have of the bag.

    Args:
        grouped_configs_per_rank: groups of tables of each device.
        world_size: devices.
        fused_params: options of kernels.
        device: of the module; "meta" keeps shapes alone.
        device_type_from_sharding_infos: kind of the devices, or of each.
    """

    def __init__(
        self,
        grouped_configs_per_rank: list[list[GroupedEmbeddingConfig]],
        world_size: int,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
        device_type_from_sharding_infos: str | tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        devices = devices_of_ranks(device, device_type_from_sharding_infos, world_size)
        self._embedding_lookups_per_rank = [
            MetaInferGroupedPooledEmbeddingsLookup(configs, devices[rank], None, fused_params, rank)
            for rank, configs in enumerate(grouped_configs_per_rank)
        ]
        self._has_tables = [bool(configs) for configs in grouped_configs_per_rank]
        # Of each feature, its columns, and whether its bags are averaged once they were summed everywhere.
        tables = (
            [table for config in grouped_configs_per_rank[0] for table in config.embedding_tables] if devices else []
        )
        self._averaged = [
            (table.local_cols, bool(getattr(table, "averaged_later", False)))
            for table in tables
            for _ in table.feature_names
        ]

    def forward(self, input_dist_outputs: InputDistOutputs) -> list[Tensor]:
        """What each device finds; devices without tables are left out."""
        features = list(input_dist_outputs.features)
        found = [
            lookup(part)
            for lookup, part, some in zip(self._embedding_lookups_per_rank, features, self._has_tables, strict=True)
            if some
        ]
        if not any(later for _, later in self._averaged):
            return found
        factor = self._factor(features)
        return [pooled * factor.to(pooled.device, pooled.dtype) for pooled in found]

    def _factor(self, features: list[KeyedJaggedTensor]) -> Tensor:
        """(examples, columns): one over the number of a bag's ids, or one."""
        count = len(self._averaged)
        home = features[0].lengths().device
        lengths = sum(part.lengths().view(count, -1).to(home) for part in features)
        assert isinstance(lengths, Tensor)
        columns = []
        for row, (width, later) in zip(1.0 / lengths.clamp(min=1).float(), self._averaged, strict=True):
            columns.append((row if later else torch.ones_like(row))[:, None].expand(-1, width))
        return torch.cat(columns, 1)

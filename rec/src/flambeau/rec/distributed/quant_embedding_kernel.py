"""Kernels that look up a group of quantized tables in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed.embedding_kernel import BaseEmbedding
from flambeau.rec.distributed.embedding_types import (
    EmbeddingComputeKernel,
    GroupedEmbeddingConfig,
    ShardedEmbeddingTable,
    compute_kernel_to_embedding_location,
)
from flambeau.rec.distributed.fused_params import (
    TBEToRegisterMixIn,
    fused_param_bounds_check_mode,
    fused_param_lengths_to_offsets_lookup,
    get_fused_param_tbe_row_alignment,
    is_fused_param_quant_state_dict_split_scale_bias,
    is_fused_param_register_tbe,
    tbe_fused_params,
)
from flambeau.rec.distributed.utils import append_prefix
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode, EmbeddingLocation, PoolingMode
from flambeau.rec.modules.embedding_configs import dtype_to_data_type, pooling_type_to_pooling_mode
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.quant._tables import FLOAT8, as_codes, output_type, quantized_rows, table_type
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["IntNBitTableBatchedEmbeddingBagsCodegenWithLength", "QuantBatchedEmbedding", "QuantBatchedEmbeddingBag"]

_OF_LOOKUPS = ("output_dtype", "cache_algorithm", "cache_load_factor", "cache_reserved_memory", "cache_assoc",
               "enforce_hbm", "record_cache_metrics", "gather_uvm_cache_stats", "uvm_host_mapped")  # fmt: skip


class IntNBitTableBatchedEmbeddingBagsCodegenWithLength(IntNBitTableBatchedEmbeddingBagsCodegen):
    """Quantized tables that are asked by lengths of bags.

    Args:
        *args: see `IntNBitTableBatchedEmbeddingBagsCodegen`.
        **kwargs: likewise.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def forward(self, indices: Tensor, lengths: Tensor, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool rows.

        Args:
            indices: (total,): rows of each feature's table.
            lengths: (features * batch,): ids of each bag, feature-major.
            per_sample_weights: (total,) factors of rows.
        """
        return super().forward(indices, asynchronous_complete_cumsum(lengths.reshape(-1)), per_sample_weights)


def _location(table: ShardedEmbeddingTable, device: torch.device) -> EmbeddingLocation:
    if device.type in ("cpu", "meta"):
        return EmbeddingLocation.HOST
    return compute_kernel_to_embedding_location(table.compute_kernel)


class _QuantBatched(BaseEmbedding, TBEToRegisterMixIn):
    """Looks up a group of quantized tables.

    Args:
        config: the tables; each may have elements of its own.
        pg: has no meaning: all devices belong to one process.
        device: of the tables; the CPU by default.
        fused_params: options of the kernel, among them `output_dtype`.
        shard_index: which of the devices it is.
    """

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        shard_index: int | None = None,
    ) -> None:
        super().__init__()
        self._config, self._shard_index = config, shard_index
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._tbe_row_alignment = get_fused_param_tbe_row_alignment(fused_params)
        self._split_scale_bias = is_fused_param_quant_state_dict_split_scale_bias(fused_params)
        self.lengths_to_tbe = fused_param_lengths_to_offsets_lookup(fused_params)
        self._register_tbe = is_fused_param_register_tbe(fused_params)
        self._emb_module = self._made(fused_params)
        self._emb_module.initialize_weights()

    def _pooling(self) -> PoolingMode:
        return PoolingMode.NONE

    def _made(self, fused_params: Mapping[str, Any] | None) -> IntNBitTableBatchedEmbeddingBagsCodegen:
        tables = self._config.embedding_tables
        options = {name: value for name, value in (tbe_fused_params(dict(fused_params or {})) or {}).items()
                   if name in _OF_LOOKUPS}  # fmt: skip
        options.setdefault("output_dtype", SparseType.FP32)
        if not isinstance(options["output_dtype"], SparseType):
            options["output_dtype"] = output_type(options["output_dtype"])
        bounds = fused_param_bounds_check_mode(dict(fused_params or {}))
        kind = (
            IntNBitTableBatchedEmbeddingBagsCodegenWithLength
            if self.lengths_to_tbe
            else IntNBitTableBatchedEmbeddingBagsCodegen
        )
        return kind(
            [
                (
                    table.name,
                    table.local_rows,
                    table.local_cols,
                    table_type(table.data_type),
                    _location(table, self._device),
                )
                for table in tables
            ],
            feature_table_map=[at for at, table in enumerate(tables) for _ in table.feature_names],
            pooling_mode=self._pooling(),
            device=self._device,
            row_alignment=self._tbe_row_alignment,
            bounds_check_mode=BoundsCheckMode.WARNING if bounds is None else bounds,
            fp8_exponent_bits=FLOAT8.get("exponent_bits"),
            fp8_exponent_bias=FLOAT8.get("exponent_bias"),
            feature_names_per_table=[list(table.feature_names) for table in tables],
            **options,
        )

    @property
    def config(self) -> GroupedEmbeddingConfig:
        """The tables."""
        return self._config

    @property
    def emb_module(self) -> IntNBitTableBatchedEmbeddingBagsCodegen:
        """What does the looking up."""
        return self._emb_module

    def get_tbes_to_register(self) -> dict[IntNBitTableBatchedEmbeddingBagsCodegen, GroupedEmbeddingConfig]:
        """What does the looking up, and its tables."""
        return {self._emb_module: self._config}

    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Look up.

        Args:
            features: those of the tables, in order, on their device.

        Returns:
            (examples, columns of all features), or (ids, columns) without pooling.
        """
        weights = features.weights_or_none() if self._weighted() else None
        places = features.lengths() if self.lengths_to_tbe else features.offsets()
        found: Tensor = self._emb_module(features.values(), places, weights)
        return found

    def _weighted(self) -> bool:
        return self._config.is_weighted or self._config.has_feature_processor

    def split_embedding_weights(self) -> list[tuple[Tensor, Tensor | None, Tensor | None]]:
        """Codes, scales and biases of each table, views; whole rows and None twice where they are not told apart."""
        parts = self._emb_module.split_embedding_weights_with_scale_bias(2 if self._split_scale_bias else 0)
        return [
            (as_codes(codes, table_type(table.data_type)), scale, bias)
            for table, (codes, scale, bias) in zip(self._config.embedding_tables, parts, strict=True)
        ]

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Codes of tables as `<table>.weight`; also `weight_qscale` and `weight_qbias` where they are apart."""
        for table, parts in zip(self._config.embedding_tables, self.split_embedding_weights(), strict=True):
            for name, part in zip(("weight", "weight_qscale", "weight_qbias"), parts, strict=True):
                if part is not None:
                    yield append_prefix(prefix, f"{table.name}.{name}"), part

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """`named_buffers` as a dictionary."""
        found: dict[str, Any] = {} if destination is None else destination
        found |= {f"{prefix}{name}": part for name, part in self.named_buffers()}
        return found

    @classmethod
    def _from_float(cls, module: BaseEmbedding) -> Any:
        qconfig: Any = getattr(module, "qconfig", None)
        if qconfig is None:
            raise OptionError(f"{type(module).__name__} has no qconfig, expected one that says what its tables become.")
        data_type = dtype_to_data_type(qconfig.weight().dtype)
        tables = [
            replace(table, data_type=data_type, compute_kernel=EmbeddingComputeKernel.QUANT)
            for table in module.config.embedding_tables
        ]
        given = module.config
        config = GroupedEmbeddingConfig(
            data_type=data_type,
            pooling=given.pooling,
            is_weighted=given.is_weighted,
            has_feature_processor=given.has_feature_processor,
            compute_kernel=EmbeddingComputeKernel.QUANT,
            embedding_tables=tables,
        )
        weights: list[Tensor] = module.split_embedding_weights()  # type: ignore[operator]
        made = cls(
            config,
            device=weights[0].device if weights else None,
            fused_params={"output_dtype": output_type(qconfig.activation().dtype)},
        )
        if made._device.type != "meta":
            made._emb_module.assign_embedding_weights(
                [quantized_rows(weight, table_type(data_type)) for weight in weights]
            )
        return made


class QuantBatchedEmbedding(_QuantBatched):
    """Looks up quantized tables, a row for each id.

    Args:
        config: the tables; each may have elements of its own.
        pg: has no meaning: all devices belong to one process.
        device: of the tables; the CPU by default.
        fused_params: options of the kernel, among them `output_dtype`.
        shard_index: which of the devices it is.
    """

    def _weighted(self) -> bool:
        return False

    @classmethod
    def from_float(cls, module: BaseEmbedding, use_precomputed_fake_quant: bool = False) -> QuantBatchedEmbedding:
        """Quantize the tables of a floating kernel.

        Args:
            module: with a `qconfig` that says what tables become and what results are.
            use_precomputed_fake_quant: has no meaning here.

        Raises:
            AssertionError: there is no qconfig; it is a ValueError too.
        """
        made: QuantBatchedEmbedding = cls._from_float(module)
        return made


class QuantBatchedEmbeddingBag(_QuantBatched):
    """Looks up quantized tables, and pools rows over bags.

    Args:
        config: the tables; each may have elements of its own.
        pg: has no meaning: all devices belong to one process.
        device: of the tables; the CPU by default.
        fused_params: options of the kernel, among them `output_dtype`.
        shard_index: which of the devices it is.
    """

    def _pooling(self) -> PoolingMode:
        return pooling_type_to_pooling_mode(self._config.pooling)

    def init_parameters(self) -> None:
        """Quantized tables are not initialized: they are loaded."""

    def forward(
        self,
        features: KeyedJaggedTensor,
        vbe_output: Tensor | None = None,
        vbe_output_offsets: Tensor | None = None,
    ) -> Tensor:
        """Look up and pool.

        Args:
            features: those of the tables, in order, on their device.
            vbe_output: has no meaning here; features have one batch.
            vbe_output_offsets: likewise.

        Returns:
            (examples, columns of all features).
        """
        return super().forward(features)

    @classmethod
    def from_float(cls, module: BaseEmbedding, use_precomputed_fake_quant: bool = False) -> QuantBatchedEmbeddingBag:
        """Quantize the tables of a floating kernel.

        Args:
            module: with a `qconfig` that says what tables become and what results are.
            use_precomputed_fake_quant: has no meaning here.

        Raises:
            AssertionError: there is no qconfig; it is a ValueError too.
        """
        made: QuantBatchedEmbeddingBag = cls._from_float(module)
        return made

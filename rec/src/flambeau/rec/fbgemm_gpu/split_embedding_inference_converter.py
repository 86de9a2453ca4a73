"""Tables that were trained, made into tables for inference inside of a model."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import FP8QuantizationConfig, QuantizationConfig, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import SplitTableBatchedEmbeddingBagsCodegen
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation
from flambeau.rec.fbgemm_gpu.tbe.utils.quantize import quantize_embs

__all__ = ["SplitEmbInferenceConverter"]


class SplitEmbInferenceConverter:
    """Replaces tables of a model.

    Args:
        quantize_type: elements of the new tables.
        pruning_ratio: the share of each table's rows that are left out, those of the smallest norm; none where None.
        use_array_for_index_remapping: whether what is left is found by arrays, or by hash tables.
        quantization_config: the format of eight-bit floats; that of `SparseType.FP8` where None.

    Raises:
        AssertionError: a ratio out of range.
    """

    def __init__(
        self,
        quantize_type: SparseType,
        pruning_ratio: float | None,
        use_array_for_index_remapping: bool = True,
        quantization_config: QuantizationConfig | None = None,
    ) -> None:
        if pruning_ratio is not None and not 0 <= pruning_ratio < 1:
            raise OptionError(f"pruning_ratio is {pruning_ratio}, expected at least 0 and less than 1, or None.")
        self.quantize_type = quantize_type
        self.pruning_ratio = pruning_ratio
        self.use_array_for_index_remapping = use_array_for_index_remapping
        self.quantization_config = (
            quantize_type.default_config() if quantization_config is None else quantization_config
        )

    def convert_model(self, model: nn.Module) -> nn.Module:
        """Replace all tables below a model.

        Args:
            model: is changed in place.

        Returns:
            The model.
        """
        for name, child in model.named_children():
            if isinstance(child, SplitTableBatchedEmbeddingBagsCodegen):
                setattr(model, name, self._converted(child))
            else:
                self.convert_model(child)
        return model

    def _converted(self, trained: SplitTableBatchedEmbeddingBagsCodegen) -> IntNBitTableBatchedEmbeddingBagsCodegen:
        config = self.quantization_config
        float8 = config if isinstance(config, FP8QuantizationConfig) else None
        specs, weights, remappings = [], [], []
        device = trained.split_embedding_weights()[0].device
        location = EmbeddingLocation.HOST if device.type in ("cpu", "meta") else EmbeddingLocation.DEVICE
        for at, table in enumerate(trained.split_embedding_weights()):
            rows, remapping = self._pruned(table.float())
            remappings.append(remapping)
            specs.append((f"table_{at}", rows.shape[0], rows.shape[1], self.quantize_type, location))
            weights.append(quantize_embs(rows, self.quantize_type, float8))
        return IntNBitTableBatchedEmbeddingBagsCodegen(
            specs,
            feature_table_map=list(trained.feature_table_map),
            index_remapping=remappings if self.pruning_ratio else None,
            pooling_mode=trained.pooling_mode,
            device=device,
            weight_lists=weights,
            use_array_for_index_remapping=self.use_array_for_index_remapping,
            fp8_exponent_bits=None if float8 is None else float8.get("exponent_bits"),
            fp8_exponent_bias=None if float8 is None else float8.get("exponent_bias"),
        )

    def _pruned(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """Rows that are left, and for each row its new place or -1."""
        rows = table.shape[0]
        kept = rows - math.floor(rows * (self.pruning_ratio or 0.0))
        order = table.norm(dim=1).argsort(descending=True, stable=True)[:kept].sort().values
        remapping = torch.full((rows,), -1, dtype=torch.int32)
        remapping[order.cpu()] = torch.arange(kept, dtype=torch.int32)
        return table[order], remapping

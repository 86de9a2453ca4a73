"""Embedding tables that are looked up together, and whose gradient is a tensor like any other parameter's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.rec.fbgemm_gpu._tables import BatchedTables
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode, PoolingMode
from flambeau.rec.ops import tbe
from flambeau.rec.ops._large_pages import on_large_pages

__all__ = ["DenseTableBatchedEmbeddingBagsCodegen"]


class DenseTableBatchedEmbeddingBagsCodegen(BatchedTables):
    """Tables of embeddings whose rows are pooled over bags, for any optimizer: `weights.grad` has all their gradients.

    Args:
        embedding_specs: (rows, columns) of each table.
        feature_table_map: the table of each feature, in any order; one feature for each table by default.
        weights_precision: of the tables: FP32, FP16 or BF16.
        pooling_mode: sum, mean, or none: then each index gives a row, and all tables are equally wide.
        use_cpu: whether tables are on the CPU rather than on an accelerator, where there is one.
        output_dtype: of the result: FP32, FP16 or BF16.
        use_mtia: whether tables are on an MTIA device.

    Raises:
        ValueError: tables and features that do not fit together, or another precision.
    """

    def __init__(
        self,
        embedding_specs: list[tuple[int, int]],
        feature_table_map: list[int] | None = None,
        weights_precision: SparseType = SparseType.FP32,
        pooling_mode: PoolingMode = PoolingMode.SUM,
        use_cpu: bool = False,
        output_dtype: SparseType = SparseType.FP32,
        use_mtia: bool = False,
    ) -> None:
        super().__init__(
            embedding_specs, feature_table_map, weights_precision, output_dtype, pooling_mode, BoundsCheckMode.FATAL
        )
        self.embedding_specs = embedding_specs
        kind = "mtia" if use_mtia else "cuda" if torch.cuda.is_available() and not use_cpu else "cpu"
        self.current_device = torch.device(kind)
        # As `nn.Embedding` begins.
        weights = torch.randn(self._layout.table_elements[-1], device=self.current_device)
        self.weights = nn.Parameter(on_large_pages(weights.to(weights_precision.as_dtype()), filled=True))

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None = None,
        feature_requires_grad: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
    ) -> Tensor:
        """Pool the rows of each bag; see `SplitTableBatchedEmbeddingBagsCodegen.forward`."""
        lookup, shape = self._lookup(
            self.weights, indices, offsets, per_sample_weights, batch_size_per_feature_per_rank
        )
        output = tbe.lookup(lookup, shape, feature_requires_grad=feature_requires_grad)
        return output if not self.output_dtype else output.to(SparseType.from_int(self.output_dtype).as_dtype())

    def split_embedding_weights(self) -> list[Tensor]:
        """A view of each table, (rows, columns)."""
        return self._layout.split(self.weights.detach())

    def init_embedding_weights_uniform(self, min_val: float, max_val: float) -> None:
        """Fill all tables with random numbers between two."""
        with torch.no_grad():
            self.weights.uniform_(min_val, max_val)

    def extra_repr(self) -> str:
        """Tables, features and pooling."""
        tables = ", ".join(f"{rows} x {dim}" for rows, dim in self.embedding_specs)
        return f"tables [{tables}], features {self.feature_table_map}, {self.pooling_mode.name}"

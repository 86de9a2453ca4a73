"""Tables that give their gradients instead of training themselves, for optimizers and data parallelism outside."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import PoolingMode
from flambeau.rec.ops._large_pages import on_large_pages
from flambeau.rec.ops.packed_lookup import packed_lookup

__all__ = ["DenseTables"]


class DenseTables(nn.Module):
    """Tables in one flat parameter.

    Args:
        shapes: (rows, columns) of each.
        feature_table_map: the table of each feature.
        pooling_mode: sum, mean, or none.
        dtype: of the tables.
        device: of the tables.
        feature_names: for messages.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, int]],
        feature_table_map: Sequence[int],
        pooling_mode: PoolingMode,
        dtype: torch.dtype,
        device: torch.device | None,
        feature_names: Sequence[str],
    ) -> None:
        super().__init__()
        self._shapes, self._reads, self._names = list(shapes), list(feature_table_map), list(feature_names)
        self.pooling_mode = pooling_mode
        self._sizes = [rows * columns for rows, columns in shapes]
        self.weights = nn.Parameter(
            on_large_pages(torch.empty(sum(self._sizes), dtype=dtype, device=device), filled=False)
        )
        self._means = [int(pooling_mode == PoolingMode.MEAN)] * len(self._reads)

    def split_embedding_weights(self) -> list[Tensor]:
        """A view of each table."""
        return self._tables(self.weights.detach())

    def _tables(self, flat: Tensor) -> list[Tensor]:
        return [part.view(shape) for part, shape in zip(flat.split(self._sizes), self._shapes, strict=True)]

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
    ) -> Tensor:
        """Look up; see `SplitTableBatchedEmbeddingBagsCodegen.forward`."""
        features = len(self._reads)
        per_rank = batch_size_per_feature_per_rank
        if per_rank is not None:
            sizes = [sum(ranks) for ranks in per_rank]
        else:
            sizes = [(offsets.numel() - 1) // features if features else 0] * features
        starts = [sum(sizes[:at]) for at in range(features)]
        if self.pooling_mode == PoolingMode.NONE:
            return self._rows(self._tables(self.weights), indices, offsets, starts, sizes)
        weights = None if per_sample_weights is None else per_sample_weights.float()
        rows, columns = [shape[0] for shape in self._shapes], [shape[1] for shape in self._shapes]
        pooled = packed_lookup(
            self.weights, rows, columns, indices, offsets, weights, self._reads, starts, sizes, self._means,
            self._names, flat=per_rank is not None,
        )  # fmt: skip
        return pooled if per_rank is None else self._by_rank(pooled, per_rank)

    def _rows(
        self, tables: list[Tensor], indices: Tensor, offsets: Tensor, starts: list[int], sizes: list[int]
    ) -> Tensor:
        width = self._shapes[0][1] if self._shapes else 0
        places = torch.tensor([*starts, starts[-1] + sizes[-1]] if starts else [0], device=offsets.device)
        ends = offsets[places].tolist()
        parts = []
        for feature, at in enumerate(self._reads):
            ids, rows = indices[ends[feature] : ends[feature + 1]].long(), len(tables[at])
            if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < rows:
                stray = int(ids[(ids < 0) | (ids >= rows)][0])
                raise RuntimeError(
                    f"feature {self._names[feature]!r} has the id {stray}, expected 0 to {rows - 1}: its table has "
                    f"{rows} rows."
                )
            parts.append(tables[at].index_select(0, ids))
        return torch.cat(parts) if parts else self.weights.new_empty(0, width)

    def _by_rank(self, flat: Tensor, per_rank: list[list[int]]) -> Tensor:
        """From feature by feature to process by process, feature by feature."""
        if all(len(ranks) == 1 for ranks in per_rank):
            return flat
        widths = [self._shapes[at][1] for at in self._reads]
        pieces = flat.split([size * width for ranks, width in zip(per_rank, widths, strict=True) for size in ranks])
        ranks = len(per_rank[0])
        return torch.cat([pieces[feature * ranks + rank] for rank in range(ranks) for feature in range(len(widths))])

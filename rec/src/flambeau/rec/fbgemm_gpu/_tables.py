"""What all tables that are looked up together share: their memory, and what batches must be like."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._training_layout import Layout, places_by_rank
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training_common import check_sizes
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode, PoolingMode
from flambeau.rec.ops import tbe
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum

__all__ = ["BatchedTables"]

logger = logging.getLogger("flambeau.rec.tbe")

_FATAL = (BoundsCheckMode.FATAL, BoundsCheckMode.V2_FATAL)
_WARNING = (BoundsCheckMode.WARNING, BoundsCheckMode.V2_WARNING)


class BatchedTables(nn.Module):
    """Tables one after another in memory, and the features that read them.

    Args:
        shapes: (rows, columns) of each table.
        feature_table_map: the table of each feature, in any order; one feature for each table by default.
        weights_precision: of the tables: FP32, FP16 or BF16.
        output_dtype: of results.
        pooling_mode: sum, mean, or none: then each index gives a row, and all tables are equally wide.
        bounds_check_mode: what becomes of indices outside of their tables.
        table_names: for messages.

    Raises:
        OptionError: tables and features that do not fit together, or another precision.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, int]],
        feature_table_map: list[int] | None,
        weights_precision: SparseType,
        output_dtype: SparseType,
        pooling_mode: PoolingMode,
        bounds_check_mode: BoundsCheckMode,
        table_names: list[str] | None = None,
    ) -> None:
        super().__init__()
        if weights_precision.as_dtype() not in (torch.float32, torch.float16, torch.bfloat16):
            raise OptionError(f"weights_precision is {weights_precision}; tables are trained as fp32, fp16 or bf16.")
        tables = list(range(len(shapes))) if feature_table_map is None else feature_table_map
        if any(table < 0 or table >= len(shapes) for table in tables):
            raise OptionError(f"feature_table_map is {tables}, expected tables 0 to {len(shapes) - 1}.")
        nobag = pooling_mode == PoolingMode.NONE
        if nobag and len({dim for _, dim in shapes}) > 1:
            widths = [dim for _, dim in shapes]
            raise OptionError(f"without pooling all tables are equally wide; they have {widths} columns.")
        self.feature_table_map, self.pooling_mode = tables, pooling_mode
        self._pooling = int(pooling_mode)
        self.weights_precision, self.output_dtype = weights_precision, output_dtype.as_int()
        self.bounds_check_mode_int = int(bounds_check_mode)
        if table_names is not None and len(table_names) != len(shapes):
            raise OptionError(f"table_names has {len(table_names)} names for {len(shapes)} tables.")
        self.table_names = table_names
        self.dims = tuple(dim for _, dim in shapes)
        self.total_D = sum(self.dims[table] for table in tables)
        self._layout = Layout(shapes, tables, nobag=nobag)

    def _name_of(self, table: int) -> str:
        return f"table {table}" if self.table_names is None else self.table_names[table]

    def log(self, msg: str) -> None:
        """Write a message to the log of all tables.

        Args:
            msg: the message.
        """
        logger.info(msg)

    def _lookup(
        self,
        weights: Tensor,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None,
        sizes: Sequence[Sequence[int]] | None,
    ) -> tuple[tbe.Lookup, tuple[int, ...]]:
        """A batch that fits the tables, and the shape of its result; see `forward`."""
        for tensor in (indices, offsets):
            if tensor.dtype not in (torch.int32, torch.int64):
                name = "indices" if tensor is indices else "offsets"
                raise RuntimeError(f"{name} is {tensor.dtype}, expected int32 or int64.")
        outputs, shape, starts = self._shape(indices, offsets, sizes)
        if per_sample_weights is not None and per_sample_weights.numel() != indices.numel():
            raise RuntimeError(
                f"per_sample_weights has {per_sample_weights.numel()} entries for {indices.numel()} indices."
            )
        factors = None if per_sample_weights is None else per_sample_weights.float().contiguous()
        layout = self._layout
        made = tbe.Lookup(
            weights, layout.tensor, indices.contiguous(), offsets.to(torch.int64).contiguous(), starts,
            layout.total_width, self._pooling, factors, outputs,
        )  # fmt: skip
        if tbe.fits(made):
            made.fits = True
        else:
            indices, offsets = self._within_bounds(made.indices, made.offsets, starts)
            made = replace(made, indices=indices, offsets=offsets)
        return made, shape

    def _checked(
        self, indices: Tensor, offsets: Tensor, sizes: Sequence[Sequence[int]] | None
    ) -> tuple[Tensor, Tensor]:
        """Indices and offsets that fit the tables."""
        _, _, starts = self._shape(indices, offsets, sizes)
        return self._within_bounds(indices.contiguous(), offsets.to(torch.int64), starts)

    def _shape(
        self, indices: Tensor, offsets: Tensor, sizes: Sequence[Sequence[int]] | None
    ) -> tuple[Tensor | None, tuple[int, ...], Tensor]:
        """Where bags go, the output's shape, and which bags are a feature's."""
        shape: tuple[int, ...]
        features = len(self.feature_table_map)
        if sizes is not None:
            if self.pooling_mode == PoolingMode.NONE:
                raise OptionError("batch_size_per_feature_per_rank is for sums and means; pooling_mode is NONE.")
            check_sizes(sizes, features)
            starts = asynchronous_complete_cumsum(torch.tensor([sum(ranks) for ranks in sizes]))
            widths = [self.dims[table] for table in self.feature_table_map]
            places, size = places_by_rank(sizes, widths)
            expected, shape = int(starts[-1]), (size,)
        else:
            batch = (offsets.numel() - 1) // features if features else 0
            starts, places, expected = self._layout.bag_starts(batch), None, batch * features
            shape = (batch, self._layout.total_width)
        if offsets.numel() != expected + 1:
            raise RuntimeError(
                f"offsets has {offsets.numel()} entries for {features} features; expected one more than a multiple of "
                "their number."
            )
        if self.pooling_mode == PoolingMode.NONE:
            return None, (indices.numel(), self._layout.total_width), starts
        return places, shape, starts

    def _within_bounds(self, indices: Tensor, offsets: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        mode = BoundsCheckMode(self.bounds_check_mode_int)
        falls = bool((offsets.diff() < 0).any()) if offsets.numel() > 1 else False
        if not falls and int(offsets[-1]) == indices.numel() and int(offsets[0]) == 0:
            ends = offsets[starts]
        elif mode in _FATAL or mode == BoundsCheckMode.NONE:
            how = ", and fall" if falls else ""
            raise RuntimeError(
                f"offsets run from {int(offsets[0])} to {int(offsets[-1])}{how}; expected 0 to {indices.numel()}, "
                "rising."
            )
        else:
            if mode in _WARNING:
                logger.warning("offsets do not fit %d indices; they were moved to where they do", indices.numel())
            offsets = offsets.clamp(0, indices.numel()).cummax(0).values
            offsets[0], offsets[-1] = 0, indices.numel()
            ends = offsets[starts]
        if mode in _FATAL or mode == BoundsCheckMode.NONE:
            return indices, offsets  # the look-up itself finds stray indices, and says where
        rows = torch.repeat_interleave(self._layout.tensor[1], ends.diff())
        stray = (indices < 0) | (indices >= rows)
        if bool(stray.any()):
            if mode in _WARNING:
                at = int(stray.nonzero()[0])
                feature = int(torch.searchsorted(ends, at, right=True)) - 1
                logger.warning(
                    "%d of %d indices lie outside of their tables, and became 0; the first is %d at %d, for feature %d "
                    "of %s with %d rows",
                    int(stray.sum()), indices.numel(), int(indices[at]), at, feature,
                    self._name_of(self.feature_table_map[feature]), int(rows[at]),
                )  # fmt: skip
            indices = indices.masked_fill(stray, 0)
        return indices, offsets

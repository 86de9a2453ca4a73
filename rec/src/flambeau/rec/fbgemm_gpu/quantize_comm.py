"""Codecs of collectives: tensors made smaller before they are sent to other processes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.quantize_utils import (
    bf16_to_fp32,
    fp16_to_fp32,
    fp32_to_bf16_with_clamp,
    fp32_to_fp16_with_clamp,
    fp32_to_hfp8_with_clamp,
    fp32_to_mx4,
    hfp8_to_fp32,
    mx4_to_float,
)
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.triton.common import RoundingMode
from flambeau.rec.ops import quantize_8bit, quantize_float8

__all__ = ["QuantizationContext", "QuantizedCommCodec", "none_throws"]

logger = logging.getLogger("flambeau.rec.quantize")

_T = TypeVar("_T")

ROW_DIM_DEFAULT = 32
MX_GROUP_SIZE_DEFAULT = 32
_PRECISIONS = {
    SparseType.FP32: torch.float32,
    SparseType.FP16: torch.float16,
    SparseType.BF16: torch.bfloat16,
    SparseType.FP8: torch.uint8,
    SparseType.INT8: torch.uint8,
    SparseType.MX4: torch.uint8,
}
_SCALED = (SparseType.FP16, SparseType.BF16)


def none_throws(optional: _T | None, message: str = "Unexpected `None`") -> _T:
    """The value, which is not None.

    Raises:
        AssertionError: it is.
    """
    if optional is None:
        raise OptionError(message)
    return optional


@dataclass
class QuantizationContext:
    """What both sides of an exchange know.

    Args:
        row_dim: numbers that share a scale.
        row_dim_quant: bytes that they become; -1 where that is not said.
        mx_group_size: numbers that share a power of two.
        rounding_mode: of that power of two.
        padded_dim_sum_per_rank: columns of each rank, filled up to whole groups.
    """

    row_dim: int = ROW_DIM_DEFAULT
    row_dim_quant: int = -1
    mx_group_size: int = MX_GROUP_SIZE_DEFAULT
    rounding_mode: RoundingMode | None = RoundingMode.even
    padded_dim_sum_per_rank: list[int] | None = None


class QuantizedCommCodec:
    """Makes tensors smaller and large again.

    Args:
        comm_precision: what is sent: FP32, FP16, BF16, FP8, INT8 or MX4.
        loss_scale: a factor for numbers while they are FP16 or BF16, so that small gradients are not lost.
        row_dim: numbers that share a scale (FP8; none without it) or a power of two (MX4).
        is_fwd: whether activations are sent, or gradients: scaled FP8 has more bits for the first, more range for the
            second.
        rounding_mode: of shared powers of two.
        output_dtype: of what MX4 and scaled FP8 are decoded to.

    Raises:
        ValueError: another precision.
    """

    def __init__(
        self,
        comm_precision: SparseType,
        loss_scale: float | None = None,
        row_dim: int | None = None,
        is_fwd: bool = True,
        rounding_mode: RoundingMode | None = None,
        output_dtype: SparseType | None = None,
    ) -> None:
        if loss_scale is not None and comm_precision not in _SCALED:
            logger.warning("loss_scale %s has no meaning for %s, and is left out.", loss_scale, comm_precision)
            loss_scale = None
        self._comm_precision = comm_precision
        self._loss_scale = loss_scale
        self._is_fwd = is_fwd
        self._row_dim = -1 if row_dim is None else row_dim
        self._rounding_mode = rounding_mode
        self._output_dtype = output_dtype
        if comm_precision is SparseType.MX4:
            self._row_dim = MX_GROUP_SIZE_DEFAULT if row_dim is None else row_dim
            self._rounding_mode = RoundingMode.even if rounding_mode is None else rounding_mode

    def encode(self, input_tensor: Tensor, ctx: QuantizationContext | None = None) -> Tensor:
        """What is sent for a tensor.

        Args:
            input_tensor: float32.
            ctx: of `create_context`.

        Returns:
            The same shape where numbers stand for themselves; (bytes,) where they share scales.

        Raises:
            RuntimeError: numbers that are no whole rows.
            AssertionError: INT8 without a context.
            ValueError: another precision.
        """
        values = input_tensor if self._loss_scale is None else input_tensor * self._loss_scale
        precision = self._precision()
        if precision is SparseType.FP32:
            return values.float()
        if precision is SparseType.FP16:
            return fp32_to_fp16_with_clamp(values)
        if precision is SparseType.BF16:
            return fp32_to_bf16_with_clamp(values)
        if precision is SparseType.INT8:
            rows = self._rows(values, none_throws(ctx).row_dim)
            return quantize_8bit.from_float(rows).view(-1)
        if precision is SparseType.MX4:
            group, mode = self._groups(ctx)
            return fp32_to_mx4(values, group, rounding_mode=mode).view(-1)
        if self._scaled_rows(ctx):
            rows = self._rows(values, none_throws(ctx).row_dim)
            return quantize_float8.rows_from_float(rows, forward=self._is_fwd).view(-1)
        return fp32_to_hfp8_with_clamp(values.float())

    def decode(self, input_tensor: Tensor, ctx: QuantizationContext | None = None) -> Tensor:
        """The tensor for which this was sent.

        Args:
            input_tensor: of `encode`.
            ctx: the one that it was encoded with.

        Returns:
            float32, or `output_dtype` where that has a meaning; one-dimensional where numbers share scales.

        Raises:
            ValueError: another precision.
        """
        values = self._decoded(input_tensor, ctx)
        return values if self._loss_scale is None else values / self._loss_scale

    def calc_quantized_size(self, input_len: int, ctx: QuantizationContext | None = None) -> int:
        """How many elements so many numbers become.

        Args:
            input_len: how many numbers.
            ctx: of `create_context`.

        Raises:
            RuntimeError: they are no whole rows.
            AssertionError: they are no whole groups.
        """
        if self._comm_precision is SparseType.MX4:
            group, _ = self._groups(ctx)
            if input_len % group:
                raise OptionError(f"input_len is {input_len}, expected a multiple of the group size {group}; pad it.")
            return input_len // group * (group // 2 + 1)
        if self._comm_precision is SparseType.INT8 or self._scaled_rows(ctx):
            row_dim = none_throws(ctx).row_dim
            if input_len % row_dim:
                raise RuntimeError(f"input_len is {input_len}, expected a multiple of row_dim {row_dim}; pad it.")
            return input_len // row_dim * self._row_bytes(row_dim)
        return input_len

    @property
    def quantized_dtype(self) -> torch.dtype:
        """The dtype of what is sent."""
        return _PRECISIONS.get(self._comm_precision, self._comm_precision.as_dtype())

    def create_context(self) -> QuantizationContext | None:
        """What encoding and decoding of one exchange share."""
        if self._comm_precision is SparseType.INT8:
            return QuantizationContext(ROW_DIM_DEFAULT, self._row_bytes(ROW_DIM_DEFAULT))
        if self._comm_precision is SparseType.FP8:
            return QuantizationContext(self._row_dim)
        if self._comm_precision is SparseType.MX4:
            return QuantizationContext(
                row_dim=ROW_DIM_DEFAULT if self._row_dim < 0 else self._row_dim,
                mx_group_size=self._row_dim,
                rounding_mode=self._rounding_mode,
            )
        return QuantizationContext()

    def padded_size(
        self, input_tensor: Tensor, dim_per_rank: list[int], my_rank: int, qcomm_ctx: QuantizationContext
    ) -> tuple[int, int]:
        """How wide rows must be so that each rank's part is a number of whole groups.

        Args:
            input_tensor: (rows, columns), columns being this rank's part.
            dim_per_rank: columns of each rank.
            my_rank: this one's number.
            qcomm_ctx: is told the widths of all ranks.

        Returns:
            Columns with padding, and the padding.

        Raises:
            AssertionError: a tensor that is no matrix, or has another number of columns.
        """
        if self._comm_precision is not SparseType.MX4:
            return input_tensor.shape[1], 0
        if input_tensor.dim() != 2 or input_tensor.shape[1] != dim_per_rank[my_rank]:
            raise OptionError(
                f"input_tensor has shape {tuple(input_tensor.shape)}, expected (rows, {dim_per_rank[my_rank]}): the "
                f"columns of rank {my_rank}."
            )
        group = qcomm_ctx.mx_group_size
        qcomm_ctx.padded_dim_sum_per_rank = [-(-dim // group) * group for dim in dim_per_rank]
        padded = qcomm_ctx.padded_dim_sum_per_rank[my_rank]
        return padded, padded - dim_per_rank[my_rank]

    def _precision(self) -> SparseType:
        if self._comm_precision not in _PRECISIONS:
            raise ValueError(
                f"comm_precision is {self._comm_precision}, expected one of {', '.join(map(str, _PRECISIONS))}."
            )
        return self._comm_precision

    def _decoded(self, values: Tensor, ctx: QuantizationContext | None) -> Tensor:
        precision = self._precision()
        if precision is SparseType.FP32:
            return values.float()
        if precision is SparseType.FP16:
            return fp16_to_fp32(values)
        if precision is SparseType.BF16:
            return bf16_to_fp32(values)
        if precision is SparseType.INT8:
            rows = values.view(-1, self._row_bytes(none_throws(ctx).row_dim))
            return quantize_8bit.to_float(rows).view(-1)
        if precision is SparseType.MX4:
            return mx4_to_float(values, self._groups(ctx)[0], output_dtype=self._output_dtype).view(-1)
        if self._scaled_rows(ctx):
            rows = values.view(-1, self._row_bytes(none_throws(ctx).row_dim))
            number = SparseType.FP32 if self._output_dtype is None else self._output_dtype
            return quantize_float8.rows_to_float(rows, number.as_int(), forward=self._is_fwd).view(-1)
        return hfp8_to_fp32(values)

    def _scaled_rows(self, ctx: QuantizationContext | None) -> bool:
        return self._comm_precision is SparseType.FP8 and ctx is not None and ctx.row_dim > 0

    def _groups(self, ctx: QuantizationContext | None) -> tuple[int, RoundingMode | None]:
        return (self._row_dim, self._rounding_mode) if ctx is None else (ctx.mx_group_size, ctx.rounding_mode)

    def _row_bytes(self, row_dim: int) -> int:
        columns = -(-row_dim // 4) * 4 if self._comm_precision is SparseType.FP8 else row_dim
        return columns + 8

    def _rows(self, values: Tensor, row_dim: int) -> Tensor:
        if values.numel() % row_dim:
            raise RuntimeError(
                f"the tensor has {values.numel()} numbers, expected a multiple of row_dim {row_dim}; pad it."
            )
        return values.float().reshape(-1, row_dim)

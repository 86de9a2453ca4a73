"""Microscaling by other defaults: the shared exponent is rounded up."""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.fbgemm_gpu.quantize_utils import fp32_to_mx4, mx4_to_fp32
from flambeau.rec.fbgemm_gpu.triton.common import RoundingMode

__all__ = ["py_dequantize_mx4", "py_quantize_mx4"]


def py_quantize_mx4(
    a: Tensor,
    group_size: int = 32,
    ebits: int = 2,
    mbits: int = 1,
    rounding_mode: RoundingMode | int = RoundingMode.ceil,
    stochastic_casting: bool = False,
) -> Tensor:
    """`quantize_utils.fp32_to_mx4` with the shared exponent rounded up.

    Args:
        a: (..., columns) floating.
        group_size: numbers that share a power of two.
        ebits: bits of a code's exponent, 2 or 3.
        mbits: bits of its significand, 1 or 0.
        rounding_mode: of the shared exponent.
        stochastic_casting: whether codes are rounded by chance.

    Returns:
        (..., ceil(columns / group_size) * (group_size / 2 + 1)) uint8.
    """
    return fp32_to_mx4(a, group_size, ebits, mbits, rounding_mode, stochastic_casting)


def py_dequantize_mx4(a: Tensor, group_size: int = 32, ebits: int = 2, mbits: int = 1) -> Tensor:
    """`quantize_utils.mx4_to_fp32`.

    Args:
        a: (..., groups * (group_size / 2 + 1)) uint8.
        group_size: numbers that share a power of two.
        ebits: bits of a code's exponent, 2 or 3.
        mbits: bits of its significand, 1 or 0.

    Returns:
        (..., groups * group_size) float32.
    """
    return mx4_to_fp32(a, group_size, ebits=ebits, mbits=mbits)

"""Microscaling formats by the numbers of the standard; of the four-bit ones E2M1 is what there is."""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.quantize_utils import fp32_to_mx4, mx4_to_fp32
from flambeau.rec.fbgemm_gpu.triton.common import RoundingMode

__all__ = ["dequantize_mx", "quantize_mx"]


def quantize_mx(
    input: Tensor,
    scale_bits: int = 8,
    elem_ebits: int = 2,
    elem_mbits: int = 3,
    elem_max_norm: float = 6.0,
    mx_group_size: int = 32,
    rounding_mode: RoundingMode | int = RoundingMode.even,
) -> Tensor:
    """Quantize groups of a row to four bits a number.

    Args:
        input: (..., columns) floating.
        scale_bits: of the shared power of two; 8.
        elem_ebits: bits of a code's exponent; 2.
        elem_mbits: bits of its significand with the sign and the bit that is not stored; 3.
        elem_max_norm: the largest number that a code stands for; 6.
        mx_group_size: numbers that share a power of two.
        rounding_mode: of the shared exponent.

    Returns:
        (..., ceil(columns / mx_group_size) * (mx_group_size / 2 + 1)) uint8.

    Raises:
        OptionError: the numbers of another format.
    """
    if (scale_bits, elem_ebits, elem_mbits, elem_max_norm) != (8, 2, 3, 6.0):
        raise OptionError(
            f"scale_bits, elem_ebits, elem_mbits and elem_max_norm are {scale_bits}, {elem_ebits}, {elem_mbits} and "
            f"{elem_max_norm}, expected 8, 2, 3 and 6.0: MX4 is the format that there is."
        )
    return fp32_to_mx4(input, mx_group_size, rounding_mode=rounding_mode)


def dequantize_mx(input: Tensor, mx_group_size: int = 32) -> Tensor:
    """Read what `quantize_mx` wrote.

    Args:
        input: (..., groups * (mx_group_size / 2 + 1)) uint8.
        mx_group_size: numbers that share a power of two.

    Returns:
        (..., groups * mx_group_size) float32.
    """
    return mx4_to_fp32(input, mx_group_size)

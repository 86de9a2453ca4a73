"""Conversions of tensors to smaller formats and back, with numbers limited to what the format has."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.triton.common import RoundingMode, get_mx4_exp_bias
from flambeau.rec.ops import quantize_float8, quantize_mx
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "bf16_to_fp32",
    "fp16_to_fp32",
    "fp32_to_bf16_with_clamp",
    "fp32_to_fp16_with_clamp",
    "fp32_to_hfp8_with_clamp",
    "fp32_to_mx4",
    "hfp8_to_fp32",
    "measure_fp16_quant_error",
    "mx4_to_float",
    "mx4_to_fp32",
]

logger = logging.getLogger("flambeau.rec.quantize")


def fp32_to_mx4(
    tensor: Tensor,
    group_size: int = 32,
    ebits: int = 2,
    mbits: int = 1,
    rounding_mode: RoundingMode | int | None = RoundingMode.even,
    stochastic_casting: bool = False,
    use_triton: bool = True,
) -> Tensor:
    """Quantize groups of a row to four bits a number.

    Args:
        tensor: (..., columns) floating.
        group_size: numbers that share a power of two.
        ebits: bits of a code's exponent, 2 or 3.
        mbits: bits of its significand, 1 or 0.
        rounding_mode: of the shared exponent; None for `even`.
        stochastic_casting: whether codes are rounded by chance.
        use_triton: has no meaning here: each device has one kernel.

    Returns:
        (..., ceil(columns / group_size) * (group_size / 2 + 1)) uint8.

    Raises:
        NotImplementedError: no such number of bits.
    """
    get_mx4_exp_bias(ebits)
    mode = RoundingMode.even if rounding_mode is None else int(rounding_mode)
    return quantize_mx.quantize_mx4(tensor.float(), group_size, ebits, mbits, mode, stochastic=stochastic_casting)


def mx4_to_fp32(
    tensor: Tensor, group_size: int = 32, use_triton: bool = True, ebits: int = 2, mbits: int = 1
) -> Tensor:
    """Read groups of four-bit numbers.

    Args:
        tensor: (..., groups * (group_size / 2 + 1)) uint8.
        group_size: numbers that share a power of two.
        use_triton: has no meaning here.
        ebits: bits of a code's exponent, 2 or 3.
        mbits: bits of its significand, 1 or 0.

    Returns:
        (..., groups * group_size) float32; zeros that rows were filled up with come back too.
    """
    return OPS.dequantize_mx4(tensor, group_size, ebits, mbits)  # type: ignore[no-any-return]


def mx4_to_float(
    tensor: Tensor,
    group_size: int = 32,
    use_triton: bool = True,
    ebits: int = 2,
    mbits: int = 1,
    output_dtype: SparseType | None = None,
) -> Tensor:
    """Read groups of four-bit numbers as float32 or bfloat16.

    Args:
        tensor: (..., groups * (group_size / 2 + 1)) uint8.
        group_size: numbers that share a power of two.
        use_triton: has no meaning here.
        ebits: bits of a code's exponent, 2 or 3.
        mbits: bits of its significand, 1 or 0.
        output_dtype: FP32, which None means too, or BF16.

    Returns:
        (..., groups * group_size).

    Raises:
        OptionError: another output_dtype; float16 has not the range of shared exponents.
    """
    if output_dtype not in (None, SparseType.FP32, SparseType.BF16):
        raise OptionError(
            f"output_dtype is {output_dtype}, expected FP32 or BF16: the exponents of MX4 reach further than float16's."
        )
    values = mx4_to_fp32(tensor, group_size, use_triton, ebits, mbits)
    return values.bfloat16() if output_dtype is SparseType.BF16 else values


def _limited(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    most = torch.finfo(dtype).max
    return tensor.clamp(-most, most).to(dtype)


def fp32_to_fp16_with_clamp(tensor: Tensor) -> Tensor:
    """Round to float16; numbers beyond its range become its largest, what is no number stays none.

    Args:
        tensor: floating, any shape.

    Returns:
        float16 of the same shape.
    """
    return _limited(tensor, torch.float16)


def fp32_to_bf16_with_clamp(tensor: Tensor) -> Tensor:
    """Round to bfloat16; infinite numbers become its largest, what is no number stays none.

    Args:
        tensor: floating, any shape.

    Returns:
        bfloat16 of the same shape.
    """
    return _limited(tensor, torch.bfloat16)


def fp32_to_hfp8_with_clamp(tensor: Tensor, ebits: int = 4, mbits: int = 3, bias: int = 15) -> Tensor:
    """Round to eight-bit floats; numbers beyond their range become the largest.

    Args:
        tensor: float32, any shape.
        ebits: bits of the exponent.
        mbits: bits of the significand.
        bias: what is taken off the exponent.

    Returns:
        uint8 of the same shape. The largest exponent is kept for what is no number elsewhere, and not used.
    """
    largest = 2.0 ** ((1 << ebits) - 2 - bias) * (2 - 2.0**-mbits)
    return quantize_float8.from_float(tensor, ebits, bias, largest)


def fp16_to_fp32(tensor: Tensor) -> Tensor:
    """The same numbers as float32."""
    return tensor.float()


def bf16_to_fp32(tensor: Tensor) -> Tensor:
    """The same numbers as float32."""
    return tensor.view(torch.bfloat16).float()


def hfp8_to_fp32(tensor: Tensor, ebits: int = 4, bias: int = 15) -> Tensor:
    """Read eight-bit floats.

    Args:
        tensor: uint8, any shape.
        ebits: bits of the exponent.
        bias: what is taken off the exponent.

    Returns:
        float32 of the same shape.
    """
    return quantize_float8.to_float(tensor.view(torch.uint8), ebits, bias)


def measure_fp16_quant_error(input_tensor: Tensor) -> None:
    """Log how much of a tensor float16 would lose: its norm, the error's, and how many numbers are beyond the range.

    Args:
        input_tensor: float32, any shape.
    """
    beyond = int((input_tensor.abs() > torch.finfo(torch.float16).max).sum())
    error = (fp32_to_fp16_with_clamp(input_tensor).float() - input_tensor).norm()
    logger.info(
        "float16 would lose %.3g of a norm of %.3g; %d of %d numbers are beyond its range",
        float(error), float(input_tensor.norm()), beyond, input_tensor.numel(),
    )  # fmt: skip

"""Tables of embeddings as rows of smaller elements, and back."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import FP8QuantizationConfig, SparseType
from flambeau.rec.ops import quantize_8bit, quantize_float8, quantize_nbit
from flambeau.rec.ops._quantized_rows import as_numbers

__all__ = ["dequantize_embs", "fake_quantize_embs", "quantize_embs"]

_PLAIN = {SparseType.FP32: torch.float32, SparseType.FP16: torch.float16, SparseType.BF16: torch.bfloat16}


def _float8(config: FP8QuantizationConfig | None) -> tuple[int, int, float]:
    if config is None:
        raise OptionError("fp8_config is None, expected an FP8QuantizationConfig: eight-bit floats have many formats.")
    return config.get("exponent_bits"), config.get("exponent_bias"), float(config.get("max_position"))


def quantize_embs(
    weight: Tensor, weight_ty: SparseType, fp8_config: FP8QuantizationConfig | None = None
) -> tuple[Tensor, Tensor | None]:
    """Rows of a table in the elements of an inference table.

    Args:
        weight: (rows, columns) floating.
        weight_ty: FP32, FP16, BF16, FP8, INT8, INT4 or INT2.
        fp8_config: the format of eight-bit floats.

    Returns:
        (rows, bytes) uint8, the memory of the table itself where it has those elements, and (rows, 4) uint8 of scales
        and biases as float16, or None where there are none.

    Raises:
        RuntimeError: another type.
        AssertionError: FP8 without its format.

    Example:
        >>> codes, scale_shift = quantize_embs(torch.tensor([[0.0, 1.0, 255.0]]), SparseType.INT8)
        >>> codes, scale_shift.view(torch.float16)
        (tensor([[  0,   1, 255]], dtype=torch.uint8), tensor([[1., 0.]], dtype=torch.float16))
    """
    weight = weight.detach()
    if weight_ty in _PLAIN:
        return weight.to(_PLAIN[weight_ty]).contiguous().view(torch.uint8), None
    values = weight.float()
    if weight_ty is SparseType.FP8:
        ebits, bias, largest = _float8(fp8_config)
        return quantize_float8.from_float(values, ebits, bias, largest), None
    if weight_ty is SparseType.INT8:
        rows = quantize_8bit.from_float(values)
        parameters = as_numbers(rows[:, -8:], torch.float32).half()
        return rows[:, :-8].contiguous(), parameters.view(torch.uint8)
    if weight_ty in (SparseType.INT4, SparseType.INT2):
        rows = quantize_nbit.from_float(values, weight_ty.bit_rate())
        return rows[:, :-4].contiguous(), rows[:, -4:].contiguous()
    raise RuntimeError(f"weight_ty is {weight_ty}, expected FP32, FP16, BF16, FP8, INT8, INT4 or INT2.")


def dequantize_embs(
    weights: Tensor,
    scale_shift: Tensor | None,
    weight_ty: SparseType,
    use_cpu: bool,
    fp8_config: FP8QuantizationConfig | None = None,
) -> Tensor:
    """Rows of an inference table as numbers.

    Args:
        weights: (rows, bytes) uint8, of `quantize_embs`.
        scale_shift: (rows, 4) uint8, where there are scales.
        weight_ty: what they are.
        use_cpu: has no meaning here.
        fp8_config: the format of eight-bit floats.

    Returns:
        (rows, columns) float32; of FP16 and BF16 tables in their own dtype.

    Raises:
        RuntimeError: another type.
        AssertionError: FP8 without its format, or no scales where they are needed.
    """
    if weight_ty in _PLAIN:
        return as_numbers(weights, _PLAIN[weight_ty])
    if weight_ty is SparseType.FP8:
        ebits, bias, _ = _float8(fp8_config)
        return quantize_float8.to_float(weights, ebits, bias)
    if weight_ty not in (SparseType.INT8, SparseType.INT4, SparseType.INT2):
        raise RuntimeError(f"weight_ty is {weight_ty}, expected FP32, FP16, BF16, FP8, INT8, INT4 or INT2.")
    if scale_shift is None:
        raise OptionError(f"scale_shift is None, expected (rows, 4) bytes: {weight_ty} rows have scales and biases.")
    rows = torch.cat([scale_shift.view(torch.uint8), weights], 1)
    if weight_ty is SparseType.INT8:
        return quantize_8bit.to_float(rows, scale_bias_last=False, quant_padding_float_type=False)
    return quantize_nbit.to_float(rows, weight_ty.bit_rate(), scale_bias_last=False)


def fake_quantize_embs(
    weights: Tensor,
    scale_shift: Tensor | None,
    dequant_weights: Tensor,
    weight_ty: SparseType,
    use_cpu: bool,
    fp8_config: FP8QuantizationConfig | None = None,
) -> None:
    """Write what a quantized table stands for into a floating one.

    Args:
        weights: (rows, bytes) uint8.
        scale_shift: (rows, 4) uint8, where there are scales.
        dequant_weights: (rows, columns), is overwritten.
        weight_ty: what they are.
        use_cpu: has no meaning here.
        fp8_config: the format of eight-bit floats.
    """
    dequant_weights.copy_(dequantize_embs(weights, scale_shift, weight_ty, use_cpu, fp8_config))

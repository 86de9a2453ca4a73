"""Rows of whole numbers of 2 or 4 bits (1 and 8 as well), each row with a scale and a bias of its own in float16.

A row of D numbers is ceil(D * bits / 8) bytes, the first number in the lowest bits, then scale and bias. Both are
rounded to float16 before the row is quantized by them. The native kernel is `native/quantize_nbit.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._quantized_rows import (
    EITHER,
    as_bytes,
    as_numbers,
    check_bytes,
    check_floats,
    output_dtype,
    rounded,
    row_range,
    scaled,
)
from flambeau.rec.ops._short_calls import OPS

__all__ = ["from_float", "to_float"]


def from_float(values: Tensor, bit_rate: int) -> Tensor:
    """Quantize rows to a few bits.

    Args:
        values: (..., columns) float32, float16 or bfloat16.
        bit_rate: bits of a number: 1, 2, 4 or 8.

    Returns:
        (..., ceil(columns * bit_rate / 8) + 4) uint8: codes, then scale and bias as float16.

    Raises:
        RuntimeError: another dtype or number of bits, or fewer than two dimensions.

    Example:
        >>> from_float(torch.tensor([[0.0, 1.0, 15.0, 2.0]]), 4)[:, :2]  # 1 and 0; 2 and 15
        tensor([[16, 47]], dtype=torch.uint8)
    """
    return OPS.FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf(values, bit_rate)  # type: ignore[no-any-return]


def to_float(rows: Tensor, bit_rate: int, dtype: int = 0, *, scale_bias_last: bool = True) -> Tensor:
    """Read quantized rows.

    Args:
        rows: (..., bytes + 4) uint8, see `from_float`.
        bit_rate: bits of a number: 1, 2, 4 or 8.
        dtype: 0 for float32, 1 for float16, 5 for bfloat16.
        scale_bias_last: whether scale and bias stand behind the codes, not before them.

    Returns:
        (..., bytes * 8 / bit_rate) of the dtype: all numbers that the bytes have room for.

    Raises:
        RuntimeError: no such rows, or no such dtype.
    """
    return OPS.FusedNBitRowwiseQuantizedSBHalfToFloatOrHalf(rows, bit_rate, dtype, scale_bias_last)  # type: ignore[no-any-return]


def _check_bits(op: str, bits: int) -> None:
    if bits not in (1, 2, 4, 8):
        raise RuntimeError(f"{op}: bit_rate is {bits}, expected 1, 2, 4 or 8.")


def pack(codes: Tensor, bits: int) -> Tensor:
    """(..., ceil(n * bits / 8)) uint8: codes of a few bits each, the first in the lowest bits."""
    per_byte = 8 // bits
    codes = torch.nn.functional.pad(codes, (0, -codes.shape[-1] % per_byte))
    parts = codes.reshape(*codes.shape[:-1], codes.shape[-1] // per_byte, per_byte)
    shifts = torch.arange(per_byte, device=codes.device, dtype=torch.int32) * bits
    return (parts.to(torch.int32) << shifts).sum(-1).to(torch.uint8)


def unpack(packed: Tensor, bits: int) -> Tensor:
    """(..., n * 8 / bits) uint8: the inverse of `pack`."""
    shifts = torch.arange(8 // bits, device=packed.device, dtype=torch.int32) * bits
    parts = packed.to(torch.int32).unsqueeze(-1) >> shifts & (1 << bits) - 1
    return parts.flatten(-2).to(torch.uint8)


def _encoded(values: Tensor, bits: int, low: Tensor, high: Tensor) -> Tensor:
    half_low = low.half()
    spread = high - half_low.float()
    scale = torch.where(spread == 0, 1.0, spread / ((1 << bits) - 1)).half().float()
    # A range that float16 takes for nothing: all is the bias.
    scale = torch.where(scale == 0, 1.0, scale)
    inverse = 1.0 / scale
    scale = torch.where(inverse.isfinite(), scale, 1.0)
    inverse = torch.where(inverse.isfinite(), inverse, 1.0)
    codes = rounded((values.float() - half_low.float()) * inverse, (1 << bits) - 1)
    return torch.cat([pack(codes, bits), as_bytes(scale.half()), as_bytes(half_low)], -1)


def _encode(op: str, dtypes: tuple[torch.dtype, ...]) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def fake(values: Tensor, bits: int) -> Tensor:
        check_floats(op, values, dtypes)
        _check_bits(op, bits)
        return values.new_empty((*values.shape[:-1], (values.shape[-1] * bits + 7) // 8 + 4), dtype=torch.uint8)

    def reference(values: Tensor, bits: int) -> Tensor:
        check_floats(op, values, dtypes)
        _check_bits(op, bits)
        return _encoded(values, bits, *row_range(values))

    return fake, reference


def _decoded_shape(op: str, rows: Tensor, bits: int, dtype: int) -> Tensor:
    check_bytes(op, rows, 4, "bytes")
    _check_bits(op, bits)
    return rows.new_empty((*rows.shape[:-1], (rows.shape[-1] - 4) * 8 // bits), dtype=output_dtype(op, dtype))


def _decoded(op: str, rows: Tensor, bits: int, dtype: int, last: bool) -> Tensor:
    check_bytes(op, rows, 4, "bytes")
    _check_bits(op, bits)
    chosen = output_dtype(op, dtype)
    width = rows.shape[-1] - 4
    packed, parameters = rows.split([width, 4] if last else [4, width], -1)[:: 1 if last else -1]
    scale, bias = as_numbers(parameters, torch.float16).split(1, -1)
    return scaled(unpack(packed, bits), scale, bias, chosen)


for _name, _dtypes in (
    ("FloatToFusedNBitRowwiseQuantizedSBHalf", (torch.float32,)),
    ("HalfToFusedNBitRowwiseQuantizedSBHalf", (torch.float16,)),
    ("FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf", EITHER),
):
    _fake, _reference = _encode(_name, _dtypes)
    register_op(f"{_name}(Tensor input, int bit_rate) -> Tensor", library=LIBRARY, fake=_fake, python=_reference)

_LIMITED = "FloatOrHalfToFusedNBitRowwiseQuantizedSBHalfWithRowwiseMinMax"


def _check_limits(values: Tensor, bits: int, limits: Tensor) -> None:
    check_floats(_LIMITED, values, EITHER)
    _check_bits(_LIMITED, bits)
    rows = values.shape[:-1].numel()
    if limits.dtype != values.dtype or limits.numel() != 2 * rows:
        raise RuntimeError(
            f"{_LIMITED}: rowwise_min_max has shape {tuple(limits.shape)} and dtype {limits.dtype}, expected ({rows}, "
            f"2) of the input's {values.dtype}."
        )


def _limited_shape(values: Tensor, bits: int, limits: Tensor) -> Tensor:
    _check_limits(values, bits, limits)
    return values.new_empty((*values.shape[:-1], (values.shape[-1] * bits + 7) // 8 + 4), dtype=torch.uint8)


def _limited(values: Tensor, bits: int, limits: Tensor) -> Tensor:
    _check_limits(values, bits, limits)
    low, high = limits.float().reshape(*values.shape[:-1], 2).split(1, -1)
    return _encoded(values, bits, low, high)


register_op(
    f"{_LIMITED}(Tensor input, int bit_rate, Tensor rowwise_min_max) -> Tensor",
    library=LIBRARY,
    fake=_limited_shape,
    python=_limited,
)

for _name, _number in (("FusedNBitRowwiseQuantizedSBHalfToFloat", 0), ("FusedNBitRowwiseQuantizedSBHalfToHalf", 1)):
    register_op(
        f"{_name}(Tensor input, int bit_rate) -> Tensor",
        library=LIBRARY,
        fake=lambda rows, bits, op=_name, number=_number: _decoded_shape(op, rows, bits, number),
        python=lambda rows, bits, op=_name, number=_number: _decoded(op, rows, bits, number, True),
    )

_EITHER = "FusedNBitRowwiseQuantizedSBHalfToFloatOrHalf"
register_op(
    f"{_EITHER}(Tensor input, int bit_rate, int output_dtype=0, bool scale_bias_last=True) -> Tensor",
    library=LIBRARY,
    fake=lambda rows, bits, dtype=0, last=True: _decoded_shape(_EITHER, rows, bits, dtype),
    python=lambda rows, bits, dtype=0, last=True: _decoded(_EITHER, rows, bits, dtype, last),
)
_FRONT = "FusedNBitRowwiseQuantizedSBHalfFrontToFloatOrHalf"
register_op(
    f"{_FRONT}(Tensor input, int bit_rate, int output_dtype) -> Tensor",
    library=LIBRARY,
    fake=lambda rows, bits, dtype: _decoded_shape(_FRONT, rows, bits, dtype),
    python=lambda rows, bits, dtype: _decoded(_FRONT, rows, bits, dtype, False),
)

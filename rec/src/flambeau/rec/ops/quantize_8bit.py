"""Rows of eight-bit whole numbers, each with a scale and a bias of its own: value = q * scale + bias.

A row of D numbers is D bytes, then scale = (max - min) / 255 and bias = min as float32. The native kernel is
`native/quantize_8bit.cpp`. What is no number takes no part in the range of its row, and becomes its smallest number.
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


def from_float(values: Tensor) -> Tensor:
    """Quantize rows to eight bits.

    Args:
        values: (..., columns) float32, float16 or bfloat16.

    Returns:
        (..., columns + 8) uint8: codes, then scale and bias as float32.

    Raises:
        RuntimeError: another dtype, or fewer than two dimensions.

    Example:
        >>> from_float(torch.tensor([[0.0, 1.0, 255.0]]))[:, :3]
        tensor([[  0,   1, 255]], dtype=torch.uint8)
    """
    return OPS.FloatOrHalfToFused8BitRowwiseQuantized(values)  # type: ignore[no-any-return]


def to_float(
    rows: Tensor, dtype: int = 0, *, scale_bias_last: bool = True, quant_padding_float_type: bool = True
) -> Tensor:
    """Read quantized rows.

    Args:
        rows: (..., columns + 8) uint8, see `from_float`; (..., columns + 4) with parameters of 16 bits.
        dtype: 0 for float32, 1 for float16, 5 for bfloat16.
        scale_bias_last: whether scale and bias stand behind the codes, not before them.
        quant_padding_float_type: whether they are float32, not float16.

    Returns:
        (..., columns) of the dtype.

    Raises:
        RuntimeError: no such rows, or no such dtype.
    """
    return OPS.Fused8BitRowwiseQuantizedToFloatOrHalf(  # type: ignore[no-any-return]
        rows, dtype, scale_bias_last, quant_padding_float_type
    )


def _encode(op: str, dtypes: tuple[torch.dtype, ...]) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def fake(values: Tensor) -> Tensor:
        check_floats(op, values, dtypes)
        return values.new_empty((*values.shape[:-1], values.shape[-1] + 8), dtype=torch.uint8)

    def reference(values: Tensor) -> Tensor:
        check_floats(op, values, dtypes)
        low, high = row_range(values)
        spread = high - low
        inverse = torch.full_like(spread, 255.0) / (spread + 1e-8)  # a number by a tensor would be two roundings
        codes = rounded((values.float() - low) * inverse, 255)
        return torch.cat([codes, as_bytes(spread / 255.0), as_bytes(low)], -1)

    return fake, reference


def _decoded(op: str, rows: Tensor, dtype: int, last: bool, floats: bool) -> Tensor:
    padding = 4 if floats else 2
    check_bytes(op, rows, 2 * padding)
    chosen = output_dtype(op, dtype)
    width = rows.shape[-1] - 2 * padding
    codes, parameters = rows.split([width, 2 * padding] if last else [2 * padding, width], -1)[:: 1 if last else -1]
    scale, bias = as_numbers(parameters, torch.float32 if floats else torch.float16).split(1, -1)
    return scaled(codes, scale, bias, chosen)


def _decoded_shape(op: str, rows: Tensor, dtype: int, floats: bool) -> Tensor:
    extra = 8 if floats else 4
    check_bytes(op, rows, extra)
    return rows.new_empty((*rows.shape[:-1], rows.shape[-1] - extra), dtype=output_dtype(op, dtype))


for _name, _dtypes, _argument in (
    ("FloatToFused8BitRowwiseQuantized", (torch.float32,), "t"),
    ("HalfToFused8BitRowwiseQuantized", (torch.float16,), "t"),
    ("FloatOrHalfToFused8BitRowwiseQuantized", EITHER, "t"),
):
    _fake, _reference = _encode(_name, _dtypes)
    register_op(f"{_name}(Tensor {_argument}) -> Tensor", library=LIBRARY, fake=_fake, python=_reference)

for _name, _number in (
    ("Fused8BitRowwiseQuantizedToFloat", 0),
    ("Fused8BitRowwiseQuantizedToHalf", 1),
    ("Fused8BitRowwiseQuantizedToBfloat16", 5),
):
    register_op(
        f"{_name}(Tensor input) -> Tensor",
        library=LIBRARY,
        fake=lambda rows, op=_name, number=_number: _decoded_shape(op, rows, number, True),
        python=lambda rows, op=_name, number=_number: _decoded(op, rows, number, True, True),
    )

_EITHER = "Fused8BitRowwiseQuantizedToFloatOrHalf"
register_op(
    f"{_EITHER}(Tensor input, int output_dtype=0, bool scale_bias_last=True, bool quant_padding_float_type=True) "
    "-> Tensor",
    library=LIBRARY,
    fake=lambda rows, dtype=0, last=True, floats=True: _decoded_shape(_EITHER, rows, dtype, floats),
    python=lambda rows, dtype=0, last=True, floats=True: _decoded(_EITHER, rows, dtype, last, floats),
)


def _written(output: Tensor, result: Tensor) -> Tensor:
    if output.shape != result.shape:
        output.resize_(result.shape)
    return output.copy_(result)


def _out_shape(output: Tensor, *_: object) -> Tensor:
    return output


register_op(
    "FloatToFused8BitRowwiseQuantizedOut(Tensor(a!) output, Tensor input) -> Tensor(a!)",
    library=LIBRARY,
    fake=_out_shape,
    python=lambda output, values: _written(output, OPS.FloatToFused8BitRowwiseQuantized(values)),
)
register_op(
    "Fused8BitRowwiseQuantizedToFloatOut(Tensor(a!) output, Tensor input, bool scale_bias_last=True, "
    "bool quant_padding_float_type=True) -> Tensor(a!)",
    library=LIBRARY,
    fake=_out_shape,
    python=lambda output, rows, last=True, floats=True: _written(output, to_float(
        rows, 0, scale_bias_last=last, quant_padding_float_type=floats
    )),
)  # fmt: skip


def _mixed(rows: Tensor, offsets: Tensor, dtype: int) -> Tensor:
    """Rows of several tables side by side, each with its own scale and bias behind it."""
    op = "Fused8BitRowwiseQuantizedToFloatMixedDim"
    check_bytes(op, rows, 0)
    chosen = output_dtype(op, dtype)
    if offsets.dim() != 1 or offsets.shape[0] < 1 or int(offsets[-1]) != rows.shape[-1]:
        raise RuntimeError(
            f"{op}: D_offsets ends at {offsets.tolist()[-1:]}, expected where each table's bytes begin, and at the end "
            f"the {rows.shape[-1]} columns of input."
        )
    widths = offsets.diff().tolist()
    parts = [_decoded(op, part, dtype, True, True) for part in rows.split(widths, -1)]
    return torch.cat(parts, -1) if parts else rows.new_empty((*rows.shape[:-1], 0), dtype=chosen)


register_op(
    "Fused8BitRowwiseQuantizedToFloatMixedDim(Tensor input, Tensor D_offsets, int output_dtype) -> Tensor",
    library=LIBRARY,
    fake=lambda rows, offsets, dtype: rows.new_empty(
        (*rows.shape[:-1], rows.shape[-1] - 8 * (offsets.shape[0] - 1)),
        dtype=output_dtype("Fused8BitRowwiseQuantizedToFloatMixedDim", dtype),
    ),
    python=_mixed,
)

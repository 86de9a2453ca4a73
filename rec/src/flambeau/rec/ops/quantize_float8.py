"""Floats of eight bits: a sign, an exponent of few bits, the rest of the significand; every pattern is a number.

The native kernel is `native/quantize_float8.cpp`. Numbers beyond the largest one become it, and so does what is none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._quantized_rows import EITHER, as_bytes, as_numbers, given_as, output_dtype, row_range
from flambeau.rec.ops._short_calls import OPS

__all__ = ["decoded", "encoded", "from_float", "rows_from_float", "rows_to_float", "to_float"]


def from_float(values: Tensor, ebits: int, exponent_bias: int, max_pos: float) -> Tensor:
    """Round numbers to eight-bit floats.

    Args:
        values: float32, any shape.
        ebits: bits of the exponent, 1 to 7; the rest of seven are the significand's.
        exponent_bias: what is taken off the exponent, 0 to 127.
        max_pos: the largest number, which all beyond it become.

    Returns:
        uint8 of the same shape.

    Raises:
        RuntimeError: another dtype, or numbers out of range.
    """
    return OPS.FloatToHFP8Quantized(values, ebits, exponent_bias, max_pos)  # type: ignore[no-any-return]


def to_float(codes: Tensor, ebits: int, exponent_bias: int) -> Tensor:
    """Read eight-bit floats.

    Args:
        codes: uint8, any shape.
        ebits: bits of the exponent.
        exponent_bias: what is taken off the exponent.

    Returns:
        float32 of the same shape.

    Raises:
        RuntimeError: another dtype, or numbers out of range.
    """
    return OPS.HFP8QuantizedToFloat(codes, ebits, exponent_bias)  # type: ignore[no-any-return]


def rows_from_float(values: Tensor, *, forward: bool) -> Tensor:
    """Round rows to eight-bit floats, each with a scale of its own.

    Args:
        values: (..., columns) float32, float16 or bfloat16.
        forward: whether they have a significand of three bits, or of two and more range.

    Returns:
        (..., columns rounded up to four + 8) uint8.

    Raises:
        RuntimeError: another dtype, or fewer than two dimensions.
    """
    return OPS.FloatToFP8RowwiseQuantized(values, forward)  # type: ignore[no-any-return]


def rows_to_float(rows: Tensor, dtype: int = 0, *, forward: bool) -> Tensor:
    """Read what `rows_from_float` wrote.

    Args:
        rows: (..., columns + 8) uint8.
        dtype: 0 for float32, 1 for float16, 5 for bfloat16.
        forward: as it was written.

    Returns:
        (..., columns) of the dtype.

    Raises:
        RuntimeError: no such rows, or no such dtype.
    """
    return OPS.FP8RowwiseQuantizedToFloat(rows, forward, dtype)  # type: ignore[no-any-return]


def _power_of_two(exponent: int) -> float:
    return float(2.0**exponent)


def encoded(values: Tensor, ebits: int, exponent_bias: int, max_pos: float) -> Tensor:
    """Round numbers to eight-bit floats, in plain torch.

    Args:
        values: float32, any shape.
        ebits: bits of the exponent, 1 to 7.
        exponent_bias: what is taken off the exponent.
        max_pos: the largest number.

    Returns:
        uint8 of the same shape.
    """
    mantissa = 7 - ebits
    sign = torch.signbit(values)
    size = values.abs().nan_to_num(max_pos, max_pos, max_pos).clamp(max=max_pos)
    raw = size.view(torch.int32)
    # To nearest, ties to even: a larger power of two leaves no room for what is to be cut off.
    step = ((raw & 0x7F800000) + ((23 - mantissa) << 23)).view(torch.float32)
    normal = ((size + step) - step).view(torch.int32) - ((127 - exponent_bias) << 23)
    as_normal = ((normal.long() << (8 - ebits)) & 0xFFFFFFFF) >> 24
    smallest_step = _power_of_two(24 - exponent_bias - mantissa)
    as_small = (size + smallest_step).view(torch.int32).long() & 0xFF
    bytes_ = torch.where(size >= _power_of_two(1 - exponent_bias), as_normal, as_small)
    return (bytes_ | sign.long() << 7).to(torch.uint8)


def decoded(codes: Tensor, ebits: int, exponent_bias: int) -> Tensor:
    """Read eight-bit floats, in plain torch.

    Args:
        codes: uint8, any shape.
        ebits: bits of the exponent, 1 to 7.
        exponent_bias: what is taken off the exponent.

    Returns:
        float32 of the same shape.
    """
    wide = codes.to(torch.int32)
    size = ((wide & 0x7F) << (16 + ebits)).view(torch.float32) * _power_of_two(127 - exponent_bias)
    return torch.where(wide > 127, -size, size)


def _check(op: str, tensor: Tensor, dtype: torch.dtype, ebits: int, bias: int) -> None:
    """The same sentences as native/quantize_float8.cpp."""
    if tensor.dtype != dtype:
        convert = "; convert it." if dtype == torch.float32 else "."
        raise RuntimeError(f"{op}: input has dtype {tensor.dtype}, expected {dtype}{convert}")
    if not (1 <= ebits <= 7 and 0 <= bias <= 127):
        raise RuntimeError(f"{op}: ebits is {ebits} and exponent_bias {bias}, expected 1 to 7 and 0 to 127.")


def _encode_fake(values: Tensor, ebits: int, bias: int, max_pos: float) -> Tensor:
    _check("FloatToHFP8Quantized", values, torch.float32, ebits, bias)
    return values.new_empty(values.shape, dtype=torch.uint8)


def _encode(values: Tensor, ebits: int, bias: int, max_pos: float) -> Tensor:
    _check("FloatToHFP8Quantized", values, torch.float32, ebits, bias)
    return encoded(values.contiguous(), ebits, bias, max_pos)


def _decode_fake(codes: Tensor, ebits: int, bias: int) -> Tensor:
    _check("HFP8QuantizedToFloat", codes, torch.uint8, ebits, bias)
    return codes.new_empty(codes.shape, dtype=torch.float32)


def _decode(codes: Tensor, ebits: int, bias: int) -> Tensor:
    _check("HFP8QuantizedToFloat", codes, torch.uint8, ebits, bias)
    return decoded(codes.contiguous(), ebits, bias)


register_op(
    "FloatToHFP8Quantized(Tensor input, int ebits, int exponent_bias, float max_pos) -> Tensor",
    library=LIBRARY,
    fake=_encode_fake,
    python=_encode,
)
register_op(
    "HFP8QuantizedToFloat(Tensor input, int ebits, int exponent_bias) -> Tensor",
    library=LIBRARY,
    fake=_decode_fake,
    python=_decode,
)

FORWARD, BACKWARD = (4, 15, 0.9375), (5, 31, 0.875)
"""Exponent bits, exponent bias and largest number of scaled rows."""


def _check_scaled(op: str, values: Tensor, block: int | None) -> None:
    if values.dim() < 2:
        raise RuntimeError(f"{op}: t has shape {tuple(values.shape)}, expected (rows, columns).")
    if values.dtype not in EITHER:
        raise RuntimeError(f"{op}: t has dtype {values.dtype}, expected float32, float16 or bfloat16; convert it.")
    if block is not None:
        _check_block(op, block)


def _check_block(op: str, block: int) -> None:
    if block <= 0 or block % 4:
        raise RuntimeError(f"{op}: row_dim is {block}, expected a positive multiple of 4.")


def _check_blocks(op: str, rows: Tensor, block: int | None) -> None:
    if rows.dim() < 2:
        raise RuntimeError(f"{op}: input has shape {tuple(rows.shape)}, expected (rows, columns).")
    step = rows.shape[-1] if block is None else block + 8
    if rows.dtype != torch.uint8 or rows.shape[-1] < 8 or rows.shape[-1] % step:
        raise RuntimeError(
            f"{op}: input has shape {tuple(rows.shape)} and dtype {rows.dtype}, expected rows of uint8 in blocks of "
            "columns + 8."
        )


def _encode_scaled(op: str, values: Tensor, forward: bool, block: int | None) -> Tensor:
    _check_scaled(op, values, block)
    ebits, bias, largest = FORWARD if forward else BACKWARD
    parts = list(values.float().split(block or max(values.shape[-1], 1), -1)) or [values.float()]
    rows = []
    for part in parts:
        width = block or -(-part.shape[-1] // 4) * 4
        low, high = row_range(part)
        most = torch.maximum(-low, high).clamp(min=0) if part.shape[-1] else low * 0
        scale = torch.full_like(most, largest) / (1e-20 + most)  # a number by a tensor would be two roundings
        codes = torch.nn.functional.pad(
            encoded((part * scale).contiguous(), ebits, bias, largest), (0, width - part.shape[-1])
        )
        padding = torch.full_like(scale, width - part.shape[-1], dtype=torch.int32)
        rows += [codes, as_bytes(scale), as_bytes(padding)]
    return torch.cat(rows, -1)


def _encode_scaled_fake(op: str, values: Tensor, block: int | None) -> Tensor:
    _check_scaled(op, values, block)
    width = values.shape[-1]
    size = (width + 3) // 4 * 4 + 8 if block is None else (width + block - 1) // block * (block + 8)
    return values.new_empty((*values.shape[:-1], size), dtype=torch.uint8)


def _decode_scaled(op: str, rows: Tensor, forward: bool, block: int | None, last: int, dtype: int) -> Tensor:
    if block is not None:
        _check_block(op, block)
    _check_blocks(op, rows, block)
    chosen = output_dtype(op, dtype)
    ebits, bias, _ = FORWARD if forward else BACKWARD
    step = rows.shape[-1] - 8 if block is None else block
    blocks = rows.reshape(*rows.shape[:-1], rows.shape[-1] // (step + 8), step + 8)
    codes, parameters = blocks.split([step, 8], -1)
    scale = as_numbers(parameters[..., :4], torch.float32)
    numbers = (decoded(codes, ebits, bias) / scale).flatten(-2)
    columns = numbers.shape[-1]
    if block is not None and last >= 0:
        columns = last
    elif block is not None and numbers.numel():
        columns -= int(as_numbers(parameters[..., -1, 4:].reshape(-1, 4)[:1], torch.int32))
    if not 0 <= columns <= numbers.shape[-1]:
        raise RuntimeError(
            f"{op}: output_last_dim is {columns}, expected 0 to the {numbers.shape[-1]} columns of input."
        )
    return given_as(numbers[..., :columns], chosen)


def _decode_scaled_fake(op: str, rows: Tensor, block: int | None, last: int, dtype: int) -> Tensor:
    _check_blocks(op, rows, block)
    step = rows.shape[-1] - 8 if block is None else block
    columns: int | torch.SymInt = rows.shape[-1] // (step + 8) * step
    if block is not None:
        columns = last if last >= 0 else torch.library.get_ctx().new_dynamic_size()
    return rows.new_empty((*rows.shape[:-1], columns), dtype=output_dtype(op, dtype))


_ROWS, _BLOCKS = "FloatToFP8RowwiseQuantized", "FloatToPaddedFP8RowwiseQuantized"
_FROM_ROWS, _FROM_BLOCKS = "FP8RowwiseQuantizedToFloat", "PaddedFP8RowwiseQuantizedToFloat"
register_op(
    f"{_ROWS}(Tensor t, bool forward) -> Tensor",
    library=LIBRARY,
    fake=lambda values, forward: _encode_scaled_fake(_ROWS, values, None),
    python=lambda values, forward: _encode_scaled(_ROWS, values, forward, None),
)
register_op(
    f"{_FROM_ROWS}(Tensor input, bool forward, int output_dtype=0) -> Tensor",
    library=LIBRARY,
    fake=lambda rows, forward, dtype=0: _decode_scaled_fake(_FROM_ROWS, rows, None, -1, dtype),
    python=lambda rows, forward, dtype=0: _decode_scaled(_FROM_ROWS, rows, forward, None, -1, dtype),
)
register_op(
    f"{_BLOCKS}(Tensor t, bool forward, int row_dim) -> Tensor",
    library=LIBRARY,
    fake=lambda values, forward, block: _encode_scaled_fake(_BLOCKS, values, block),
    python=lambda values, forward, block: _encode_scaled(_BLOCKS, values, forward, block),
)
register_op(
    f"{_FROM_BLOCKS}(Tensor input, bool forward, int row_dim, int output_last_dim=-1, int output_dtype=0) -> Tensor",
    library=LIBRARY,
    fake=lambda rows, forward, block, last=-1, dtype=0: _decode_scaled_fake(_FROM_BLOCKS, rows, block, last, dtype),
    python=lambda rows, forward, block, last=-1, dtype=0: _decode_scaled(
        _FROM_BLOCKS, rows, forward, block, last, dtype
    ),
)


def _check_shared(op: str, ebits: int, mbits: int) -> None:
    if ebits < 1 or mbits < 0 or ebits + mbits > 7:
        raise RuntimeError(f"{op}: ebits is {ebits} and mbits {mbits}, expected at least 1 and 0, together at most 7.")


def _encode_shared(
    values: Tensor, box: int, ebits: int, mbits: int, bias: int, min_pos: float, max_pos: float
) -> Tensor:
    """Numbers of a box are rounded in steps of its largest one's last bit, then stored as floats of a few bits each."""
    op = "FloatToMSFPQuantized"
    _check_shared_input(op, values, box, ebits, mbits)
    filled = torch.nn.functional.pad(values, (0, -values.shape[-1] % box))
    boxes = filled.reshape(*values.shape[:-1], filled.shape[-1] // box, box)
    if not boxes.numel():
        return values.new_empty(values.shape, dtype=torch.uint8)
    size = boxes.abs().nan_to_num(max_pos, max_pos).clamp(max=max_pos).double()
    shared = torch.frexp(size.amax(-1, keepdim=True)).exponent - 1
    step = torch.exp2((shared - mbits).double())
    rounded = ((size / step).round() * step).clamp(max=max_pos)
    rounded = torch.where(rounded < min_pos, torch.zeros_like(rounded), rounded)
    smallest = 1 - bias
    own = torch.where(rounded > 0, torch.frexp(rounded).exponent - 1, smallest).clamp(min=smallest)
    whole, unit = (rounded * torch.exp2((mbits - own).double())).round().long(), 1 << mbits
    codes = torch.where(whole < unit, whole, whole + (own - smallest) * unit).clamp(max=(1 << (ebits + mbits)) - 1)
    codes = codes | torch.signbit(boxes).long() << 7
    return codes.to(torch.uint8).flatten(-2)[..., : values.shape[-1]].contiguous()


def _check_shared_input(op: str, values: Tensor, box: int, ebits: int, mbits: int) -> None:
    if values.dim() < 1 or values.dtype != torch.float32:
        raise RuntimeError(
            f"{op}: input has shape {tuple(values.shape)} and dtype {values.dtype}, expected (..., columns) of float32."
        )
    if box < 1:
        raise RuntimeError(f"{op}: bounding_box_size is {box}, expected at least 1.")
    _check_shared(op, ebits, mbits)


def _encode_shared_fake(
    values: Tensor, box: int, ebits: int, mbits: int, bias: int, min_pos: float, max_pos: float
) -> Tensor:
    _check_shared_input("FloatToMSFPQuantized", values, box, ebits, mbits)
    return values.new_empty(values.shape, dtype=torch.uint8)


def _decode_shared(codes: Tensor, ebits: int, mbits: int, bias: int) -> Tensor:
    _check_shared("MSFPQuantizedToFloat", ebits, mbits)
    wide = codes.int()
    exponent, rest = (wide & 0x7F) >> mbits, wide & ((1 << mbits) - 1)
    size = torch.where(exponent > 0, rest + (1 << mbits), rest).double()
    numbers = size * torch.exp2((exponent.clamp(min=1) - bias - mbits).double())
    return torch.where(wide > 127, -numbers, numbers).float()


register_op(
    "FloatToMSFPQuantized(Tensor input, int bounding_box_size, int ebits, int mbits, int bias, float min_pos, "
    "float max_pos) -> Tensor",
    library=LIBRARY,
    fake=_encode_shared_fake,
    python=_encode_shared,
)
register_op(
    "MSFPQuantizedToFloat(Tensor input, int ebits, int mbits, int bias) -> Tensor",
    library=LIBRARY,
    fake=lambda codes, ebits, mbits, bias: codes.new_empty(codes.shape, dtype=torch.float32),
    python=_decode_shared,
)

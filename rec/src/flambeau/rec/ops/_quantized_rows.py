"""What quantizers of rows share: checks in the words of the native kernels, and arithmetic on bits in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

OUTPUT_DTYPES = {0: torch.float32, 1: torch.float16, 5: torch.bfloat16}
"""What operators call dtypes of their results."""

EITHER = (torch.float32, torch.float16, torch.bfloat16)


def check_rows(op: str, tensor: Tensor) -> None:
    """Refuse what has no rows.

    Raises:
        RuntimeError: fewer than two dimensions.
    """
    if tensor.dim() < 2:
        raise RuntimeError(f"{op}: input has shape {tuple(tensor.shape)}, expected (rows, columns).")


def check_floats(op: str, tensor: Tensor, dtypes: Sequence[torch.dtype]) -> None:
    """Refuse numbers of another dtype.

    Raises:
        RuntimeError: another dtype, or no rows.
    """
    check_rows(op, tensor)
    if tensor.dtype not in dtypes:
        expected = str(dtypes[0]) if len(dtypes) == 1 else "float32, float16 or bfloat16"
        raise RuntimeError(f"{op}: input has dtype {tensor.dtype}, expected {expected}; convert it.")


def check_bytes(op: str, tensor: Tensor, extra: int, columns: str = "columns") -> None:
    """Refuse what is no row of bytes with parameters.

    Raises:
        RuntimeError: another dtype, no rows, or too short ones.
    """
    check_rows(op, tensor)
    if tensor.dtype != torch.uint8 or tensor.shape[-1] < extra:
        raise RuntimeError(
            f"{op}: input has shape {tuple(tensor.shape)} and dtype {tensor.dtype}, "
            f"expected (rows, {columns} + {extra}) "
            "of uint8."
        )


def output_dtype(op: str, number: int) -> torch.dtype:
    """The dtype of a number.

    Raises:
        RuntimeError: none has it.
    """
    if number not in OUTPUT_DTYPES:
        raise RuntimeError(f"{op}: output_dtype is {number}, expected 0 (float32), 1 (float16) or 5 (bfloat16).")
    return OUTPUT_DTYPES[number]


def row_range(values: Tensor) -> tuple[Tensor, Tensor]:
    """(..., 1) each: the smallest and the largest number of each row, float32; what is no number does not count."""
    if values.shape[-1] == 0:
        ends = values.new_full((*values.shape[:-1], 1), torch.finfo(torch.float32).max, dtype=torch.float32)
        return ends, -ends
    wide = values.float()
    strange = wide.isnan()
    largest = torch.finfo(torch.float32).max
    low = wide.masked_fill(strange, largest).clamp(max=largest).amin(-1, keepdim=True)
    high = wide.masked_fill(strange, -largest).clamp(min=-largest).amax(-1, keepdim=True)
    return low, high


def rounded(values: Tensor, most: int) -> Tensor:
    """uint8: the nearest whole numbers from 0 to `most`, ties to even; what is no number is 0."""
    return values.nan_to_num(0.0, float(most), 0.0).clamp(0, most).round().to(torch.uint8)


def as_bytes(values: Tensor) -> Tensor:
    """The bytes of (..., n) numbers, side by side."""
    return values.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def as_numbers(values: Tensor, dtype: torch.dtype) -> Tensor:
    """(..., n) numbers in bytes that lie anywhere."""
    return values.clone(memory_format=torch.contiguous_format).view(dtype)


def scaled(codes: Tensor, scale: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """`codes * scale + bias` with one rounding, as fused multiply-adds have."""
    return given_as((codes.double() * scale.double() + bias.double()).float(), dtype)


def given_as(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 numbers in the format of the output. Upstream: to bfloat16, ties go away from zero."""
    if dtype != torch.bfloat16:
        return values.to(dtype)
    raw = values.contiguous().view(torch.int32)
    finite = (raw & 0x7F800000) != 0x7F800000
    shortened = ((raw + 0x8000) & ~0xFFFF).view(torch.float32)
    return torch.where(finite, shortened, values).to(torch.bfloat16)

"""Where the items of jagged rows lie, in plain torch, and what offsets must be like.

The sentences are those of native/jagged.h.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "FLOATING",
    "NUMBERS",
    "WHOLE",
    "check_floating",
    "check_offsets",
    "check_total",
    "check_whole",
    "locate",
    "widened",
    "within",
]

WHOLE = (torch.int32, torch.int64)
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
NUMBERS = (*FLOATING, *WHOLE)


def check_whole(op: str, what: str, tensor: Tensor) -> None:
    """Refuse anything but a vector of whole numbers."""
    if tensor.dim() != 1 or tensor.dtype not in WHOLE:
        raise RuntimeError(
            f"{op}: {what} has shape {tuple(tensor.shape)} and dtype {tensor.dtype}, expected one dimension of int32 "
            "or int64."
        )


def check_floating(op: str, *operands: Tensor) -> None:
    """Refuse operands of several dtypes, or of one that is not floating."""
    dtypes = {operand.dtype for operand in operands}
    if len(dtypes) > 1 or not dtypes <= {*FLOATING}:
        listed = " and ".join(str(operand.dtype) for operand in operands)
        raise RuntimeError(f"{op}: operands are {listed}, expected one floating dtype; convert them.")


def check_offsets(op: str, what: str, offsets: Tensor, total: int) -> None:
    """Refuse offsets that decrease or go beyond the values; on accelerators that would have to be waited for."""
    if not len(offsets):
        raise RuntimeError(f"{op}: {what} is empty, expected rows + 1 entries.")
    if offsets.device.type != "cpu":
        return
    wide = offsets.long()
    before = torch.cat([wide.new_zeros(1), wide[:-1]])
    wrong = (wide < before) | (wide > total)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise RuntimeError(
            f"{op}: {what} has {int(wide[at])} at {at}, expected {int(before[at])} to {total}: offsets do not "
            "decrease, and end within the values."
        )


def check_total(op: str, values: Tensor, lengths: Tensor) -> None:
    """Refuse lengths that are negative or add up to more than there are items; accelerators are not waited for."""
    if lengths.device.type == "cpu" and (bool((lengths < 0).any()) or int(lengths.sum()) > values.shape[0]):
        raise RuntimeError(
            f"{op}: lengths add up to {int(lengths.sum())} of {values.shape[0]} items; expected lengths of 0 or more "
            "within the values."
        )


def widened(tensor: Tensor) -> Tensor:
    """What is computed with: half precision in float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def locate(offsets: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """Row and place within it of each of `total` items, int64; items in no row are in row -1 or in one too many."""
    items = torch.arange(total, device=offsets.device, dtype=offsets.dtype)
    row = torch.searchsorted(offsets.contiguous(), items, right=True) - 1
    return row, items.long() - offsets.long()[row.clamp(min=0)]


def within(row: Tensor, place: Tensor, rows: int, longest: int) -> Tensor:
    """Which items are in a row, and among its first `longest`."""
    return (row >= 0) & (row < rows) & (place < longest)

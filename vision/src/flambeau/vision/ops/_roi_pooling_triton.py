"""What the poolings of regions share on CUDA and XPU. Imported when first needed, because it needs Triton.

One lane makes one number of the result. Lanes walk through the result as it lies in memory, in either layout, so that
neighbours read neighbours.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

import warnings
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.vision.ops import _roi_pooling

BLOCK = 256


def on(device: torch.device) -> Any:
    """Triton launches on the current device: make it the tensors' own."""
    return torch.get_device_module(device).device(device)


def refuse_if_deterministic(op: str) -> None:
    """Sums by atomic additions differ in their last bits from call to call: say so where that was forbidden."""
    if not torch.are_deterministic_algorithms_enabled():
        return
    message = (
        f"{op} adds atomically on accelerators, and torch.use_deterministic_algorithms(True) is set. Compute it on the "
        "CPU, or set warn_only=True."
    )
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(message)
    warnings.warn(message, stacklevel=3)


def compute_type(dtype: torch.dtype) -> tuple[torch.dtype, Any]:
    """Both libraries' dtype to compute in: torch's, Triton's."""
    wide = _roi_pooling.COMPUTE_DTYPE[dtype]
    return wide, tl.float64 if wide == torch.float64 else tl.float32


def images_of(rois: Tensor, images: int) -> Tensor:
    """The image of each region; -1 where it is not there. Such regions give 0: an error would have to be waited for."""
    there = (rois[:, 0] > -1) & (rois[:, 0] < images)
    return torch.where(there, rois[:, 0], -1).to(torch.int32)


def launch(kernel: Any, total: int, device: torch.device, *arguments: Any, **constants: Any) -> None:
    """Run a kernel with one lane for each of `total` numbers."""
    if total:
        with on(device):
            kernel[(triton.cdiv(total, BLOCK),)](*arguments, total, BLOCK=BLOCK, **constants)


@triton.jit
def place(total, channels, HIGH: tl.constexpr, WIDE: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """The lanes' numbers, which of them exist, and their region, channel, row and column."""
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = number < total
    if LAST:
        c = number % channels
        j = number // channels % WIDE
        i = number // (channels * WIDE) % HIGH
    else:
        j = number % WIDE
        i = number // WIDE % HIGH
        c = number // (WIDE * HIGH) % channels
    k = number // (channels * HIGH * WIDE)
    return number, there, k, c, i, j

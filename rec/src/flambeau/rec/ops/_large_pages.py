"""Memory of tables on large pages, where the system has some.

Rows are looked up at random: on pages of 4 KiB nearly each look-up also misses what the processor remembers of pages,
which takes as long as the row itself. On Linux's huge pages look-ups in tables of some hundred megabytes were measured
to be up to twice as fast.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

__all__ = ["on_large_pages", "zeros"]

_LEAST = 4 << 20  # bytes: two huge pages
_COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1


@cache
def _advise() -> Callable[..., Any] | None:
    """`madvise`, where there are huge pages to ask for."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = getattr(ctypes.CDLL(None), "madvise", None)
    if function is not None:
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return function


def on_large_pages(tensor: Tensor, *, filled: bool) -> Tensor:
    """Ask the system to keep a tensor's memory on large pages, which it may leave undone.

    Args:
        tensor: of the CPU; others, and small ones, are left alone.
        filled: whether memory was written to already, so that pages have to be joined.

    Returns:
        The tensor.
    """
    size = tensor.numel() * tensor.element_size()
    if size < _LEAST or tensor.device.type != "cpu" or type(tensor) not in (Tensor, torch.nn.Parameter):
        return tensor
    if (advise := _advise()) is not None and tensor.is_contiguous():
        page = mmap.PAGESIZE
        begin, end = -(-tensor.data_ptr() // page) * page, (tensor.data_ptr() + size) // page * page
        if advise(begin, end - begin, mmap.MADV_HUGEPAGE) == 0 and filled:
            advise(begin, end - begin, _COLLAPSE)
    return tensor


def zeros(size: int, *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(size,) zeros, on large pages where that helps."""
    return on_large_pages(torch.zeros(size, dtype=dtype, device=device), filled=False)

"""Running sums of lengths: where each bag of a jagged batch begins, and where the last ends.

The native kernel is `native/cumsum.cpp`. Whole numbers keep their dtype, where `torch.cumsum` would widen int32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "asynchronous_batched_complete_cumsum",
    "asynchronous_complete_cumsum",
    "asynchronous_exclusive_cumsum",
    "asynchronous_inclusive_cumsum",
]


def asynchronous_complete_cumsum(t_in: Tensor) -> Tensor:
    """Sums of all that stands before each entry, and of everything at the end.

    Args:
        t_in: (n,), or (rows, n) of which each row is summed by itself; int32, int64, float32 or float64.

    Returns:
        (n + 1,) or (rows, n + 1) of the same dtype, beginning with 0: offsets, where the input is lengths.

    Raises:
        RuntimeError: another shape or dtype.

    Example:
        >>> asynchronous_complete_cumsum(torch.tensor([2, 0, 3]))
        tensor([0, 2, 2, 5])
    """
    return OPS.asynchronous_complete_cumsum(t_in)  # type: ignore[no-any-return]


def asynchronous_exclusive_cumsum(t_in: Tensor) -> Tensor:
    """Sums of all that stands before each entry, row after row.

    Args:
        t_in: any shape; int32, int64, float32 or float64.

    Returns:
        The same shape and dtype.

    Raises:
        RuntimeError: another dtype.
    """
    return OPS.asynchronous_exclusive_cumsum(t_in)  # type: ignore[no-any-return]


def asynchronous_inclusive_cumsum(t_in: Tensor) -> Tensor:
    """Sums of all up to each entry, and with it, row after row.

    Args:
        t_in: any shape; int32, int64, float32 or float64.

    Returns:
        The same shape and dtype.

    Raises:
        RuntimeError: another dtype.
    """
    return OPS.asynchronous_inclusive_cumsum(t_in)  # type: ignore[no-any-return]


def asynchronous_batched_complete_cumsum(values: Tensor) -> Tensor:
    """`asynchronous_complete_cumsum` of each row of a matrix.

    Args:
        values: (rows, n); int32, int64, float32 or float64.

    Returns:
        (rows, n + 1) of the same dtype.

    Raises:
        RuntimeError: another shape or dtype.
    """
    return OPS.asynchronous_batched_complete_cumsum(values)  # type: ignore[no-any-return]


DTYPES = (torch.int32, torch.int64, torch.float32, torch.float64)


def _check(op: str, values: Tensor) -> None:
    """The same sentences as native/cumsum.cpp."""
    batched, complete = "batched" in op, "complete" in op
    if complete and values.dim() != 2 and (batched or values.dim() != 1):
        expected = "(rows, n)" if batched else "(n,) or (rows, n)"
        raise RuntimeError(f"{op}: input has shape {tuple(values.shape)}, expected {expected}.")
    if values.dtype not in DTYPES:
        raise RuntimeError(
            f"{op}: input has dtype {values.dtype}, expected int32, int64, float32 or float64; convert it."
        )


def _complete(op: str) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    def fake(values: Tensor) -> Tensor:
        _check(op, values)
        return values.new_empty((*values.shape[:-1], values.shape[-1] + 1))

    def reference(values: Tensor) -> Tensor:
        _check(op, values)
        sums = values.cumsum(-1, dtype=values.dtype)
        return torch.cat([values.new_zeros((*values.shape[:-1], 1)), sums], -1)

    return fake, reference


def _same_size(op: str, *, inclusive: bool) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    def fake(values: Tensor) -> Tensor:
        _check(op, values)
        return values.new_empty(values.shape)

    def reference(values: Tensor) -> Tensor:
        _check(op, values)
        flat = values.reshape(-1)
        sums = flat.cumsum(0, dtype=flat.dtype)
        return (sums if inclusive else sums - flat).reshape(values.shape)

    return fake, reference


for _name, (_fake, _reference) in {
    "asynchronous_complete_cumsum(Tensor t_in)": _complete("asynchronous_complete_cumsum"),
    "asynchronous_batched_complete_cumsum(Tensor values)": _complete("asynchronous_batched_complete_cumsum"),
    "asynchronous_exclusive_cumsum(Tensor t_in)": _same_size("asynchronous_exclusive_cumsum", inclusive=False),
    "asynchronous_inclusive_cumsum(Tensor t_in)": _same_size("asynchronous_inclusive_cumsum", inclusive=True),
}.items():
    register_op(f"{_name} -> Tensor", library=LIBRARY, fake=_fake, python=_reference)

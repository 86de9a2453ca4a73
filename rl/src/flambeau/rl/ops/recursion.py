"""Recursions from the last time step to the first, of which returns and advantages are made.

The native kernel is `native/recursion.cpp`: one pass over memory, linear in time, for any discounts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rl.ops._library import LIBRARY

__all__ = ["backward_recursion"]


def backward_recursion(values: Tensor, discounts: Tensor) -> Tensor:
    """What each step is worth with all that follow: `result[t] = values[t] + discounts[t] * result[t + 1]`.

    Args:
        values: (rows, time, features), float32 or float64: what each step adds.
        discounts: the same shape and dtype: how much of what follows counts; that of the last step is not read.

    Returns:
        The same shape and dtype.

    Raises:
        RuntimeError: another shape or dtype.

    Example:
        >>> backward_recursion(torch.ones(1, 3, 1), torch.full((1, 3, 1), 0.5)).flatten()
        tensor([1.7500, 1.5000, 1.0000])
    """
    return torch.ops.flambeau_rl.backward_recursion(values, discounts)  # type: ignore[no-any-return]


def _check(values: Tensor, discounts: Tensor) -> None:
    """The same sentences as native/recursion.cpp."""
    op = "backward_recursion"
    if values.dim() != 3:
        raise RuntimeError(f"{op}: values have shape {tuple(values.shape)}, expected (rows, time, features).")
    if discounts.shape != values.shape:
        shape = tuple(values.shape)
        raise RuntimeError(f"{op}: discounts have shape {tuple(discounts.shape)}, expected {shape} as the values.")
    if discounts.dtype != values.dtype:
        raise RuntimeError(f"{op}: discounts have dtype {discounts.dtype}, expected {values.dtype} as the values.")
    if values.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"{op}: values have dtype {values.dtype}, expected float32 or float64; convert them.")


def _fake(values: Tensor, discounts: Tensor) -> Tensor:
    _check(values, discounts)
    return torch.empty_like(values, memory_format=torch.contiguous_format)


def _reference(values: Tensor, discounts: Tensor) -> Tensor:
    _check(values, discounts)
    results = values.clone(memory_format=torch.contiguous_format)
    for step in reversed(range(values.shape[1] - 1)):
        results[:, step] += discounts[:, step] * results[:, step + 1]
    return results


register_op(
    "backward_recursion(Tensor values, Tensor discounts) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_reference,
)

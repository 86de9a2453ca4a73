"""Recursions over time, of which returns and advantages are made.

The native kernels are `native/recursion.cpp`: one pass over memory, linear in time, for any discounts; those for CUDA
and XPU are scans, `_recursion_triton.py`. Each of the two operators is the other's adjoint, so gradients of any order
are made of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rl.ops._layout import batched, computed, function_of, three_dimensional, transformed
from flambeau.rl.ops._library import LIBRARY

__all__ = ["backward_recursion", "discounted_sum", "forward_recursion"]


def backward_recursion(values: Tensor, discounts: Tensor) -> Tensor:
    """What each step is worth with all that follow: `result[t] = values[t] + discounts[t] * result[t + 1]`.

    Args:
        values: (rows, time, features), float32 or float64: what each step adds.
        discounts: the same shape and dtype: how much of what follows counts; that of the last step is not read.

    Returns:
        The same shape and dtype. It has derivatives of any order.

    Raises:
        RuntimeError: another shape or dtype.

    Example:
        >>> backward_recursion(torch.ones(1, 3, 1), torch.full((1, 3, 1), 0.5)).flatten()
        tensor([1.7500, 1.5000, 1.0000])
    """
    if transformed():
        return _FUNCTIONS["backward_recursion"].apply(values, discounts)  # type: ignore[no-any-return]
    return torch.ops.flambeau_rl.backward_recursion(values, discounts)  # type: ignore[no-any-return]


def forward_recursion(values: Tensor, discounts: Tensor) -> Tensor:
    """What each step has gathered so far: `result[t] = values[t] + discounts[t - 1] * result[t - 1]`.

    It is the adjoint of `backward_recursion`: with these values as the gradient of that function's result, this is the
    gradient of its values.

    Args:
        values: (rows, time, features), float32 or float64: what each step adds.
        discounts: the same shape and dtype: how much goes on to the next step; that of the last step is not read.

    Returns:
        The same shape and dtype. It has derivatives of any order.

    Raises:
        RuntimeError: another shape or dtype.

    Example:
        >>> forward_recursion(torch.ones(1, 3, 1), torch.full((1, 3, 1), 0.5)).flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    if transformed():
        return _FUNCTIONS["forward_recursion"].apply(values, discounts)  # type: ignore[no-any-return]
    return torch.ops.flambeau_rl.forward_recursion(values, discounts)  # type: ignore[no-any-return]


def discounted_sum(values: Tensor, discounts: Tensor, time_dim: int) -> Tensor:
    """`backward_recursion` of any shape and floating dtype, with time at any dimension.

    Args:
        values: any shape of at least one dimension; half precision is computed in float32.
        discounts: a shape that broadcasts to that of the values.
        time_dim: which dimension is time.

    Returns:
        The shape and dtype of `values`.

    Raises:
        IndexError: `time_dim` is no dimension.
    """
    time = range(values.dim())[time_dim]
    dtype = computed(values.dtype)
    discounts = discounts.to(dtype)
    if discounts.shape != values.shape:
        discounts = discounts.expand(values.shape)
    result = backward_recursion(three_dimensional(values.to(dtype), time), three_dimensional(discounts, time))
    return result.view(values.shape).to(values.dtype)


def _check(op: str, values: Tensor, discounts: Tensor) -> None:
    """The same sentences as native/recursion.cpp."""
    if values.dim() != 3:
        raise RuntimeError(f"{op}: values have shape {tuple(values.shape)}, expected (rows, time, features).")
    if discounts.shape != values.shape:
        shape = tuple(values.shape)
        raise RuntimeError(f"{op}: discounts have shape {tuple(discounts.shape)}, expected {shape} as the values.")
    if discounts.dtype != values.dtype:
        raise RuntimeError(f"{op}: discounts have dtype {discounts.dtype}, expected {values.dtype} as the values.")
    if values.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"{op}: values have dtype {values.dtype}, expected float32 or float64; convert them.")


def _fake_backward(values: Tensor, discounts: Tensor) -> Tensor:
    _check("backward_recursion", values, discounts)
    return torch.empty_like(values, memory_format=torch.contiguous_format)


def _fake_forward(values: Tensor, discounts: Tensor) -> Tensor:
    _check("forward_recursion", values, discounts)
    return torch.empty_like(values, memory_format=torch.contiguous_format)


def _reference_backward(values: Tensor, discounts: Tensor) -> Tensor:
    _check("backward_recursion", values, discounts)
    results = values.clone(memory_format=torch.contiguous_format)
    for step in reversed(range(values.shape[1] - 1)):
        results[:, step] += discounts[:, step] * results[:, step + 1]
    return results


def _reference_forward(values: Tensor, discounts: Tensor) -> Tensor:
    _check("forward_recursion", values, discounts)
    results = values.clone(memory_format=torch.contiguous_format)
    for step in range(1, values.shape[1]):
        results[:, step] += discounts[:, step - 1] * results[:, step - 1]
    return results


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], output)


def _beyond(tensor: Tensor) -> Tensor:
    """The step after each one; zeros after the last."""
    return torch.nn.functional.pad(tensor[:, 1:], (0, 0, 0, min(1, tensor.shape[1])))


def _gradient_of_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    discounts, output = ctx.saved_tensors
    to_values = forward_recursion(grad, discounts)
    return to_values, to_values * _beyond(output) if ctx.needs_input_grad[1] else None


def _gradient_of_forward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    discounts, output = ctx.saved_tensors
    to_values = backward_recursion(grad, discounts)
    return to_values, _beyond(to_values) * output if ctx.needs_input_grad[1] else None


_FUNCTIONS: dict[str, type[torch.autograd.Function]] = {}
for _public, _twin, _python, _backward in (
    (backward_recursion, _fake_backward, _reference_backward, _gradient_of_backward),
    (forward_recursion, _fake_forward, _reference_forward, _gradient_of_forward),
):
    _name, _rule = _public.__name__, batched(_public, 2)
    _operator = register_op(
        f"{_name}(Tensor values, Tensor discounts) -> Tensor",
        library=LIBRARY,
        fake=_twin,
        python=_python,
        triton=f"flambeau.rl.ops._recursion_triton:{_name}",
        setup_context=_keep,
        backward=_backward,
    )
    torch.library.register_vmap(f"flambeau_rl::{_name}", _rule, lib=LIBRARY.fragment())
    _FUNCTIONS[_name] = function_of(_operator, _keep, _backward, _rule)

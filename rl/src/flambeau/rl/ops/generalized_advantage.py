"""Generalized advantage estimates (Schulman et al., 2016, arXiv:1506.02438) in one pass over memory.

The native kernel is `native/generalized_advantage.cpp`, that for CUDA and XPU is in `_recursion_triton.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rl.ops._layout import batched, function_of, transformed
from flambeau.rl.ops._library import LIBRARY
from flambeau.rl.ops.recursion import backward_recursion, forward_recursion

__all__ = ["generalized_advantage"]


def generalized_advantage(
    reward: Tensor, value: Tensor, next_value: Tensor, done: Tensor, terminated: Tensor, gamma: float, lmbda: float
) -> tuple[Tensor, Tensor]:
    """How much better each step went than its value said, and the returns that values should have said.

    With `delta[t] = reward[t] + gamma * next_value[t] * (1 - terminated[t]) - value[t]`, advantages are
    `delta[t] + gamma * lmbda * (1 - done[t]) * advantage[t + 1]`, and returns are advantages plus values.

    Args:
        reward: (rows, time, features), float32 or float64.
        value: the same: what is expected from the state before each step.
        next_value: the same: what is expected from the state after it.
        done: the same shape, bool: the step is its trajectory's last one.
        terminated: the same: nothing is to be expected after the step.
        gamma: discount.
        lmbda: how much of later steps counts.

    Returns:
        Advantages and returns, both of the shape and dtype of `reward`. They have derivatives of any order.

    Raises:
        RuntimeError: another shape or dtype.

    Example:
        >>> one, no = torch.ones(1, 2, 1), torch.zeros(1, 2, 1, dtype=torch.bool)
        >>> generalized_advantage(one, one, one, no, no, 0.5, 1.0)[0].flatten()
        tensor([0.7500, 0.5000])
    """
    operator: Callable[..., tuple[Tensor, Tensor]] = torch.ops.flambeau_rl.generalized_advantage
    if transformed():
        operator = _FUNCTION.apply
    return operator(reward, value, next_value, done, terminated, gamma, lmbda)


def _check(reward: Tensor, **others: Tensor) -> None:
    """The same sentences as native/generalized_advantage.cpp."""
    op = "generalized_advantage"
    if reward.dim() != 3:
        raise RuntimeError(f"{op}: reward has shape {tuple(reward.shape)}, expected (rows, time, features).")
    if reward.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"{op}: reward has dtype {reward.dtype}, expected float32 or float64; convert it.")
    for name, tensor in others.items():
        if tensor.shape != reward.shape:
            shape = tuple(reward.shape)
            raise RuntimeError(f"{op}: {name} has shape {tuple(tensor.shape)}, expected {shape} as the reward.")
        expected = torch.bool if name in ("done", "terminated") else reward.dtype
        if tensor.dtype != expected:
            raise RuntimeError(f"{op}: {name} has dtype {tensor.dtype}, expected {expected}.")


def _fake(
    reward: Tensor, value: Tensor, next_value: Tensor, done: Tensor, terminated: Tensor, gamma: float, lmbda: float
) -> tuple[Tensor, Tensor]:
    _check(reward, value=value, next_value=next_value, done=done, terminated=terminated)
    empty = torch.empty_like(reward, memory_format=torch.contiguous_format)
    return empty, torch.empty_like(empty)


def _reference(
    reward: Tensor, value: Tensor, next_value: Tensor, done: Tensor, terminated: Tensor, gamma: float, lmbda: float
) -> tuple[Tensor, Tensor]:
    _check(reward, value=value, next_value=next_value, done=done, terminated=terminated)
    delta = reward + torch.where(terminated, 0, gamma * next_value) - value
    advantage = backward_recursion(delta, (gamma * lmbda) * (~done).to(delta.dtype))
    return advantage, advantage + value


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[3:5])
    ctx.gamma, ctx.lmbda = inputs[5:]


def _gradient(ctx: Any, to_advantage: Tensor, to_target: Tensor) -> tuple[Tensor | None, ...]:
    done, terminated = ctx.saved_tensors
    both = to_advantage + to_target
    to_delta = forward_recursion(both, (ctx.gamma * ctx.lmbda) * (~done).to(both.dtype))
    to_next = torch.where(terminated, 0, ctx.gamma * to_delta) if ctx.needs_input_grad[2] else None
    return to_delta, to_target - to_delta, to_next, None, None, None, None


_operator = register_op(
    "generalized_advantage(Tensor reward, Tensor value, Tensor next_value, Tensor done, Tensor terminated, "
    "float gamma, float lmbda) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake,
    python=_reference,
    triton="flambeau.rl.ops._recursion_triton:generalized_advantage",
    setup_context=_keep,
    backward=_gradient,
)
_rule = batched(generalized_advantage, 5)
torch.library.register_vmap("flambeau_rl::generalized_advantage", _rule, lib=LIBRARY.fragment())
_FUNCTION = function_of(_operator, _keep, _gradient, _rule)

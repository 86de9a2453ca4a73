"""Recursions over time for CUDA and XPU, in Triton. Imported when it is first needed, because it needs Triton.

A linear recurrence `y[i] = v[i] + d[i] * y[i - 1]` is a scan of pairs (d, v). A program walks through one row and a
block of its features, a block of time after the other, scans each block and adds what the one before left. Time is
counted from the end where the recursion goes backward.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.rl.ops.generalized_advantage import _check as check_advantage
from flambeau.rl.ops.recursion import _check as check_recursion

# Numbers that a program works on at once.
_MOST = 1024


@triton.jit
def _join(first_discount, first_value, then_discount, then_value):
    return first_discount * then_discount, then_value + then_discount * first_value


@triton.jit
def _recur(values, discounts, results, steps, features, FORWARD: tl.constexpr, TIME: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    order = tl.arange(0, TIME)
    carry = tl.zeros((WIDTH,), dtype=values.dtype.element_ty)
    for begin in range(0, steps, TIME):
        nth = begin + order
        step = nth if FORWARD else steps - 1 - nth
        there = (nth < steps)[:, None] & (feature < features)[None, :]
        at = (row * steps + step)[:, None] * features + feature[None, :]
        value = tl.load(values + at, mask=there, other=0)
        source = at - features if FORWARD else at
        discount = tl.load(discounts + source, mask=there & (nth > 0)[:, None], other=0)
        passed, scanned = tl.associative_scan((discount, value), 0, _join)
        result = scanned + passed * carry[None, :]
        tl.store(results + at, result, mask=there)
        carry = tl.sum(tl.where((order == TIME - 1)[:, None], result, 0), axis=0)


@triton.jit
def _estimate(
    rewards, values, next_values, dones, terminateds, advantages, targets, gamma, gamma_rest, decay, decay_rest, steps,
    features, TIME: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    order = tl.arange(0, TIME)
    dtype = rewards.dtype.element_ty
    factor = tl.full((1, 1), gamma, dtype) + tl.full((1, 1), gamma_rest, dtype)
    share = tl.full((1, 1), decay, dtype) + tl.full((1, 1), decay_rest, dtype)
    carry = tl.zeros((WIDTH,), dtype=dtype)
    for begin in range(0, steps, TIME):
        nth = begin + order
        there = (nth < steps)[:, None] & (feature < features)[None, :]
        at = (row * steps + (steps - 1 - nth))[:, None] * features + feature[None, :]
        value = tl.load(values + at, mask=there, other=0)
        expected = tl.load(next_values + at, mask=there, other=0)
        ended = tl.load(terminateds + at, mask=there, other=1) != 0
        last = tl.load(dones + at, mask=there, other=1) != 0
        delta = tl.load(rewards + at, mask=there, other=0) + tl.where(ended, 0.0, factor * expected) - value
        discount = tl.where(last, 0.0, share).to(dtype)
        passed, scanned = tl.associative_scan((discount, delta), 0, _join)
        result = scanned + passed * carry[None, :]
        tl.store(advantages + at, result, mask=there)
        tl.store(targets + at, result + value, mask=there)
        carry = tl.sum(tl.where((order == TIME - 1)[:, None], result, 0), axis=0)


def _on(device: torch.device) -> Any:
    """Triton launches on the current device: make it the tensors' own."""
    return torch.get_device_module(device).device(device)


def _blocks(steps: int, features: int) -> dict[str, int]:
    width = min(triton.next_power_of_2(features), 32)
    return {"TIME": max(2, min(triton.next_power_of_2(steps), _MOST // width)), "WIDTH": width}


def _launch(kernel: Any, tensors: tuple[Tensor, ...], shape: torch.Size, *given: Any, **fixed: Any) -> None:
    rows, steps, features = shape
    if not rows * steps * features:
        return
    blocks = _blocks(steps, features)
    with _on(tensors[0].device):
        kernel[(rows, triton.cdiv(features, blocks["WIDTH"]))](*tensors, *given, steps, features, **blocks, **fixed)


def backward_recursion(values: Tensor, discounts: Tensor) -> Tensor:
    """`torch.ops.flambeau_rl.backward_recursion` on tensors of an accelerator."""
    check_recursion("backward_recursion", values, discounts)
    results = torch.empty_like(values, memory_format=torch.contiguous_format)
    _launch(_recur, (values.contiguous(), discounts.contiguous(), results), values.shape, FORWARD=False)
    return results


def forward_recursion(values: Tensor, discounts: Tensor) -> Tensor:
    """`torch.ops.flambeau_rl.forward_recursion` on tensors of an accelerator."""
    check_recursion("forward_recursion", values, discounts)
    results = torch.empty_like(values, memory_format=torch.contiguous_format)
    _launch(_recur, (values.contiguous(), discounts.contiguous(), results), values.shape, FORWARD=True)
    return results


def generalized_advantage(
    reward: Tensor, value: Tensor, next_value: Tensor, done: Tensor, terminated: Tensor, gamma: float, lmbda: float
) -> tuple[Tensor, Tensor]:
    """`torch.ops.flambeau_rl.generalized_advantage` on tensors of an accelerator."""
    check_advantage(reward, value=value, next_value=next_value, done=done, terminated=terminated)
    advantage = torch.empty_like(reward, memory_format=torch.contiguous_format)
    target = torch.empty_like(advantage)
    flags = (flag.contiguous().view(torch.uint8) for flag in (done, terminated))
    given = (reward.contiguous(), value.contiguous(), next_value.contiguous(), *flags, advantage, target)
    _launch(_estimate, given, reward.shape, *_parts(gamma), *_parts(gamma * lmbda))
    return advantage, target


def _parts(number: float) -> tuple[float, float]:
    """A number as the sum of two of float32, as which Triton takes them."""
    large = float(torch.tensor(number, dtype=torch.float32))
    return large, number - large

"""How operators over time see tensors: (rows, time, features), whichever dimension time is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["batched", "computed", "function_of", "three_dimensional", "transformed"]


def three_dimensional(tensor: Tensor, time_dim: int) -> Tensor:
    """The tensor as (rows, time, features), without a copy where its memory allows.

    Args:
        tensor: of one dimension or more.
        time_dim: which is time, not negative.
    """
    if tensor.dim() == 3 and time_dim == 1:
        return tensor
    shape = tensor.shape
    rows = shape[:time_dim].numel()
    return tensor.reshape(rows, shape[time_dim], shape[time_dim + 1 :].numel())


def computed(dtype: torch.dtype) -> torch.dtype:
    """What numbers of a dtype are computed in: half precision, and whole numbers, in float32."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def batched(operator: Callable[..., Any], tensors: int) -> Callable[..., Any]:
    """The rule of an operator for `torch.vmap`: examples become rows.

    Args:
        operator: whose first arguments are tensors of (rows, time, features), and whose results are such.
        tensors: how many.
    """

    def rule(info: Any, in_dims: Sequence[int | None], *given: Any) -> tuple[Any, Any]:
        examples, joined, rows = info.batch_size, [], 0
        for tensor, dim in zip(given[:tensors], in_dims, strict=False):
            stacked = tensor.expand(examples, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            rows = stacked.shape[1]
            joined.append(stacked.flatten(0, 1))
        results = operator(*joined, *given[tensors:])
        if isinstance(results, Tensor):
            return results.unflatten(0, (examples, rows)), 0
        return tuple(one.unflatten(0, (examples, rows)) for one in results), (0,) * len(results)

    return rule


def transformed() -> bool:
    """Whether a transform of `torch.func` is at work, which asks for an autograd function of an operator."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def function_of(
    operator: Callable[..., Any], keep: Callable[..., None], gradient: Callable[..., Any], rule: Callable[..., Any]
) -> type[torch.autograd.Function]:
    """An operator as what `torch.func.grad` and its like can take apart: torch's rule of operators cannot be.

    Args:
        operator: the operator.
        keep: its `setup_context`.
        gradient: its `backward`.
        rule: its rule for `torch.vmap`.
    """
    members = {"forward": operator, "setup_context": keep, "backward": gradient, "vmap": rule}
    return type("Function", (torch.autograd.Function,), {name: staticmethod(one) for name, one in members.items()})

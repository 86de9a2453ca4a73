"""Parameters that are trained as soon as their gradients are there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["apply_optimizer_in_backward"]


def apply_optimizer_in_backward(
    optimizer_class: type[Optimizer],
    params: Iterable[torch.nn.Parameter],
    optimizer_kwargs: dict[str, Any],
) -> None:
    """Have the backward pass train parameters, and free each gradient as soon as it was used.

    Modules that train their tables in their backward pass themselves, such as sharded collections, take the optimizer
    that is noted at the parameters, and its options, instead. Called again, a further optimizer joins.

    Args:
        optimizer_class: of the optimizer; each parameter gets one of its own.
        params: the parameters, which must require gradients.
        optimizer_kwargs: its options.

    Example:
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> apply_optimizer_in_backward(torch.optim.SGD, layer.parameters(), {"lr": 0.5})
        >>> before = layer.weight.detach().clone()
        >>> layer(torch.ones(1, 2)).sum().backward()
        >>> layer.weight.grad is None, torch.equal(layer.weight, before - 0.5)
        (True, True)
    """
    for param in params:
        first = not hasattr(param, "_in_backward_optimizers")
        if first:
            param._in_backward_optimizers = []  # type: ignore[attr-defined]
            param._optimizer_classes = []  # type: ignore[attr-defined]
            param._optimizer_kwargs = []  # type: ignore[attr-defined]
        param._in_backward_optimizers.append(optimizer_class([param], **optimizer_kwargs))  # type: ignore[attr-defined]
        param._optimizer_classes.append(optimizer_class)  # type: ignore[attr-defined]
        param._optimizer_kwargs.append(optimizer_kwargs)  # type: ignore[attr-defined]
        if first:
            param.register_post_accumulate_grad_hook(_train)


def _train(param: Tensor) -> None:
    for optimizer in param._in_backward_optimizers:  # type: ignore[attr-defined]
        optimizer.step()
    param.grad = None

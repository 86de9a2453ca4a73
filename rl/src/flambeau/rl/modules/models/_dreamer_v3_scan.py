"""A recurrence that keeps its states alone, and computes each step again on the way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.func import functional_call


def scan_over_time(cell: Any, inputs: Tensor, hidden: Tensor, is_init: Tensor, *, compiled: bool) -> Tensor:
    """Steps of a cell with `step_projected`, one after the other.

    Args:
        cell: the module; its parameters get gradients.
        inputs: (B, T, P), what each step reads.
        hidden: (B, H), the state before the first.
        is_init: bool, (B, T): where the state before the step is dropped.
        compiled: steps go through `torch.compile`.

    Returns:
        (B, T, H), the states. Their gradient can be computed once: differentiating it raises a RuntimeError.
    """
    names, parameters = zip(*cell.named_parameters(), strict=True)

    def step(value: Tensor, before: Tensor, start: Tensor, *weights: Tensor) -> Tensor:
        given = {f"cell.{name}": weight for name, weight in zip(names, weights, strict=True)}
        result: Tensor = functional_call(_Stepping(cell), given, (value, before.masked_fill(start[:, None], 0)))
        return result

    run = torch.compile(step) if compiled else step
    output: Tensor = _Scan.apply(run, inputs, hidden, is_init, *parameters)  # type: ignore[no-untyped-call]
    return output


class _Stepping(torch.nn.Module):
    """A cell whose forward pass is `step_projected`."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, value: Tensor, hidden: Tensor) -> Tensor:
        stepped: Tensor = self.cell.step_projected(value, hidden)
        return stepped


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: Any, inputs: Tensor, hidden: Tensor, is_init: Tensor, *weights: Tensor) -> Tensor:
        states = []
        before = hidden
        for at in range(inputs.shape[1]):
            before = step(inputs[:, at], before, is_init[:, at], *weights)
            states.append(before)
        output = torch.stack(states, 1)
        ctx.step = step
        ctx.save_for_backward(inputs, hidden, is_init, output, *weights)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        inputs, hidden, is_init, output, *weights = ctx.saved_tensors
        (by_output,) = gradients
        by_inputs, by_state = torch.empty_like(inputs), torch.zeros_like(hidden)
        by_weights = [torch.zeros_like(weight) for weight in weights]
        for at in reversed(range(inputs.shape[1])):
            before = hidden if at == 0 else output[:, at - 1]
            with torch.enable_grad():
                given = [each.detach().requires_grad_() for each in (inputs[:, at], before, *weights)]
                after = ctx.step(given[0], given[1], is_init[:, at], *given[2:])
            found = torch.autograd.grad(after, given, by_output[:, at] + by_state, materialize_grads=True)
            by_inputs[:, at], by_state = found[0], found[1]
            for total, each in zip(by_weights, found[2:], strict=True):
                total.add_(each)
        return None, by_inputs, by_state, None, *by_weights

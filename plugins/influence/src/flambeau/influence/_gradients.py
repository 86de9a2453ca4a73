"""Gradients of the loss of each example by itself.

`torch.func` differentiates a whole batch at once: the gradient of one example's loss, mapped over examples. What cannot
be mapped (data-dependent control flow, operators without a rule) is done example by example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from flambeau.influence._utils.common import Batch, Loss, _device, _on_device, _size, _split
from flambeau.influence.errors import InfluenceError, LossError

__all__ = ["SampleGradients", "chosen_parameters"]

# Numbers that the gradients of the examples that are differentiated together have, at most.
_MOST = 1 << 26


def chosen_parameters(model: nn.Module, layers: Sequence[str] | None) -> list[str]:
    """Names of the parameters that gradients are taken of: all that want them, or those of some layers.

    Raises:
        InfluenceError: no such layer, or no parameters.
    """
    if layers is None:
        chosen = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    else:
        known = dict(model.named_modules())
        for layer in layers:
            if layer not in known:
                raise InfluenceError(
                    f"layers has {layer!r}, which the model does not have; `model.named_modules()` lists its layers."
                )
        chosen = [
            name
            for name, _ in model.named_parameters()
            if any(not layer or name.startswith(f"{layer}.") for layer in layers)
        ]
    if not chosen:
        raise InfluenceError("The model, or the layers chosen, have no parameters that could have a gradient.")
    return chosen


class SampleGradients:
    """Gradients of the loss of each example, as rows of a matrix.

    Args:
        model: in the state whose gradients are wanted; it may change between calls.
        names: of the parameters.
        loss_fn: `loss_fn(model(*inputs), labels)`; None where the model gives the loss itself.
        what: what batches are called in messages.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], loss_fn: Loss, what: str) -> None:
        self.model, self.names, self.loss_fn, self.what = model, list(names), loss_fn, what
        self._mapped = True

    def __call__(self, batch: Any) -> Tensor:
        """Gradients (examples, numbers of all parameters chosen)."""
        inputs, labels = _split(batch, self.loss_fn, self.what)
        device = _device(self.model)
        inputs, labels = _on_device(inputs, device), _on_device(labels, device)
        count = _size(inputs)
        parameters, rest = self._state()
        each = max(1, _MOST // max(1, sum(value.numel() for value in parameters.values())))
        rows = [
            self._rows(parameters, rest, tuple(_part(value, at, each) for value in inputs), _part(labels, at, each))
            for at in range(0, count, each)
        ]
        return torch.cat(rows) if len(rows) != 1 else rows[0]

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        everything = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        everything = {name: value.detach() for name, value in everything.items()}
        return {name: everything.pop(name) for name in self.names}, everything

    def _loss(self, parameters: dict[str, Tensor], rest: dict[str, Tensor], inputs: Batch, label: Any) -> Tensor:
        one = tuple(value.unsqueeze(0) if isinstance(value, Tensor) else value for value in inputs)
        output = functional_call(self.model, {**parameters, **rest}, one)
        if self.loss_fn is not None:
            output = self.loss_fn(output, label.unsqueeze(0) if isinstance(label, Tensor) else label)
        if not isinstance(output, Tensor):
            name = "loss_fn" if self.loss_fn is not None else "The model, which is to give the loss itself,"
            raise LossError(f"{name} returned a {type(output).__name__}, expected a tensor.")
        return output.sum()

    def _rows(self, parameters: dict[str, Tensor], rest: dict[str, Tensor], inputs: Batch, labels: Any) -> Tensor:
        gradient = grad(self._loss)
        if self._mapped:
            where = tuple(0 if isinstance(value, Tensor) else None for value in inputs)
            dims = (None, None, where, 0 if isinstance(labels, Tensor) else None)
            try:
                found = vmap(gradient, in_dims=dims, randomness="different")(parameters, rest, inputs, labels)
                return torch.cat([found[name].flatten(1) for name in self.names], dim=1)
            except (RuntimeError, NotImplementedError, TypeError) as error:
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self._mapped = False  # where the loop below fails as well, its error says why
        rows = []
        for at in range(_size(inputs)):
            one = tuple(value[at] if isinstance(value, Tensor) else value for value in inputs)
            found = gradient(parameters, rest, one, labels[at] if isinstance(labels, Tensor) else labels)
            rows.append(torch.cat([found[name].flatten() for name in self.names]))
        return torch.stack(rows)


def _part(value: Any, begin: int, count: int) -> Any:
    return value[begin : begin + count] if isinstance(value, Tensor) else value

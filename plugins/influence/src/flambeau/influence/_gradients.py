"""Gradients of the loss of each example by itself.

Layers that are linear or convolutions give the gradients of all examples of a batch in one backward pass. Where a model
has others, `torch.func` maps the gradient of one example's loss over examples; what cannot be mapped (data-dependent
control flow, operators without a rule) is done example by example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from flambeau.influence._layer_gradients import LayerGradients
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
        self._by_layers = LayerGradients(model, names)
        # Whether one pass for the whole batch gives what examples give by themselves: compared on the first batch.
        self._at_once, self._compared = self._by_layers.possible and _is_sum(loss_fn), False

    def __call__(self, batch: Any) -> Tensor:
        """Gradients (examples, numbers of all parameters chosen)."""
        inputs, labels = _split(batch, self.loss_fn, self.what)
        device = _device(self.model)
        inputs, labels = _on_device(inputs, device), _on_device(labels, device)
        count = _size(inputs)
        parameters, rest = self._state()
        each = max(1, _MOST // max(1, sum(value.numel() for value in parameters.values())))
        rows = []
        for at in range(0, count, each):
            some, their = tuple(_part(value, at, each) for value in inputs), _part(labels, at, each)
            rows.append(self._of_batch(parameters, rest, some, their))
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

    def _of_batch(self, parameters: dict[str, Tensor], rest: dict[str, Tensor], inputs: Batch, labels: Any) -> Tensor:
        if self._at_once:
            found = self._batched(inputs, labels)
            if found is not None and not self._compared:
                # A model may mix examples, or use parameters outside of their layers: then the last example's differ.
                alone = self._rows(parameters, rest, tuple(_part(v, -1, 1) for v in inputs), _part(labels, -1, 1))
                scale = alone.abs().max().clamp(min=1e-30)
                self._compared = bool(((found[-1:] - alone).abs().max() <= 1e-3 * scale).item())
                found = found if self._compared else None
            if found is not None:
                return found
            self._at_once = False
        return self._rows(parameters, rest, inputs, labels)

    def factors(self, batch: Any) -> list[tuple[Tensor, Tensor]]:
        """Of each layer its inputs (examples, ..., in) and the gradients at its outputs (examples, ..., out).

        Raises:
            InfluenceError: a layer does not run once for a batch, or its parameters are used elsewhere.
        """
        inputs, labels = _split(batch, self.loss_fn, self.what)
        inputs, labels = _on_device(inputs, _device(self.model)), _on_device(labels, _device(self.model))
        found = self._once(self._by_layers.factors, inputs, labels) if self._by_layers.possible else None
        if found is None:
            raise InfluenceError("A layer does not run exactly once for a batch, or shares its parameters.")
        factors, scale = found
        return [(given, gradient * scale) for given, gradient in factors]

    def _batched(self, inputs: Batch, labels: Any) -> Tensor | None:
        """Gradients of all examples by one backward pass, or None where that does not give them."""
        try:
            found = self._once(self._by_layers, inputs, labels)
        except (LossError, RuntimeError, TypeError, ValueError, IndexError):
            return None  # what is wrong, the way for single examples says
        if found is None:
            return None
        rows, scale = found
        return torch.as_tensor(rows * scale if scale != 1 else rows)

    def _once(self, ask: Any, inputs: Batch, labels: Any) -> Any:
        """What `ask` makes of the loss of a batch, and what a mean has divided it by; None where it makes nothing."""
        scale = _size(inputs) if getattr(self.loss_fn, "reduction", "") == "mean" else 1

        def loss() -> Tensor:
            output = self.model(*inputs)
            if self.loss_fn is not None:
                output = self.loss_fn(output, labels)
            if not isinstance(output, Tensor):
                raise LossError(f"loss_fn returned a {type(output).__name__}, expected a tensor.")
            return output.sum()

        wanted = [(parameter, parameter.requires_grad) for parameter in self.model.parameters()]
        try:
            for parameter, _ in wanted:
                parameter.requires_grad_(True)
            found = ask(loss)
        finally:
            for parameter, flag in wanted:
                parameter.requires_grad_(flag)
        return None if found is None else (found, scale)

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
    return value.narrow(0, begin % len(value), min(count, len(value) - begin % len(value))) if _many(value) else value


def _many(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and len(value) > 0


def _is_sum(loss_fn: Loss) -> bool:
    """Whether the loss of a batch is the sum, or the mean, of its examples'; a mean with weights is not."""
    if getattr(loss_fn, "reduction", None) != "mean":
        return True
    weighted = getattr(loss_fn, "weight", None) is not None or getattr(loss_fn, "ignore_index", -100) != -100
    return isinstance(loss_fn, nn.Module) and not weighted

"""Gradients of single examples from one backward pass of a whole batch, for linear and convolutional layers.

The gradient of a layer's matrix for one example is the product of the gradients at its outputs and its inputs, summed
over the places that it is applied to (Goodfellow, "Efficient Per-Example Gradient Computations", 2015,
arXiv:1510.01799, and its extension to convolutions by Rochette et al., 2019, arXiv:1912.06015).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["LayerGradients"]


class LayerGradients:
    """Gradients of linear and convolutional layers, for each example of a batch.

    Args:
        model: in the state whose gradients are wanted.
        names: of parameters, in the order wanted.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        self.model, self.names = model, list(names)
        owners = {name: name.rpartition(".")[0] for name in names}
        self._layers = {owner: model.get_submodule(owner) for owner in owners.values()}
        shared = len({id(parameter) for parameter in model.parameters()}) < sum(
            1 for _ in model.named_parameters(remove_duplicate=False)
        )
        self.possible = not shared and all(_is_known(layer) for layer in self._layers.values())

    def __call__(self, loss: Callable[[], Tensor]) -> Tensor | None:
        """Rows of gradients, (examples, numbers of all parameters).

        Args:
            loss: runs the model on a batch and gives the sum of its examples' losses.

        Returns:
            None where a layer did not run exactly once, on one tensor.
        """
        found = self.factors(loss)
        if found is None:
            return None
        parts: dict[str, Tensor] = {}
        for (name, layer), (given, gradient) in zip(self._layers.items(), found, strict=True):
            of_layer = _of_layer(layer, given, gradient)
            parts.update({f"{name}.{which}" if name else which: value for which, value in of_layer.items()})
        return torch.cat([parts[name] for name in self.names], dim=1)

    def factors(self, loss: Callable[[], Tensor]) -> list[tuple[Tensor, Tensor]] | None:
        """Each layer's inputs and the gradients at its outputs; arguments and None as of a call."""
        with torch.enable_grad(), _watched(self._layers) as seen:
            total = loss()
        if any(len(calls) != 1 for calls in seen.values()) or not total.requires_grad:
            return None
        outputs = [calls[0][1] for calls in seen.values()]
        if any(calls[0][0].dim() < 2 or calls[0][0].dim() != calls[0][1].dim() for calls in seen.values()):
            return None
        at_outputs = torch.autograd.grad(total, outputs, allow_unused=True, materialize_grads=True)
        return [(calls[0][0], gradient) for calls, gradient in zip(seen.values(), at_outputs, strict=True)]


def _is_known(layer: nn.Module) -> bool:
    # Not subclasses, which may do something else with their parameters.
    if type(layer) is nn.Linear:
        return True
    return type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(
        layer.padding, str
    )  # fmt: skip


@contextmanager
def _watched(layers: dict[str, nn.Module]) -> Iterator[dict[str, list[tuple[Tensor, Tensor]]]]:
    """Note what layers are given and give."""
    seen: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in layers}
    handles = []

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            seen[name].append((args[0].detach(), output))

        return hook

    try:
        for name, layer in layers.items():
            handles.append(layer.register_forward_hook(note(name)))
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _of_layer(layer: nn.Module, given: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """Gradients of a layer's parameters, (examples, numbers): from (examples, ..., in) and (examples, ..., out)."""
    if isinstance(layer, nn.Conv2d):
        padding, dilation = layer.padding, layer.dilation
        columns = nn.functional.unfold(given, layer.kernel_size, dilation, padding, layer.stride)  # type: ignore[arg-type]
        gradient = gradient.flatten(2)
        weight = torch.bmm(gradient, columns.transpose(1, 2))
        bias = gradient.sum(2)
    elif given.dim() == 2:
        weight, bias = gradient.unsqueeze(2) * given.unsqueeze(1), gradient
    else:
        given, gradient = given.flatten(1, -2), gradient.flatten(1, -2)
        weight, bias = torch.bmm(gradient.transpose(1, 2), given), gradient.sum(1)
    return {"weight": weight.flatten(1), "bias": bias}

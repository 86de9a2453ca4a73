"""Multilayer perceptrons."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from flambeau.rec.modules.activation import SwishLayerNorm

__all__ = ["MLP", "Perceptron"]

Activation = nn.Module | Callable[[Tensor], Tensor]


class Perceptron(nn.Module):
    """A linear layer and an activation.

    Args:
        in_size: columns of the input.
        out_size: columns of the result.
        bias: whether the layer has one.
        activation: a module or function.
        device: of the parameters.
        dtype: of the parameters.
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        bias: bool = True,
        activation: Activation = torch.relu,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self._out_size, self._in_size = out_size, in_size
        self._linear = nn.Linear(in_size, out_size, bias=bias, device=device, dtype=dtype)
        self._activation_fn = activation

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_size) to (..., out_size)."""
        result: Tensor = self._activation_fn(self._linear(input))
        return result


class MLP(nn.Module):
    """Perceptrons one after another.

    Args:
        in_size: columns of the input.
        layer_sizes: columns after each layer.
        bias: whether layers have one.
        activation: "relu", "sigmoid" or "swish_layernorm"; a function; or what makes a module for a layer: a class or
            function without arguments, or a module that all layers share.
        device: of the parameters.
        dtype: of the parameters.
        activation_on_last: whether the last layer is followed by the activation, too.

    Raises:
        ValueError: an unknown name of an activation.

    Example:
        >>> MLP(13, [64, 16])(torch.ones(2, 13)).shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        in_size: int,
        layer_sizes: list[int],
        bias: bool = True,
        activation: str | Callable[[], nn.Module] | nn.Module | Callable[[Tensor], Tensor] = torch.relu,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
        activation_on_last: bool = True,
    ) -> None:
        super().__init__()
        sizes = [in_size, *layer_sizes]
        layers = [
            Perceptron(before, after, bias, _activation(activation, after, device), device, dtype)
            for before, after in pairwise(sizes)
        ]
        if layers and not activation_on_last:
            layers[-1]._activation_fn = nn.Identity()
        self._mlp = nn.Sequential(*layers)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_size) to (..., columns of the last layer)."""
        result: Tensor = self._mlp(input)
        return result


def _activation(
    given: str | Callable[[], nn.Module] | nn.Module | Callable[[Tensor], Tensor],
    size: int,
    device: torch.device | None,
) -> Activation:
    if isinstance(given, str):
        named: dict[str, Callable[[], Activation]] = {
            "relu": lambda: torch.relu,
            "sigmoid": lambda: torch.sigmoid,
            "swish_layernorm": lambda: SwishLayerNorm(size, device=device),
        }
        if given not in named:
            raise ValueError(f"activation is {given!r}, expected one of {', '.join(named)}, a module or a function.")
        return named[given]()
    if isinstance(given, nn.Module):
        return given
    if isinstance(given, type):
        made = given()
        assert isinstance(made, nn.Module)
        return made
    try:
        made = given()  # type: ignore[call-arg]
    except TypeError:  # a function of tensors
        return given  # type: ignore[return-value]
    return made if isinstance(made, nn.Module) else given  # type: ignore[return-value]

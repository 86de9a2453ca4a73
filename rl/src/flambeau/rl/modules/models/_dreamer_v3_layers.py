"""Layers of DreamerV3: RMS norms, linear maps in blocks, and their first weights (arXiv:2301.04104, appendix B)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn

# By how much cutting a normal variable off at two deviations narrows it. Upstream: four digits.
_WIDENING = 1.1368


class RMSNorm(nn.Module):
    """Features of mean square 1, times a weight each, computed in float32.

    Args:
        features: size of the last dimension.
        eps: added to the mean square.
        device: of the weight.
    """

    def __init__(self, features: int, eps: float = 1e-4, device: Any = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features, device=device))
        self.eps = eps

    def forward(self, value: Tensor) -> Tensor:
        """(*batch, features) -> the same shape and dtype."""
        wide = value.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (normed * self.weight).to(value.dtype)


class ChannelRMSNorm(RMSNorm):
    """`RMSNorm` over the channels of an image, each pixel for itself."""

    def forward(self, value: Tensor) -> Tensor:
        """(*batch, C, H, W) -> the same shape and dtype."""
        return super().forward(value.movedim(-3, -1)).movedim(-1, -3)


class BlockLinear(nn.Module):
    """A linear map whose matrix is block-diagonal.

    Args:
        in_features, out_features: sizes, both divisible by `num_blocks`.
        num_blocks: number of blocks.
        device: of the parameters.

    Raises:
        ValueError: a size cannot be divided.
    """

    def __init__(self, in_features: int, out_features: int, num_blocks: int, device: Any = None) -> None:
        super().__init__()
        if in_features % num_blocks or out_features % num_blocks:
            raise ValueError(
                f"BlockLinear: num_blocks is {num_blocks}, expected a divisor of in_features ({in_features}) and "
                f"out_features ({out_features})."
            )
        shape = (num_blocks, in_features // num_blocks, out_features // num_blocks)
        self.num_blocks = num_blocks
        self.weight = nn.Parameter(torch.empty(shape, device=device))
        self.bias = nn.Parameter(torch.zeros(out_features, device=device))
        reset_weights(self, in_features)

    def forward(self, value: Tensor) -> Tensor:
        """(*batch, in_features) -> (*batch, out_features)."""
        parts = value.unflatten(-1, (self.num_blocks, -1))
        return torch.einsum("...ki,kio->...ko", parts, self.weight).flatten(-2) + self.bias


def reset_weights(layer: Any, inputs: int | None = None, scale: float = 1.0) -> None:
    """Normal weights of variance 1 / inputs, cut off at two deviations, and no bias.

    Args:
        layer: linear or convolutional, in place.
        inputs: how many values a result is a sum of; found from the layer unless given.
        scale: multiplies the weights.
    """
    if inputs is None:
        shape = layer.weight.shape
        inputs = shape[0 if isinstance(layer, nn.ConvTranspose2d) else 1] * math.prod(shape[2:])
    deviation = _WIDENING / math.sqrt(inputs)
    with torch.no_grad():
        nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        layer.weight.mul_(scale)
        layer.bias.zero_()


def reset_all_weights(module: nn.Module) -> None:
    """`reset_weights` of all linear and convolutional layers, in their order."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            reset_weights(layer)


def normed_layers(sizes: list[int], eps: float, device: Any) -> list[nn.Module]:
    """Linear maps from each size to the next, each with its norm and SiLU."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, device=device), RMSNorm(outputs, eps, device), nn.SiLU()]
    return layers


class DreamerV3MLP(nn.Module):
    """A multilayer perceptron whose hidden layers have RMS norms and SiLU: the heads of DreamerV3.

    Args:
        in_features: size of all inputs together.
        out_features: size of outputs; None returns the last hidden layer.
        depth: number of hidden layers.
        num_cells: size of hidden layers.
        outscale: multiplies the first weights of the output layer; 0 starts from outputs of 0.
        norm_eps: added to mean squares.
        device: of the parameters.

    References:
        Hafner et al. 2023, arXiv:2301.04104, appendix B.
    """

    def __init__(
        self, in_features: int, out_features: int | None, depth: int = 3, num_cells: int = 1024,
        outscale: float = 1.0, norm_eps: float = 1e-4, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = [in_features] + [num_cells] * max(depth, 0)
        self.model = nn.Sequential(*normed_layers(sizes, norm_eps, device))
        head = None if out_features is None else nn.Linear(sizes[-1], out_features, device=device)
        if head is not None:
            self.model.append(head)
        reset_all_weights(self.model)
        if head is not None:
            with torch.no_grad():
                head.weight.mul_(outscale)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Tensors (*batch, n) whose sizes add up to in_features -> (*batch, out_features)."""
        features: Tensor = self.model(torch.cat(inputs, -1))
        return features

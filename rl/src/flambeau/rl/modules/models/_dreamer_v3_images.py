"""Encoder and decoder of images in DreamerV3 (arXiv:2301.04104)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models._dreamer_v3_layers import BlockLinear, ChannelRMSNorm, reset_all_weights


class DreamerV3ImageEncoder(nn.Module):
    """Convolutions of stride 2 with channel-wise RMS norms and SiLU; each halves the image (rounded up).

    Args:
        in_channels: of the image.
        depth: layer i has `depth * mults[i]` channels.
        mults: one factor a layer.
        kernel_size: odd, positive.
        norm_eps: added to mean squares.
        device: of the parameters.

    Raises:
        ValueError: `kernel_size` is even or `mults` is empty.

    Example:
        >>> encoder = DreamerV3ImageEncoder(depth=8, mults=(1, 2))
        >>> encoder(torch.zeros(4, 3, 16, 16, dtype=torch.uint8)).shape, encoder.output_features((3, 16, 16))
        (torch.Size([4, 256]), 256)
    """

    def __init__(
        self, in_channels: int = 3, depth: int = 64, mults: Sequence[int] = (2, 3, 4, 4), kernel_size: int = 5,
        norm_eps: float = 1e-4, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_layers(type(self).__name__, mults, kernel_size)
        self.channels = [depth * each for each in mults]
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise([in_channels, *self.channels]):
            convolution = nn.Conv2d(inputs, outputs, kernel_size, 2, kernel_size // 2, device=device)
            layers += [convolution, ChannelRMSNorm(outputs, norm_eps, device), nn.SiLU()]
        self.layers = nn.Sequential(*layers)
        reset_all_weights(self.layers)

    def output_features(self, image_shape: tuple[int, int, int]) -> int:
        """Size of what comes of an image of this shape (C, H, W)."""
        halvings = 2 ** len(self.channels)
        _, height, width = image_shape
        features: int = self.channels[-1] * math.ceil(height / halvings) * math.ceil(width / halvings)
        return features

    def forward(self, image: Tensor) -> Tensor:
        """(*batch, C, H, W), integers in [0, 255] or floats in [0, 1] -> (*batch, features)."""
        if not image.is_floating_point():
            image = image.float() / 255
        batch = image.shape[:-3]
        features: Tensor = self.layers(image.reshape(-1, *image.shape[-3:]) - 0.5)
        return features.reshape(*batch, -1)


class DreamerV3ImageDecoder(nn.Module):
    """Transposed convolutions of stride 2 that make an image of a latent state.

    Outputs are not bounded; images in [0, 1] are their targets.

    Args:
        in_features: size of all inputs together, divisible by `num_blocks`.
        image_shape: (C, H, W); H and W are multiples of `2 ** len(mults)`.
        depth, mults, kernel_size: as in the encoder, whose layers are gone through backwards.
        num_blocks: blocks of the linear map before the first convolution; 1 makes it dense.
        norm_eps: added to mean squares.
        device: of the parameters.

    Raises:
        ValueError: sizes do not divide, `kernel_size` is even, or `mults` is empty.
    """

    def __init__(
        self, in_features: int, image_shape: tuple[int, int, int] = (3, 64, 64), depth: int = 64,
        mults: Sequence[int] = (2, 3, 4, 4), kernel_size: int = 5, num_blocks: int = 8, norm_eps: float = 1e-4,
        device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_layers(type(self).__name__, mults, kernel_size)
        channels, height, width = image_shape
        halvings = 2 ** len(mults)
        if height % halvings or width % halvings:
            raise ValueError(
                f"DreamerV3ImageDecoder: image_shape is {tuple(image_shape)}, expected a height and a width that are "
                f"multiples of 2 ** len(mults) = {halvings}."
            )
        sizes = [depth * each for each in reversed(mults)]
        self.first_shape = (sizes[0], height // halvings, width // halvings)
        latent = math.prod(self.first_shape)
        self.projection: nn.Module = (
            nn.Linear(in_features, latent, device=device)
            if num_blocks == 1
            else BlockLinear(in_features, latent, num_blocks, device)
        )
        reset_all_weights(self)
        self.projection_norm = ChannelRMSNorm(sizes[0], norm_eps, device)
        self.layers = nn.Sequential()
        for inputs, outputs in itertools.pairwise([*sizes, channels]):
            self.layers.append(
                nn.ConvTranspose2d(inputs, outputs, kernel_size, 2, kernel_size // 2, 1, device=device),
            )
            self.layers.extend([ChannelRMSNorm(outputs, norm_eps, device), nn.SiLU()])
        del self.layers[-2:]
        reset_all_weights(self.layers)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Tensors (*batch, n) whose sizes add up to in_features -> (*batch, C, H, W)."""
        features = self.projection(torch.cat(inputs, -1))
        batch = features.shape[:-1]
        latent = features.reshape(-1, *self.first_shape)
        image: Tensor = self.layers(nn.functional.silu(self.projection_norm(latent))) + 0.5
        return image.reshape(*batch, *image.shape[-3:])


def _check_layers(name: str, mults: Sequence[int], kernel_size: int) -> None:
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise ValueError(f"{name}: kernel_size is {kernel_size}, expected an odd number above 0.")
    if not mults:
        raise ValueError(f"{name}: mults is empty, expected one factor a layer.")

"""The convolutional feature extractor of wav2vec 2.0 (arXiv:2006.11477, section 2): a waveform becomes frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["DEFAULT_LAYERS", "ConvLayerBlock", "FeatureExtractor", "LayerNorm", "_get_feature_extractor"]

# (channels, kernel, stride) of each layer: one frame per 320 samples, each seeing 400.
DEFAULT_LAYERS = [(512, 10, 5), *[(512, 3, 2)] * 4, *[(512, 2, 2)] * 2]


class LayerNorm(nn.LayerNorm):
    """Layer norm over the channels of (batch, channels, frames)."""

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, frames) -> the same shape."""
        return super().forward(input.transpose(-2, -1)).transpose(-2, -1)


class ConvLayerBlock(nn.Module):
    """Convolution, norm, GELU.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: taps.
        stride: frames from one output to the next.
        bias: whether the convolution has one.
        layer_norm: the norm, None for none.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        bias: bool,
        layer_norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride
        self.layer_norm = layer_norm
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride, bias=bias)

    def forward(self, x: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Apply.

        Args:
            x: (batch, in_channels, frames).
            length: (batch,) valid frames of each item, or None.

        Returns:
            (batch, out_channels, frames out), and the valid frames of the output.
        """
        x = self.conv(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if length is not None:
            length = torch.div(length - self.kernel_size, self.stride, rounding_mode="floor") + 1
            length = length.clamp(min=0)  # shorter than one window
        return F.gelu(x), length


class FeatureExtractor(nn.Module):
    """A stack of `ConvLayerBlock`s."""

    def __init__(self, conv_layers: nn.ModuleList) -> None:
        super().__init__()
        self.conv_layers = conv_layers

    def forward(self, x: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Extract.

        Args:
            x: (batch, time) waveforms.
            length: (batch,) valid samples of each item, or None.

        Returns:
            (batch, frames, channels), and the valid frames of each item.

        Raises:
            ValueError: `x` has not two dimensions.
        """
        if x.ndim != 2:
            raise ValueError(
                f"The waveforms have shape {tuple(x.shape)}, expected 2D (batch, time); average channels first."
            )
        x = x.unsqueeze(1)
        for layer in self.conv_layers:
            x, length = layer(x, length)
        return x.transpose(1, 2), length


def _get_feature_extractor(
    norm_mode: Literal["group_norm", "layer_norm"], shapes: Sequence[tuple[int, int, int]], bias: bool
) -> FeatureExtractor:
    """The extractor with a group norm in its first layer, or a layer norm in each.

    Raises:
        ValueError: `norm_mode` is neither.
    """
    if norm_mode not in ("group_norm", "layer_norm"):
        raise ValueError(f"The norm mode is {norm_mode!r}, expected 'group_norm' or 'layer_norm'.")
    blocks, channels = [], 1
    for index, (out_channels, kernel_size, stride) in enumerate(shapes):
        norm: nn.Module | None = None
        if norm_mode == "layer_norm":
            norm = LayerNorm(out_channels)
        elif index == 0:
            norm = nn.GroupNorm(out_channels, out_channels)
        blocks.append(ConvLayerBlock(channels, out_channels, kernel_size, stride, bias, norm))
        channels = out_channels
    return FeatureExtractor(nn.ModuleList(blocks))

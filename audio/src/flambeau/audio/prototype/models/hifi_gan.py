"""HiFi-GAN: waveforms of mel spectrograms, the generator (Kong et al. 2020, arXiv:2010.05646)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._api import register_model
from flambeau.audio.weights.synthesis import HiFiGAN_V3_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["HiFiGANVocoder", "hifigan_vocoder", "hifigan_vocoder_v1", "hifigan_vocoder_v2", "hifigan_vocoder_v3"]


def _same(channels: int, kernel_size: int, dilation: int) -> nn.Conv1d:
    """A convolution that keeps the number of samples."""
    padding = (kernel_size - 1) * dilation // 2
    return nn.Conv1d(channels, channels, kernel_size, dilation=dilation, padding=padding)


class ResBlock1(nn.Module):
    """Residual pairs of a dilated and a plain convolution.

    Args:
        channels: channels.
        kernel_size: taps.
        dilation: of the first convolution of each pair.
        lrelu_slope: slope of leaky ReLUs for negative values.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int = 3,
        dilation: tuple[int, ...] = (1, 3, 5),
        lrelu_slope: float = 0.1,
    ) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(_same(channels, kernel_size, d) for d in dilation)
        self.convs2 = nn.ModuleList(_same(channels, kernel_size, 1) for _ in dilation)
        self.lrelu_slope = lrelu_slope

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, time) -> the same shape."""
        for dilated, plain in zip(self.convs1, self.convs2, strict=True):
            y = dilated(F.leaky_relu(x, self.lrelu_slope))
            x = x + plain(F.leaky_relu(y, self.lrelu_slope))
        return x


class ResBlock2(nn.Module):
    """Residual dilated convolutions; arguments as of `ResBlock1`."""

    def __init__(
        self, channels: int, kernel_size: int = 3, dilation: tuple[int, ...] = (1, 3), lrelu_slope: float = 0.1
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(_same(channels, kernel_size, d) for d in dilation)
        self.lrelu_slope = lrelu_slope

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, time) -> the same shape."""
        for convolution in self.convs:
            x = x + convolution(F.leaky_relu(x, self.lrelu_slope))
        return x


class HiFiGANVocoder(nn.Module):
    """The generator.

    Args:
        in_channels: mel bands.
        upsample_rates: factor of each upsampling layer.
        upsample_initial_channel: channels before the first one; each halves them.
        upsample_kernel_sizes: taps of each.
        resblock_kernel_sizes: taps of each residual block behind an upsampling layer; their outputs are averaged.
        resblock_dilation_sizes: dilations of each.
        resblock_type: 1 or 2.
        lrelu_slope: slope of leaky ReLUs for negative values.

    Raises:
        ValueError: another `resblock_type`.
    """

    def __init__(
        self,
        in_channels: int,
        upsample_rates: tuple[int, ...],
        upsample_initial_channel: int,
        upsample_kernel_sizes: tuple[int, ...],
        resblock_kernel_sizes: tuple[int, ...],
        resblock_dilation_sizes: tuple[tuple[int, ...], ...],
        resblock_type: int,
        lrelu_slope: float,
    ) -> None:
        super().__init__()
        if resblock_type not in (1, 2):
            raise ValueError(f"resblock_type is {resblock_type}, expected 1 or 2.")
        block = ResBlock1 if resblock_type == 1 else ResBlock2
        self.num_kernels, self.num_upsamples = len(resblock_kernel_sizes), len(upsample_rates)
        channels = upsample_initial_channel
        self.conv_pre = nn.Conv1d(in_channels, channels, 7, padding=3)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for rate, taps in zip(upsample_rates, upsample_kernel_sizes, strict=True):
            self.ups.append(nn.ConvTranspose1d(channels, channels // 2, taps, rate, padding=(taps - rate) // 2))
            channels //= 2
            for kernel_size, dilations in zip(resblock_kernel_sizes, resblock_dilation_sizes, strict=True):
                self.resblocks.append(block(channels, kernel_size, dilations, lrelu_slope))
        self.conv_post = nn.Conv1d(channels, 1, 7, padding=3)
        self.lrelu_slope = lrelu_slope

    def forward(self, x: Tensor) -> Tensor:
        """Make waveforms.

        Args:
            x: (batch, in_channels, frames), logarithmic mel spectrograms.

        Returns:
            (batch, 1, frames x product of the rates) in [-1, 1].
        """
        x = self.conv_pre(x)
        for index, upsample in enumerate(self.ups):
            x = upsample(F.leaky_relu(x, self.lrelu_slope))
            blocks = self.resblocks[index * self.num_kernels : (index + 1) * self.num_kernels]
            x = sum(block(x) for block in blocks) / self.num_kernels
        return torch.tanh(self.conv_post(F.leaky_relu(x)))


def hifigan_vocoder(
    in_channels: int,
    upsample_rates: tuple[int, ...],
    upsample_initial_channel: int,
    upsample_kernel_sizes: tuple[int, ...],
    resblock_kernel_sizes: tuple[int, ...],
    resblock_dilation_sizes: tuple[tuple[int, ...], ...],
    resblock_type: int,
    lrelu_slope: float,
) -> HiFiGANVocoder:
    """A generator; arguments as of `HiFiGANVocoder`.

    Args:
        in_channels: mel bands.
        upsample_rates: factor of each upsampling layer.
        upsample_initial_channel: channels before the first one.
        upsample_kernel_sizes: taps of each.
        resblock_kernel_sizes: taps of each residual block.
        resblock_dilation_sizes: dilations of each.
        resblock_type: 1 or 2.
        lrelu_slope: slope of leaky ReLUs.
    """
    return HiFiGANVocoder(
        in_channels,
        upsample_rates,
        upsample_initial_channel,
        upsample_kernel_sizes,
        resblock_kernel_sizes,
        resblock_dilation_sizes,
        resblock_type,
        lrelu_slope,
    )


_WIDE: dict[str, Any] = {
    "in_channels": 80,
    "upsample_rates": (8, 8, 2, 2),
    "upsample_kernel_sizes": (16, 16, 4, 4),
    "resblock_kernel_sizes": (3, 7, 11),
    "resblock_dilation_sizes": ((1, 3, 5), (1, 3, 5), (1, 3, 5)),
    "resblock_type": 1,
    "lrelu_slope": 0.1,
}
_SMALL: dict[str, Any] = {
    "in_channels": 80,
    "upsample_rates": (8, 8, 4),
    "upsample_initial_channel": 256,
    "upsample_kernel_sizes": (16, 16, 8),
    "resblock_kernel_sizes": (3, 5, 7),
    "resblock_dilation_sizes": ((1, 2), (2, 6), (3, 12)),
    "resblock_type": 2,
    "lrelu_slope": 0.1,
}


@register_model(task="vocoder", tags=("speech", "prototype"))
def hifigan_vocoder_v1() -> HiFiGANVocoder:
    """The generator V1 of 14 million parameters (arXiv:2010.05646, appendix A)."""
    return hifigan_vocoder(**_WIDE, upsample_initial_channel=512)


@register_model(task="vocoder", tags=("speech", "prototype"))
def hifigan_vocoder_v2() -> HiFiGANVocoder:
    """The generator V2, V1 with a quarter of its channels (arXiv:2010.05646, appendix A)."""
    return hifigan_vocoder(**_WIDE, upsample_initial_channel=128)


@register_model(task="vocoder", tags=("speech", "prototype"))
def hifigan_vocoder_v3(
    *, weights: HiFiGAN_V3_Weights | None = None, progress: bool = True, **kwargs: Any
) -> HiFiGANVocoder:
    """The generator V3 of 1.5 million parameters (arXiv:2010.05646, appendix A).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    member = HiFiGAN_V3_Weights.verify(weights)
    return build_with_weights(hifigan_vocoder, member, progress=progress, **kwargs, **_SMALL)

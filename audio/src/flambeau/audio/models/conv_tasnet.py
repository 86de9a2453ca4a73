"""Conv-TasNet: sources separated by masks over a learned basis (Luo and Mesgarani 2019, arXiv:1809.07454)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._api import register_model
from flambeau.audio.weights.separation import ConvTasNet_Base_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["ConvBlock", "ConvTasNet", "MaskGenerator", "conv_tasnet_base"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"sigmoid": nn.Sigmoid, "relu": nn.ReLU}


class ConvBlock(nn.Module):
    """A dilated depthwise convolution between two pointwise ones, with two outputs (figure 1, C).

    Args:
        io_channels: channels outside.
        hidden_channels: channels inside.
        kernel_size: taps of the depthwise convolution.
        padding: of it.
        dilation: of it.
        no_residual: whether the output that goes on is left out, as in the last block.
    """

    def __init__(
        self,
        io_channels: int,
        hidden_channels: int,
        kernel_size: int,
        padding: int,
        dilation: int = 1,
        no_residual: bool = False,
    ) -> None:
        super().__init__()
        self.conv_layers = nn.Sequential(
            nn.Conv1d(io_channels, hidden_channels, 1),
            nn.PReLU(),
            nn.GroupNorm(1, hidden_channels, eps=1e-8),
            nn.Conv1d(
                hidden_channels,
                hidden_channels,
                kernel_size,
                padding=padding,
                dilation=dilation,
                groups=hidden_channels,
            ),
            nn.PReLU(),
            nn.GroupNorm(1, hidden_channels, eps=1e-8),
        )
        self.res_out = None if no_residual else nn.Conv1d(hidden_channels, io_channels, 1)
        self.skip_out = nn.Conv1d(hidden_channels, io_channels, 1)

    def forward(self, input: Tensor) -> tuple[Tensor | None, Tensor]:
        """(batch, io_channels, frames) -> residual (None in the last block) and skip, each of that shape."""
        x = self.conv_layers(input)
        return None if self.res_out is None else self.res_out(x), self.skip_out(x)


class MaskGenerator(nn.Module):
    """Masks from a temporal convolutional network.

    Args:
        input_dim: channels of the basis.
        num_sources: sources.
        kernel_size: taps of the depthwise convolutions.
        num_feats: channels between blocks.
        num_hidden: channels inside blocks.
        num_layers: blocks of a stack, whose dilation doubles from one to the next.
        num_stacks: stacks.
        msk_activate: "sigmoid" or "relu".

    Raises:
        ValueError: another `msk_activate`.
    """

    def __init__(
        self,
        input_dim: int,
        num_sources: int,
        kernel_size: int,
        num_feats: int,
        num_hidden: int,
        num_layers: int,
        num_stacks: int,
        msk_activate: str,
    ) -> None:
        super().__init__()
        if msk_activate not in _ACTIVATIONS:
            raise ValueError(f"Unsupported activation {msk_activate!r}, expected 'sigmoid' or 'relu'.")
        self.input_dim, self.num_sources = input_dim, num_sources
        self.input_norm = nn.GroupNorm(1, input_dim, eps=1e-8)
        self.input_conv = nn.Conv1d(input_dim, num_feats, 1)
        dilations = [2**layer for layer in range(num_layers)] * num_stacks
        self.conv_layers = nn.ModuleList(
            ConvBlock(
                num_feats,
                num_hidden,
                kernel_size,
                padding=(kernel_size - 1) * dilation // 2,
                dilation=dilation,
                no_residual=index == len(dilations) - 1,
            )
            for index, dilation in enumerate(dilations)
        )
        self.receptive_field = kernel_size + sum((kernel_size - 1) * dilation for dilation in dilations[1:])
        self.output_prelu = nn.PReLU()
        self.output_conv = nn.Conv1d(num_feats, input_dim * num_sources, 1)
        self.mask_activate = _ACTIVATIONS[msk_activate]()

    def forward(self, input: Tensor) -> Tensor:
        """(batch, input_dim, frames) -> masks (batch, num_sources, input_dim, frames)."""
        x = self.input_conv(self.input_norm(input))
        output: Any = 0.0
        for layer in self.conv_layers:
            residual, skip = layer(x)
            if residual is not None:
                x = x + residual
            output = output + skip
        output = self.mask_activate(self.output_conv(self.output_prelu(output)))
        return output.unflatten(1, (self.num_sources, self.input_dim))  # type: ignore[no-any-return]


class ConvTasNet(nn.Module):
    """Separate the sources of one channel.

    Args:
        num_sources: sources.
        enc_kernel_size: samples of a basis function, even; half of them from one frame to the next.
        enc_num_feats: basis functions.
        msk_kernel_size: taps of the mask network's depthwise convolutions.
        msk_num_feats: channels between its blocks.
        msk_num_hidden_feats: channels inside them.
        msk_num_layers: blocks of a stack.
        msk_num_stacks: stacks.
        msk_activate: non-linearity of masks: "sigmoid" or "relu".
    """

    def __init__(
        self,
        num_sources: int = 2,
        enc_kernel_size: int = 16,
        enc_num_feats: int = 512,
        msk_kernel_size: int = 3,
        msk_num_feats: int = 128,
        msk_num_hidden_feats: int = 512,
        msk_num_layers: int = 8,
        msk_num_stacks: int = 3,
        msk_activate: str = "sigmoid",
    ) -> None:
        super().__init__()
        self.num_sources = num_sources
        self.enc_num_feats = enc_num_feats
        self.enc_kernel_size = enc_kernel_size
        self.enc_stride = enc_kernel_size // 2
        shape = {"kernel_size": enc_kernel_size, "stride": self.enc_stride, "padding": self.enc_stride, "bias": False}
        self.encoder = nn.Conv1d(1, enc_num_feats, **shape)  # type: ignore[arg-type]
        self.mask_generator = MaskGenerator(
            enc_num_feats,
            num_sources,
            msk_kernel_size,
            msk_num_feats,
            msk_num_hidden_feats,
            msk_num_layers,
            msk_num_stacks,
            msk_activate,
        )
        self.decoder = nn.ConvTranspose1d(enc_num_feats, 1, **shape)  # type: ignore[arg-type]

    def forward(self, input: Tensor) -> Tensor:
        """Separate.

        Args:
            input: (batch, 1, time), float.

        Returns:
            (batch, num_sources, time).

        Raises:
            ValueError: the input has not three dimensions, or more than one channel.
        """
        if input.ndim != 3 or input.shape[1] != 1:
            raise ValueError(f"input has the shape {tuple(input.shape)}, expected (batch, 1, time).")
        time = input.shape[-1]
        odd = self.enc_kernel_size % 2
        padding = -(time - odd) % self.enc_stride  # to a whole number of frames
        features = self.encoder(F.pad(input, (0, padding)))
        masked = self.mask_generator(features) * features.unsqueeze(1)
        decoded = self.decoder(masked.flatten(0, 1))
        return decoded.unflatten(0, (len(input), self.num_sources)).squeeze(2)[..., :time]  # type: ignore[no-any-return]


@register_model(task="source-separation", tags=("speech",))
def conv_tasnet_base(
    num_sources: int = 2,
    *,
    weights: ConvTasNet_Base_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> ConvTasNet:
    """Non-causal Conv-TasNet of the paper's best configuration (arXiv:1809.07454, table II).

    Args:
        num_sources: sources.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    member = ConvTasNet_Base_Weights.verify(weights)
    return build_with_weights(ConvTasNet, member, num_sources, progress=progress, **kwargs)

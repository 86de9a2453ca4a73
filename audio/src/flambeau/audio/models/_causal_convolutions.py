"""A transcriber for small transducers on streams: causal convolutions, which need nothing but the last frames."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models.rnnt import _Transcriber

__all__ = ["CausalConvolutions"]


class CausalConvolutions(_Transcriber):
    """Windows of frames, then residual blocks of dilated causal convolutions.

    A window begins every `stride` frames and reaches `right_context` frames beyond them; the blocks look back only, as
    in a temporal convolutional network (Bai et al. 2018, arXiv:1803.01271), and are built as those of ConvNeXt (Liu et
    al. 2022, arXiv:2201.03545): a convolution of each channel, layer norm, two linear layers. What a stream hears
    piece by piece is encoded as the whole would be.

    Args:
        input_dim: channels of a frame.
        output_dim: channels of an encoding.
        stride: frames of an encoding.
        right_context: frames ahead.
        width: channels of the blocks.
        kernel_size: of the convolutions.
        dilations: of each block.
        dropout: of each block's output.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        *,
        stride: int,
        right_context: int,
        width: int,
        kernel_size: int,
        dilations: Sequence[int],
        dropout: float,
    ) -> None:
        super().__init__()
        self.stride, self.window = stride, stride + right_context
        self.input_linear = nn.Linear(input_dim * self.window, width)
        self.blocks = nn.ModuleList(_Block(width, kernel_size, dilation, dropout) for dilation in dilations)
        self.output_linear = nn.Linear(width, output_dim)
        self.layer_norm = nn.LayerNorm(output_dim)

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `RNNT.transcribe`."""
        encodings, _ = self._encode(input, None)
        return encodings, lengths.div(self.stride, rounding_mode="trunc")

    def infer(
        self, input: Tensor, lengths: Tensor, states: list[list[Tensor]] | None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """See `RNNT.transcribe_streaming`; the state is the last inputs of each block's convolution."""
        encodings, states = self._encode(input, states)
        frames = (lengths - (self.window - self.stride)).clamp(min=0)
        return encodings, frames.div(self.stride, rounding_mode="trunc"), states

    def _encode(self, input: Tensor, states: list[list[Tensor]] | None) -> tuple[Tensor, list[list[Tensor]]]:
        x = self.input_linear(input.unfold(1, self.window, self.stride).flatten(2))
        left = []
        for index, block in enumerate(self.blocks):
            x, state = block(x, None if states is None else states[index][0])
            left.append([state])
        return self.layer_norm(self.output_linear(x)), left


class _Block(nn.Module):
    """A causal convolution of each channel and two linear layers, around which the input is added."""

    def __init__(self, width: int, kernel_size: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.past = (kernel_size - 1) * dilation
        self.convolution = nn.Conv1d(width, width, kernel_size, dilation=dilation, groups=width)
        self.layer_norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """(batch, frames, width) and the `past` frames before -> the same shape, and the last `past` frames."""
        before = x.new_zeros(x.shape[0], self.past, x.shape[2]) if state is None else state
        heard = torch.cat([before, x], 1)
        mixed = self.convolution(heard.transpose(1, 2)).transpose(1, 2)
        changed = self.narrow(F.gelu(self.wide(self.layer_norm(mixed))))
        return x + self.dropout(changed), heard[:, heard.shape[1] - self.past :]

"""Emformer with convolutions in its layers (Shi et al. 2022, doi:10.1109/ICASSP43922.2022.9747706)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.audio.models.emformer import (
    _Blocks,
    _EmformerAttention,
    _EmformerImpl,
    _get_activation_module,
    _get_weight_init_gains,
    _pooled,
    _StreamingLayer,
    _with_padding,
)

__all__ = ["ConvEmformer"]


class _ResidualContainer(nn.Module):
    """A module, weighted, beside a shortcut."""

    def __init__(self, module: nn.Module, output_weight: float) -> None:
        super().__init__()
        self.module = module
        self.output_weight = output_weight

    def forward(self, input: Tensor) -> Tensor:
        """Values of any shape that the module keeps."""
        return input + self.output_weight * self.module(input)  # type: ignore[no-any-return]


class _ConvolutionModule(nn.Module):
    """A depthwise convolution over the past, whose taps see each right context behind its own segment.

    Args:
        input_dim: channels.
        segment_length: frames of a segment.
        right_context_length: frames behind a segment.
        kernel_size: taps.
        activation: of the non-linearity: "relu", "gelu" or "silu".
        dropout: probability at the end.
    """

    def __init__(
        self,
        input_dim: int,
        segment_length: int,
        right_context_length: int,
        kernel_size: int,
        activation: str = "silu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_dim, self.segment_length = input_dim, segment_length
        self.right_context_length = right_context_length
        self.state_size = kernel_size - 1
        self.pre_conv = nn.Sequential(nn.LayerNorm(input_dim), nn.Linear(input_dim, 2 * input_dim), nn.GLU())
        self.conv = nn.Conv1d(input_dim, input_dim, kernel_size, groups=input_dim)
        self.post_conv = nn.Sequential(
            nn.LayerNorm(input_dim),
            _get_activation_module(activation),
            nn.Linear(input_dim, input_dim),
            nn.Dropout(dropout),
        )

    def forward(self, utterance: Tensor, right_context: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Apply.

        Args:
            utterance: (time, batch, channels).
            right_context: (right contexts of all segments, batch, channels).
            state: (batch, channels, kernel_size - 1), what came before; None for zeros.

        Returns:
            Utterance, right contexts, and the state for what comes behind.
        """
        input = torch.cat([right_context, utterance])
        right, x = self.pre_conv(input).split([len(right_context), len(utterance)])
        if state is None:
            state = x.new_zeros(x.shape[1], x.shape[2], self.state_size)
        past_and_x = torch.cat([state, x.permute(1, 2, 0)], dim=2)
        convolved = self.conv(past_and_x).permute(2, 0, 1)
        if self.right_context_length:
            convolved = torch.cat([self._on_right_contexts(past_and_x, right), convolved])
        output = self.post_conv(convolved) + input
        behind = past_and_x[:, :, past_and_x.shape[2] - self.state_size :]
        return output[len(right_context) :], output[: len(right_context)], behind

    def _on_right_contexts(self, past_and_x: Tensor, right: Tensor) -> Tensor:
        """Each segment's right context, convolved behind the last frames of its segment."""
        count, channels = len(right) // self.right_context_length, self.input_dim
        total = past_and_x.shape[2]
        ends = [min(self.state_size + (index + 1) * self.segment_length, total) for index in range(count)]
        before = torch.stack([past_and_x[:, :, end - self.state_size : end] for end in ends])
        own = right.reshape(count, self.right_context_length, -1, channels).permute(0, 2, 3, 1)
        convolved = self.conv(torch.cat([before, own], dim=3).flatten(0, 1))
        return convolved.unflatten(0, (count, -1)).permute(0, 3, 1, 2).flatten(0, 1)  # type: ignore[no-any-return]


class _ConvEmformerLayer(_StreamingLayer):
    """Half a feed-forward, attention, convolution, half a feed-forward, layer norm."""

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        ffn_dim: int,
        segment_length: int,
        kernel_size: int,
        dropout: float = 0.0,
        ffn_activation: str = "relu",
        left_context_length: int = 0,
        right_context_length: int = 0,
        max_memory_size: int = 0,
        weight_init_gain: float | None = None,
        tanh_on_mem: bool = False,
        negative_inf: float = -1e8,
        conv_activation: str = "silu",
    ) -> None:
        super().__init__()
        self.attention = _EmformerAttention(
            input_dim, num_heads, dropout, weight_init_gain, tanh_on_mem=tanh_on_mem, negative_inf=negative_inf
        )
        self.dropout = nn.Dropout(dropout)
        self.memory_op = nn.AvgPool1d(segment_length, stride=segment_length, ceil_mode=True)
        self.ffn0, self.ffn1 = (
            _ResidualContainer(
                nn.Sequential(
                    nn.LayerNorm(input_dim),
                    nn.Linear(input_dim, ffn_dim),
                    _get_activation_module(ffn_activation),
                    nn.Dropout(dropout),
                    nn.Linear(ffn_dim, input_dim),
                    nn.Dropout(dropout),
                ),
                0.5,
            )
            for _ in range(2)
        )
        self.layer_norm_input = nn.LayerNorm(input_dim)
        self.layer_norm_output = nn.LayerNorm(input_dim)
        self.conv = _ConvolutionModule(
            input_dim, segment_length, right_context_length, kernel_size, conv_activation, dropout
        )
        self.left_context_length = left_context_length
        self.segment_length = segment_length
        self.max_memory_size = max_memory_size
        self.input_dim = input_dim
        self.kernel_size = kernel_size
        self.use_mem = max_memory_size > 0

    def _blocks(
        self, utterance: Tensor, right_context: Tensor, memories: Tensor, streaming: bool
    ) -> tuple[_Blocks, Tensor]:
        """What attention works on, and the right contexts and the utterance before the layer norm."""
        summary = _pooled(self.memory_op, utterance) if self.use_mem else utterance[:0]
        summary = summary[:1] if streaming else summary
        x = self.ffn0(torch.cat([right_context, utterance, summary]))
        sizes = [len(right_context), len(utterance), len(summary)]
        right, left, pooled = self.layer_norm_input(x).split(sizes)
        return _Blocks(memories, right, left, pooled), x[: len(x) - len(summary)]

    def _finish(
        self, attended: Tensor, x: Tensor, right_length: int, cache: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = self.dropout(attended) + x
        utterance, right_context, cache = self.conv(x[right_length:], x[:right_length], cache)
        x = self.layer_norm_output(self.ffn1(torch.cat([right_context, utterance])))
        return x[right_length:], x[:right_length], cache

    def forward(
        self, utterance: Tensor, lengths: Tensor, right_context: Tensor, mems: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All segments at once; arguments and results as of Emformer's layer."""
        blocks, x = self._blocks(utterance, right_context, mems, streaming=False)
        attended, memories, _, _ = self.attention.attend(blocks, _with_padding(attention_mask, blocks, lengths))
        utterance, right_context, _ = self._finish(attended, x, len(right_context), None)
        return utterance, right_context, memories[:-1]

    def infer(
        self, utterance: Tensor, lengths: Tensor, right_context: Tensor, state: list[Tensor] | None, mems: Tensor
    ) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
        """One segment; as of Emformer's layer, with the convolution's past as a fifth tensor of the state."""
        if state is None:
            past = utterance.new_zeros(utterance.shape[1], self.input_dim, self.kernel_size - 1)
            state = [*self._init_state(utterance.shape[1], utterance), past]
        blocks, x = self._blocks(utterance, right_context, state[0], streaming=True)
        masked = self._masked_while_streaming(blocks, lengths, state[3])
        attended, memories, key, value = self.attention.attend(blocks, masked, (state[1], state[2]))
        utterance, right_context, cache = self._finish(attended, x, len(right_context), state[4])
        return utterance, right_context, [*self._next_state(state, key, value, mems), cache], memories


class ConvEmformer(_EmformerImpl):
    """Emformer with convolutions: `forward` for whole utterances, `infer` for streams, as of `Emformer`.

    Args:
        input_dim: channels.
        num_heads: heads of each layer.
        ffn_dim: channels inside the feed-forward halves.
        num_layers: layers.
        segment_length: frames of a segment.
        kernel_size: taps of the convolutions.
        dropout: probability throughout.
        ffn_activation: of the feed-forward halves: "relu", "gelu" or "silu".
        left_context_length: frames before a segment that it sees.
        right_context_length: frames behind a segment that it sees.
        max_memory_size: summaries of earlier segments that a segment sees.
        weight_init_scale_strategy: "depthwise" (smaller in deeper layers), "constant", or None for no scaling.
        tanh_on_mem: squash summaries by tanh instead of clamping them to [-10, 10].
        negative_inf: what is added to scores that do not count.
        conv_activation: of the convolutions: "relu", "gelu" or "silu".
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        ffn_dim: int,
        num_layers: int,
        segment_length: int,
        kernel_size: int,
        dropout: float = 0.0,
        ffn_activation: str = "relu",
        left_context_length: int = 0,
        right_context_length: int = 0,
        max_memory_size: int = 0,
        weight_init_scale_strategy: str | None = "depthwise",
        tanh_on_mem: bool = False,
        negative_inf: float = -1e8,
        conv_activation: str = "silu",
    ) -> None:
        layers = [
            _ConvEmformerLayer(
                input_dim,
                num_heads,
                ffn_dim,
                segment_length,
                kernel_size,
                dropout=dropout,
                ffn_activation=ffn_activation,
                left_context_length=left_context_length,
                right_context_length=right_context_length,
                max_memory_size=max_memory_size,
                weight_init_gain=gain,
                tanh_on_mem=tanh_on_mem,
                negative_inf=negative_inf,
                conv_activation=conv_activation,
            )
            for gain in _get_weight_init_gains(weight_init_scale_strategy, num_layers)
        ]
        super().__init__(
            nn.ModuleList(layers), segment_length, left_context_length, right_context_length, max_memory_size
        )

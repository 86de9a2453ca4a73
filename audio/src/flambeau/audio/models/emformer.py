"""Emformer: a transformer over segments with cached left context and a memory bank (Shi et al. 2021, arXiv:2010.10759).

Inside, tensors are (time, batch, channels). Queries are laid out as [right contexts, utterance, summaries], keys as
[memories, right contexts, utterance]; while streaming, cached keys stand before those of the utterance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._attention import padding_mask

__all__ = ["Emformer"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


def _get_activation_module(activation: str) -> nn.Module:
    """A non-linearity by name.

    Raises:
        ValueError: the name is unknown.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"Unsupported activation {activation!r}, expected one of {', '.join(_ACTIVATIONS)}.")
    return _ACTIVATIONS[activation]()


def _get_weight_init_gains(weight_init_scale_strategy: str | None, num_layers: int) -> list[float | None]:
    """The gain of each layer's attention at initialization.

    Raises:
        ValueError: the strategy is unknown.
    """
    if weight_init_scale_strategy is None:
        return [None] * num_layers
    if weight_init_scale_strategy == "depthwise":
        return [1.0 / math.sqrt(layer + 1) for layer in range(num_layers)]
    if weight_init_scale_strategy == "constant":
        return [1.0 / math.sqrt(2)] * num_layers
    raise ValueError(
        f"Unsupported weight_init_scale_strategy {weight_init_scale_strategy!r}, expected 'depthwise', 'constant' "
        "or None."
    )


class _Blocks(NamedTuple):
    """What one layer attends over; each (length, batch, channels), lengths may be 0."""

    memories: Tensor
    right_context: Tensor
    utterance: Tensor
    summary: Tensor


class _EmformerAttention(nn.Module):
    """Attention of right contexts, utterance and summaries over memories, right contexts and utterance.

    Args:
        input_dim: channels, a multiple of `num_heads`.
        num_heads: heads.
        dropout: probability on attention weights.
        weight_init_gain: gain of the projections of queries, keys and values; None leaves torch's initialization.
        tanh_on_mem: squash new memories by tanh instead of clamping them to [-10, 10].
        negative_inf: what is added to scores that do not count.
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        weight_init_gain: float | None = None,
        tanh_on_mem: bool = False,
        negative_inf: float = -1e8,
    ) -> None:
        super().__init__()
        if input_dim % num_heads:
            raise ValueError(f"input_dim is {input_dim}, expected a multiple of num_heads, which is {num_heads}.")
        self.input_dim, self.num_heads, self.dropout = input_dim, num_heads, dropout
        self.tanh_on_mem, self.negative_inf = tanh_on_mem, negative_inf
        self.scaling = (input_dim // num_heads) ** -0.5
        self.emb_to_key_value = nn.Linear(input_dim, 2 * input_dim)
        self.emb_to_query = nn.Linear(input_dim, input_dim)
        self.out_proj = nn.Linear(input_dim, input_dim)
        if weight_init_gain is not None:
            nn.init.xavier_uniform_(self.emb_to_key_value.weight, gain=weight_init_gain)
            nn.init.xavier_uniform_(self.emb_to_query.weight, gain=weight_init_gain)

    def attend(
        self, blocks: _Blocks, masked: Tensor, cached: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, ...]:
        """Attend.

        Args:
            blocks: what asks and what is asked, layer-normed.
            masked: (queries, keys) or (batch, queries, keys) bool, True where a key does not count.
            cached: keys and values of the left context, (left context, batch, channels) each.

        Returns:
            For right contexts and utterance (right + utterance, batch, channels), the new memories (summaries, batch,
            channels), and keys and values of the utterance.
        """
        memories, right_context, utterance, summary = blocks
        query = self.emb_to_query(torch.cat([right_context, utterance, summary]))
        key, value = self.emb_to_key_value(torch.cat([memories, right_context, utterance])).chunk(2, dim=2)
        before = len(memories) + len(right_context)
        new_key, new_value = key[before:], value[before:]
        if cached is not None:
            key = torch.cat([key[:before], cached[0], new_key])
            value = torch.cat([value[:before], cached[1], new_value])
        attended = F.scaled_dot_product_attention(
            self._heads(query),
            self._heads(key),
            self._heads(value),
            attn_mask=self._bias(masked, query.dtype),
            dropout_p=self.dropout if self.training else 0.0,
        )
        output = self.out_proj(attended.permute(2, 0, 1, 3).flatten(2))
        frames = len(right_context) + len(utterance)
        new_memories = output[frames:]
        new_memories = new_memories.tanh() if self.tanh_on_mem else new_memories.clamp(-10, 10)
        return output[:frames], new_memories, new_key, new_value

    def _heads(self, x: Tensor) -> Tensor:
        """(length, batch, channels) -> (batch, heads, length, channels / heads)."""
        return x.unflatten(2, (self.num_heads, -1)).permute(1, 2, 0, 3)  # type: ignore[no-any-return]

    def _bias(self, masked: Tensor, dtype: torch.dtype) -> Tensor:
        # Finite, so that a row that nothing counts for (padding behind padding) gives numbers and not NaN.
        value = max(self.negative_inf, torch.finfo(dtype).min)
        bias = torch.zeros(masked.shape, dtype=dtype, device=masked.device).masked_fill(masked, value)
        return bias if bias.ndim == 2 else bias.unsqueeze(1)


class _StreamingLayer(nn.Module):
    """What layers of Emformer and of its variants share: the state between segments.

    A state is [memories (max_memory_size, batch, channels), keys and values of the left context (left_context_length,
    batch, channels), frames seen so far (1, batch)]. Slots that are not filled yet are masked, so that shapes never
    change and nothing waits for a device.
    """

    attention: _EmformerAttention
    segment_length: int
    left_context_length: int
    max_memory_size: int
    input_dim: int

    def _init_state(self, batch_size: int, like: Tensor) -> list[Tensor]:
        memories = like.new_zeros(self.max_memory_size, batch_size, self.input_dim)
        context = like.new_zeros(self.left_context_length, batch_size, self.input_dim)
        past_length = torch.zeros(1, batch_size, dtype=torch.int32, device=like.device)
        return [memories, context, context.clone(), past_length]

    def _next_state(self, state: list[Tensor], key: Tensor, value: Tensor, memories: Tensor) -> list[Tensor]:
        context = (torch.cat([old, new]) for old, new in zip(state[1:3], (key, value), strict=True))
        kept = [new[len(new) - self.left_context_length :] for new in context]
        bank = torch.cat([state[0], memories])
        return [bank[len(bank) - self.max_memory_size :], *kept, state[3] + len(key)]

    def _masked_while_streaming(self, blocks: _Blocks, lengths: Tensor, past_length: Tensor) -> Tensor:
        """(batch, queries, keys): slots without content, padding, and memories for the summary."""
        past = past_length[0].long()[:, None]
        segments = torch.div(past + self.segment_length - 1, self.segment_length, rounding_mode="floor")
        device = lengths.device
        free_slots = torch.arange(self.max_memory_size, device=device) < self.max_memory_size - segments
        free_context = torch.arange(self.left_context_length, device=device) < self.left_context_length - past
        padding = padding_mask(lengths, len(blocks.utterance))
        right = padding.new_zeros(len(lengths), len(blocks.right_context))
        keys = torch.cat([free_slots, right, free_context, padding], dim=1)
        queries = len(blocks.right_context) + len(blocks.utterance) + len(blocks.summary)
        masked = keys[:, None, :].expand(-1, queries, -1)
        if len(blocks.summary):
            # A summary is of its segment alone; it does not ask the memories.
            is_memory = torch.arange(keys.shape[1], device=device) < self.max_memory_size
            is_summary = torch.arange(queries, device=device) == queries - 1
            masked = masked | (is_summary[:, None] & is_memory)
        return masked


class _EmformerLayer(_StreamingLayer):
    """Attention and feed-forward with layer norms around."""

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        ffn_dim: int,
        segment_length: int,
        dropout: float = 0.0,
        activation: str = "relu",
        left_context_length: int = 0,
        max_memory_size: int = 0,
        weight_init_gain: float | None = None,
        tanh_on_mem: bool = False,
        negative_inf: float = -1e8,
    ) -> None:
        super().__init__()
        self.attention = _EmformerAttention(
            input_dim, num_heads, dropout, weight_init_gain, tanh_on_mem=tanh_on_mem, negative_inf=negative_inf
        )
        self.dropout = nn.Dropout(dropout)
        self.memory_op = nn.AvgPool1d(segment_length, stride=segment_length, ceil_mode=True)
        self.pos_ff = nn.Sequential(
            nn.LayerNorm(input_dim),
            nn.Linear(input_dim, ffn_dim),
            _get_activation_module(activation),
            nn.Dropout(dropout),
            nn.Linear(ffn_dim, input_dim),
            nn.Dropout(dropout),
        )
        self.layer_norm_input = nn.LayerNorm(input_dim)
        self.layer_norm_output = nn.LayerNorm(input_dim)
        self.left_context_length = left_context_length
        self.segment_length = segment_length
        self.max_memory_size = max_memory_size
        self.input_dim = input_dim
        self.use_mem = max_memory_size > 0

    def _blocks(self, utterance: Tensor, right_context: Tensor, memories: Tensor, streaming: bool) -> _Blocks:
        normed = self.layer_norm_input(torch.cat([right_context, utterance]))
        right, left = normed.split([len(right_context), len(utterance)])
        summary = _pooled(self.memory_op, left) if self.use_mem else left[:0]
        return _Blocks(memories, right, left, summary[:1] if streaming else summary)

    def _finish(self, attended: Tensor, utterance: Tensor, right_context: Tensor) -> tuple[Tensor, Tensor]:
        x = self.dropout(attended) + torch.cat([right_context, utterance])
        x = self.layer_norm_output(x + self.pos_ff(x))
        return x[len(right_context) :], x[: len(right_context)]

    def forward(
        self, utterance: Tensor, lengths: Tensor, right_context: Tensor, mems: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All segments at once.

        Args:
            utterance: (time, batch, channels).
            lengths: (batch,) valid frames of the utterance.
            right_context: (right context of all segments, batch, channels).
            mems: (segments - 1, batch, channels), empty without memory.
            attention_mask: (queries, keys) bool, True where a key does not count.

        Returns:
            Utterance, right contexts and memories for the next layer.
        """
        blocks = self._blocks(utterance, right_context, mems, streaming=False)
        attended, memories, _, _ = self.attention.attend(blocks, _with_padding(attention_mask, blocks, lengths))
        return (*self._finish(attended, utterance, right_context), memories[:-1])

    def infer(
        self, utterance: Tensor, lengths: Tensor, right_context: Tensor, state: list[Tensor] | None, mems: Tensor
    ) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
        """One segment.

        Args:
            utterance: (segment, batch, channels).
            lengths: (batch,) valid frames of the utterance.
            right_context: (right context, batch, channels).
            state: what the segment before left, None for the first.
            mems: (memories, batch, channels) of this segment from the layer below.

        Returns:
            Utterance, right context, the next state, and memories for the next layer.
        """
        if state is None:
            state = self._init_state(utterance.shape[1], utterance)
        blocks = self._blocks(utterance, right_context, state[0], streaming=True)
        masked = self._masked_while_streaming(blocks, lengths, state[3])
        attended, memories, key, value = self.attention.attend(blocks, masked, (state[1], state[2]))
        state = self._next_state(state, key, value, mems)
        return (*self._finish(attended, utterance, right_context), state, memories)


def _pooled(pool: nn.Module, x: Tensor) -> Tensor:
    """(time, batch, channels) -> (segments, batch, channels)."""
    return pool(x.permute(1, 2, 0)).permute(2, 0, 1)  # type: ignore[no-any-return]


def _with_padding(attention_mask: Tensor, blocks: _Blocks, lengths: Tensor) -> Tensor:
    """(batch, queries, keys) bool, True where a key does not count."""
    before = len(blocks.memories) + len(blocks.right_context)
    padding = padding_mask(lengths + before, before + len(blocks.utterance))
    return attention_mask | padding[:, None, :]


class _EmformerImpl(nn.Module):
    """Cut an utterance into segments with right contexts and run a stack of layers over them."""

    def __init__(
        self,
        emformer_layers: nn.ModuleList,
        segment_length: int,
        left_context_length: int = 0,
        right_context_length: int = 0,
        max_memory_size: int = 0,
    ) -> None:
        super().__init__()
        self.use_mem = max_memory_size > 0
        self.memory_op = nn.AvgPool1d(segment_length, stride=segment_length, ceil_mode=True)
        self.emformer_layers = emformer_layers
        self.left_context_length = left_context_length
        self.right_context_length = right_context_length
        self.segment_length = segment_length
        self.max_memory_size = max_memory_size

    def _gen_right_context(self, input: Tensor) -> Tensor:
        """(segments x right context, batch, channels): what lies behind each segment, the end behind the last."""
        right, segment = self.right_context_length, self.segment_length
        utterance = len(input) - right
        starts = [*range(segment, utterance, segment), utterance]
        return torch.cat([input[start : start + right] for start in starts])

    def _gen_attention_mask(self, utterance_length: int, device: torch.device) -> Tensor:
        """(queries, keys) bool, True where a key does not count (section 3.1, figure 1).

        A frame and a right context ask the memories of earlier segments, their own right context, and their segment
        with its left context; a summary asks the latter two.
        """
        segment, right = self.segment_length, self.right_context_length
        count = -(-utterance_length // segment)
        segments = torch.arange(count, device=device)
        frames = torch.arange(utterance_length, device=device)
        of_right = segments.repeat_interleave(right)
        of_query = torch.cat([of_right, frames // segment, *([segments] if self.use_mem else [])])[:, None]
        sees_right = of_query == of_right
        sees_frame = (frames >= of_query * segment - self.left_context_length) & (frames < (of_query + 1) * segment)
        parts = [sees_right, sees_frame]
        if self.use_mem:
            memories = segments[: count - 1]
            sees_memory = (memories < of_query) & (memories >= of_query - self.max_memory_size)
            is_summary = torch.arange(len(of_query), device=device)[:, None] >= len(of_query) - count
            parts.insert(0, sees_memory & ~is_summary)
        return ~torch.cat(parts, dim=1)

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode whole utterances, segment by segment as far as attention goes.

        Args:
            input: (batch, time + right_context_length, input_dim): the utterance, and what follows it (zeros will do).
            lengths: (batch,) valid frames of each utterance, right context not counted.

        Returns:
            (batch, time, input_dim), and `lengths`.

        Raises:
            ValueError: the input holds nothing beyond a right context.
        """
        return self.layer_outputs(input, lengths)[-1], lengths

    def layer_outputs(self, input: Tensor, lengths: Tensor, num_layers: int | None = None) -> list[Tensor]:
        """What each of the first `num_layers` layers gives, (batch, time, input_dim) each; None takes all layers.

        Args:
            input: as of `forward`.
            lengths: as of `forward`.
            num_layers: how many layers to compute.

        Raises:
            ValueError: the input holds nothing beyond a right context.
        """
        if input.shape[1] <= self.right_context_length:
            raise ValueError(
                f"The input has {input.shape[1]} frames, expected more than right_context_length, which is "
                f"{self.right_context_length}: pad it by that many."
            )
        x = input.permute(1, 0, 2)
        right_context = self._gen_right_context(x)
        output = x[: len(x) - self.right_context_length]
        mask = self._gen_attention_mask(len(output), input.device)
        memories = _pooled(self.memory_op, output)[:-1] if self.use_mem else output[:0]
        outputs = []
        for layer in list(self.emformer_layers)[:num_layers]:
            output, right_context, memories = layer(output, lengths, right_context, memories, mask)
            outputs.append(output.permute(1, 0, 2))
        return outputs

    def infer(
        self, input: Tensor, lengths: Tensor, states: list[list[Tensor]] | None = None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """Encode one segment of a stream.

        Args:
            input: (batch, segment_length + right_context_length, input_dim).
            lengths: (batch,) valid frames of each item, right context counted.
            states: one list of tensors per layer, as the call before gave them; None for the first segment.

        Returns:
            (batch, segment_length, input_dim), (batch,) valid frames of it, and the states for the next call.

        Raises:
            ValueError: the input has another number of frames.
        """
        expected = self.segment_length + self.right_context_length
        if input.shape[1] != expected:
            raise ValueError(
                f"The input has {input.shape[1]} frames, expected {expected}: segment_length ({self.segment_length}) "
                f"and right_context_length ({self.right_context_length}) together; pad the last segment with zeros."
            )
        output, right_context = input.permute(1, 0, 2).split([self.segment_length, self.right_context_length])
        lengths = (lengths - self.right_context_length).clamp(min=0)
        memories = _pooled(self.memory_op, output) if self.use_mem else output[:0]
        new_states = []
        for index, layer in enumerate(self.emformer_layers):
            state = None if states is None else states[index]
            output, right_context, state, memories = layer.infer(output, lengths, right_context, state, memories)  # type: ignore[operator]
            new_states.append(state)
        return output.permute(1, 0, 2), lengths, new_states


class Emformer(_EmformerImpl):
    """The encoder of streaming recognisers (arXiv:2010.10759).

    Args:
        input_dim: channels.
        num_heads: heads of each layer.
        ffn_dim: channels inside the feed-forward halves.
        num_layers: layers.
        segment_length: frames of a segment.
        dropout: probability throughout.
        activation: of the feed-forward halves: "relu", "gelu" or "silu".
        left_context_length: frames before a segment that it sees.
        right_context_length: frames behind a segment that it sees.
        max_memory_size: summaries of earlier segments that a segment sees.
        weight_init_scale_strategy: "depthwise" (smaller in deeper layers), "constant", or None for no scaling.
        tanh_on_mem: squash summaries by tanh instead of clamping them to [-10, 10].
        negative_inf: what is added to scores that do not count.
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        ffn_dim: int,
        num_layers: int,
        segment_length: int,
        dropout: float = 0.0,
        activation: str = "relu",
        left_context_length: int = 0,
        right_context_length: int = 0,
        max_memory_size: int = 0,
        weight_init_scale_strategy: str | None = "depthwise",
        tanh_on_mem: bool = False,
        negative_inf: float = -1e8,
    ) -> None:
        layers = [
            _EmformerLayer(
                input_dim,
                num_heads,
                ffn_dim,
                segment_length,
                dropout=dropout,
                activation=activation,
                left_context_length=left_context_length,
                max_memory_size=max_memory_size,
                weight_init_gain=gain,
                tanh_on_mem=tanh_on_mem,
                negative_inf=negative_inf,
            )
            for gain in _get_weight_init_gains(weight_init_scale_strategy, num_layers)
        ]
        super().__init__(
            nn.ModuleList(layers), segment_length, left_context_length, right_context_length, max_memory_size
        )

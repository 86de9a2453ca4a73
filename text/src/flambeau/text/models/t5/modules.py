"""The encoder and the decoder of T5, as stacks of layers whose attention weights are computed when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from flambeau.text.models.t5.layers import PAST_KEY_VALUE_TYPE, T5Layer, T5LayerNorm, T5MultiheadAttention, Weights

if TYPE_CHECKING:
    from flambeau.text.models.t5.model import T5Conf

__all__ = [
    "PAST_KEY_VALUES_TYPE",
    "SEQ_2_SEQ_OUTPUTS_TYPE",
    "T5Decoder",
    "T5Encoder",
    "T5Layer",
    "T5LayerNorm",
    "T5MultiheadAttention",
]

PAST_KEY_VALUES_TYPE = list[PAST_KEY_VALUE_TYPE]
SEQ_2_SEQ_OUTPUTS_TYPE = dict[str, Any]


class Scores(Sequence[Any]):
    """Attention weights of the layers, each (N, heads, length, keys), computed when they are read.

    Nobody who does not look at them pays for them: the model itself attends without making them.
    """

    def __init__(self, weights: Sequence[Weights | None]) -> None:
        self._weights = list(weights)
        self._found: dict[int, Tensor | None] = {}

    def __len__(self) -> int:
        return len(self._weights)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place not in self._found:
            weights = self._weights[place]
            self._found[place] = None if weights is None else weights()
        return self._found[place]


class _Stack(nn.Module):
    """Layers, the embedding that they share with the rest, and a last normalization."""

    def __init__(
        self, config: T5Conf, count: int, is_decoder: bool, token_embeddings: nn.Embedding | None = None
    ) -> None:
        super().__init__()
        if token_embeddings is not None:  # first, as in the order of published states
            self.token_embeddings = token_embeddings
        self.layers = nn.ModuleList(
            T5Layer(
                d_model=config.embedding_dim,
                nhead=config.num_attention_heads,
                is_decoder=is_decoder,
                dim_feedforward=config.ffn_dimension,
                qkv_dim=config.qkv_dim,
                dropout=config.dropout if config.training else 0.0,
                activation=config.activation,
                is_gated_act=config.is_gated_act,
                layer_norm_eps=config.layer_norm_eps,
                relative_attention_num_buckets=config.relative_attention_num_buckets,
                relative_attention_max_distance=config.relative_attention_max_distance,
                compute_relative_attention_bias=index == 0,
            )
            for index in range(count)
        )
        self.norm = T5LayerNorm(config.embedding_dim, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout if config.training else 0.0)

    def run(
        self,
        x: Tensor,
        mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        past: Sequence[Any] | None = None,
    ) -> dict[str, Any]:
        before = past[0][0].shape[2] if past is not None else 0
        first: Any = self.layers[0]
        positions = first.self_attn.position_bias(x.shape[1], before + x.shape[1], x.device)
        bias = positions if mask is None else positions + mask
        states, own, cross, present = [], [], [], []
        x = self.dropout(x)
        for index, layer in enumerate(self.layers):
            states.append(x)
            x, weights, cross_weights, kept = layer(
                x, bias, memory=memory, memory_bias=memory_mask, past=None if past is None else past[index]
            )
            own.append(weights)
            cross.append(cross_weights)
            present.append(kept)
        x = self.dropout(self.norm(x))
        traced = torch.compiler.is_compiling() or torch.compiler.is_exporting()
        return {
            "output": x,
            "hidden_states": [*states, x],
            "position_bias": positions,
            # A graph gives tensors alone.
            "sa_scores": None if traced else Scores(own),
            "ca_scores": None if traced else Scores(cross),
            "past_key_values": present,
        }


class T5Encoder(_Stack):
    """The encoder's layers; `token_embeddings` is the model's own.

    Args:
        config: the sizes.
        token_embeddings: shared with the decoder.
    """

    def __init__(self, config: T5Conf, token_embeddings: nn.Embedding) -> None:
        super().__init__(config, config.num_encoder_layers, is_decoder=False, token_embeddings=token_embeddings)

    def forward(
        self,
        src: Tensor | None = None,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        embedded_src: Tensor | None = None,
    ) -> SEQ_2_SEQ_OUTPUTS_TYPE:
        """Encode tokens.

        Args:
            src: (N, M), integers.
            mask: (M, M), True where a key is hidden, or floats that are added.
            src_key_padding_mask: (N, M), True at padding. Upstream: nothing is padding if not given, whatever the
                tokens are; the model itself says where it is.
            embedded_src: (N, M, embedding_dim), in place of `src`.

        Returns:
            A dict of `encoder_output`, `encoder_hidden_states`, `encoder_position_bias` and `encoder_sa_scores`, as
            `T5Model.forward` describes them.

        Raises:
            AssertionError: there is neither `src` nor `embedded_src`; upstream's type of error.
        """
        if embedded_src is None:
            if src is None:
                raise AssertionError("give src, tokens (N, M), or embedded_src, their vectors (N, M, embedding_dim).")
            embedded_src = self.token_embeddings(src)
        found = self.run(embedded_src, combined_mask(mask, src_key_padding_mask, embedded_src.dtype))
        return {f"encoder_{name}": found[name] for name in found if name not in ("ca_scores", "past_key_values")}


class T5Decoder(_Stack):
    """The decoder's layers.

    Args:
        config: the sizes.
    """

    def __init__(self, config: T5Conf) -> None:
        super().__init__(config, config.num_decoder_layers, is_decoder=True)

    def forward(
        self,
        embedded_tgt: Tensor,
        memory: Tensor | None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        past_key_values: Sequence[Any] | None = None,
        return_past_key_values: bool = False,
    ) -> SEQ_2_SEQ_OUTPUTS_TYPE:
        """Decode embedded tokens.

        Args:
            embedded_tgt: (N, T, embedding_dim).
            memory: (N, M, embedding_dim), the encoder's output; not read where `past_key_values` has it.
            tgt_mask: (T, T), True where a key is hidden, or floats that are added; no key after the query is seen if
                not given.
            memory_mask: (T, M), likewise, for cross-attention.
            tgt_key_padding_mask: (N, T), True at padding.
            memory_key_padding_mask: (N, M), likewise.
            past_key_values: of an earlier call: `embedded_tgt` is what follows.
            return_past_key_values: give them.

        Returns:
            A dict of `decoder_output`, `decoder_hidden_states`, `decoder_position_bias`, `decoder_sa_scores`,
            `decoder_ca_scores` and `past_key_values`, as `T5Model.forward` describes them.
        """
        dtype, length = embedded_tgt.dtype, embedded_tgt.shape[1]
        if tgt_mask is None and length > 1:
            before = past_key_values[0][0].shape[2] if past_key_values is not None else 0
            whole = torch.ones(length, before + length, dtype=torch.bool, device=embedded_tgt.device)
            tgt_mask = whole.triu(before + 1)
        found = self.run(
            embedded_tgt,
            combined_mask(tgt_mask, tgt_key_padding_mask, dtype),
            memory,
            combined_mask(memory_mask, memory_key_padding_mask, dtype),
            past_key_values,
        )
        past = found.pop("past_key_values")
        outputs = {f"decoder_{name}": value for name, value in found.items()}
        return {**outputs, "past_key_values": past if return_past_key_values else None}


def combined_mask(mask: Tensor | None, padding: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """What is added to scores (N or 1, 1, T or 1, M): -inf where a key is hidden.

    Args:
        mask: (T, M), True where a key is hidden, or floats.
        padding: (N, M), True at padding, or floats.
        dtype: of the scores.
    """
    parts = []
    for part, shape in ((mask, (None, None)), (padding, (slice(None), None, None))):
        if part is None:
            continue
        if part.dtype == torch.bool:
            part = torch.zeros_like(part, dtype=dtype).masked_fill(part, torch.finfo(dtype).min)
        parts.append(part.to(dtype)[shape])
    if not parts:
        return None
    # The smallest number, and not -inf: a row whose keys are all hidden must not become NaN.
    return parts[0] if len(parts) == 1 else (parts[0] + parts[1]).clamp_min(torch.finfo(dtype).min)

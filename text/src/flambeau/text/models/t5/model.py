"""T5 as one model: an encoder, a decoder, and a head for the next token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.text.models.t5.layers import TokenScores
from flambeau.text.models.t5.modules import (
    PAST_KEY_VALUES_TYPE,
    SEQ_2_SEQ_OUTPUTS_TYPE,
    T5Decoder,
    T5Encoder,
)

__all__ = ["PAST_KEY_VALUES_TYPE", "SEQ_2_SEQ_OUTPUTS_TYPE", "T5Conf", "T5Decoder", "T5Encoder", "T5Model"]


@dataclass
class T5Conf:
    """The sizes of a model; the defaults are T5 base.

    Args:
        encoder_only: no decoder.
        linear_head: scores of the next token, from the decoder's output.
        embedding_dim: width.
        qkv_dim: width of each attention head.
        num_attention_heads: of each attention.
        num_encoder_layers, num_decoder_layers: how many layers.
        ffn_dimension: inner width of the feed-forward networks.
        dropout: everywhere, if `training`.
        activation: "relu", "gelu", "gelu_new" or a function.
        layer_norm_eps: of the normalizations.
        relative_attention_num_buckets, relative_attention_max_distance: of the positions' biases.
        padding_idx: the token of padding.
        max_seq_len: of the texts that it was trained on.
        vocab_size: how many tokens there are.
        training: False keeps dropout at 0 even in `train()`, as upstream.
        feed_forward_proj: "relu", "gelu" or "gated-gelu", which sets the two next ones.
        is_gated_act: the feed-forward network's input gates it.

    Raises:
        ValueError: `feed_forward_proj` is none of these forms.
    """

    encoder_only: bool = False
    linear_head: bool = False
    embedding_dim: int = 768
    qkv_dim: int = 64
    num_attention_heads: int = 12
    num_encoder_layers: int = 12
    num_decoder_layers: int = 12
    ffn_dimension: int = 3072
    dropout: float = 0.1
    activation: str | Callable[[Tensor], Tensor] = "relu"
    layer_norm_eps: float = 1e-6
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    padding_idx: int = 0
    max_seq_len: int = 512
    vocab_size: int = 32128
    training: bool = False
    feed_forward_proj: str | None = None
    is_gated_act: bool = False

    def __post_init__(self) -> None:
        if not self.feed_forward_proj:
            return
        parts = self.feed_forward_proj.split("-")
        if len(parts) > 2 or (len(parts) == 2 and parts[0] != "gated"):
            raise ValueError(
                f"feed_forward_proj is {self.feed_forward_proj!r}, expected an activation such as 'relu', or "
                "'gated-' and one, such as 'gated-gelu'."
            )
        self.activation, self.is_gated_act = parts[-1], len(parts) == 2
        if self.feed_forward_proj == "gated-gelu":
            self.activation = "gelu_new"


class T5Model(nn.Module):
    """T5: texts in, features, or scores of what comes next, out.

    Args:
        config: the sizes.
        freeze: no parameter gets a gradient.
        device: of the parameters.
        dtype: of the parameters; also an attribute, None if not given.

    Raises:
        AssertionError: `config` is something else; upstream's type of error.

    Example:
        >>> small = T5Conf(embedding_dim=32, qkv_dim=8, num_attention_heads=4, num_encoder_layers=2)
        >>> T5Model(small)(torch.tensor([[5, 6, 1]]), torch.tensor([[0, 7]]))["decoder_output"].shape
        torch.Size([1, 2, 32])
    """

    def __init__(
        self,
        config: T5Conf,
        freeze: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(config, T5Conf):
            raise AssertionError(f"config is a {type(config).__name__}, expected a T5Conf.")
        self.config = config
        self.embedding_dim, self.encoder_only, self.linear_head = (
            config.embedding_dim, config.encoder_only, config.linear_head
        )  # fmt: skip
        self.padding_idx = config.padding_idx
        self.token_embeddings = nn.Embedding(config.vocab_size, config.embedding_dim, config.padding_idx)
        self.encoder = T5Encoder(config, self.token_embeddings)
        self.decoder = None if config.encoder_only else T5Decoder(config)
        self.lm_head = TokenScores(config.embedding_dim, config.vocab_size) if config.linear_head else None
        self.dtype = dtype
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)
        if freeze:
            self.requires_grad_(False)

    def get_encoder(self) -> T5Encoder:
        """The encoder."""
        return self.encoder

    def get_decoder(self) -> T5Decoder | None:
        """The decoder, if there is one."""
        return self.decoder

    def forward(
        self,
        encoder_tokens: Tensor | None = None,
        decoder_tokens: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        decoder_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        decoder_padding_mask: Tensor | None = None,
        encoder_outputs: SEQ_2_SEQ_OUTPUTS_TYPE | None = None,
        past_key_values: PAST_KEY_VALUES_TYPE | None = None,
        return_past_key_values: bool = False,
    ) -> SEQ_2_SEQ_OUTPUTS_TYPE:
        """Encode and decode.

        Args:
            encoder_tokens: (N, M), integers.
            decoder_tokens: (N, T), integers; one token of padding if not given.
            encoder_mask: (M, M), True where a key is hidden, or floats that are added; for cross-attention (T, M) too.
            decoder_mask: (T, T), likewise; no key after the query is seen if not given.
            encoder_padding_mask: (N, M), True at padding; where the tokens are padding if not given.
            decoder_padding_mask: (N, T), likewise, but the first token is always seen.
            encoder_outputs: of an earlier call, in place of `encoder_tokens`.
            past_key_values: of an earlier call: the decoder's tokens are what follows.
            return_past_key_values: give them.

        Returns:
            A dict. `encoder_output`, `decoder_output` (N, length, embedding_dim or, with a head, vocab_size);
            `*_hidden_states`, before each layer and at the end; `*_position_bias` (1, heads, length, keys);
            `*_sa_scores` and `*_ca_scores`, attention weights of each layer, computed when they are read;
            `past_key_values`. What there is not is None.

        Raises:
            AssertionError: there are neither tokens nor encoder outputs; upstream's type of error.
        """
        outputs: SEQ_2_SEQ_OUTPUTS_TYPE = dict.fromkeys(_KEYS)
        if encoder_outputs is None:
            if encoder_tokens is None:
                raise AssertionError("give encoder_tokens, or encoder_outputs of an earlier call.")
            if encoder_padding_mask is None:
                encoder_padding_mask = encoder_tokens.eq(self.padding_idx)
            encoder_outputs = self.encoder(encoder_tokens, encoder_mask, encoder_padding_mask)
        outputs.update(encoder_outputs)
        if self.decoder is None:
            return outputs
        memory = outputs["encoder_output"]
        if encoder_padding_mask is None and encoder_tokens is not None:
            encoder_padding_mask = encoder_tokens.eq(self.padding_idx)
        if decoder_tokens is None:
            decoder_tokens = torch.full((memory.shape[0], 1), self.padding_idx, device=memory.device)
        embedded = self.token_embeddings(decoder_tokens)
        if decoder_padding_mask is None and past_key_values is None:
            decoder_padding_mask = self._decoder_padding(decoder_tokens)
        decoded = self.decoder(
            embedded,
            memory,
            decoder_mask,
            encoder_mask,
            decoder_padding_mask,
            encoder_padding_mask,
            past_key_values,
            return_past_key_values,
        )
        if self.lm_head is not None:
            # The embedding is shared with the head, whose scores are scaled for it.
            decoded["decoder_output"] = self.lm_head(decoded["decoder_output"] * self.embedding_dim**-0.5)
        outputs.update(decoded)
        return outputs

    def _decoder_padding(self, tokens: Tensor) -> Tensor:
        """True at padding; the first token is padding, and what everything begins with."""
        padding = tokens.eq(self.padding_idx)
        return torch.cat([torch.zeros_like(padding[:, :1]), padding[:, 1:]], 1)

    # --- generation

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        encoder_outputs: SEQ_2_SEQ_OUTPUTS_TYPE | None = None,
        encoder_padding_mask: Tensor | None = None,
        past: PAST_KEY_VALUES_TYPE | None = None,
        return_past_key_values: bool = True,
        model_kwargs: dict[str, Any] | None = None,
        *,
        past_key_values: PAST_KEY_VALUES_TYPE | None = None,
    ) -> dict[str, Any]:
        """The arguments of `forward` for the next token.

        Args:
            input_ids: (N, T), what there is already.
            encoder_outputs: of the encoder.
            encoder_padding_mask: (N, M), True at padding; for cross-attention.
            past: keys and values of the call before: only the last token is new then.
            return_past_key_values: ask for those of this call.
            model_kwargs: accepted, as upstream's.
            past_key_values: another name of `past`.
        """
        past_key_values = past if past_key_values is None else past_key_values
        return {
            "decoder_tokens": input_ids if past_key_values is None else input_ids[:, -1:],
            "encoder_outputs": encoder_outputs,
            "encoder_padding_mask": encoder_padding_mask,
            "decoder_padding_mask": self._decoder_padding(input_ids),
            "past_key_values": past_key_values,
            "return_past_key_values": return_past_key_values,
        }

    def _reorder_cache(self, past: PAST_KEY_VALUES_TYPE | None, beam_idx: Tensor) -> PAST_KEY_VALUES_TYPE | None:
        if past is None:
            return None
        return [tuple(part.index_select(0, beam_idx.to(part.device)) for part in layer) for layer in past]  # type: ignore[misc]

    def _shift_right(self, input_ids: Tensor) -> Tensor:
        """Put the token of padding in front, and drop the last."""
        return torch.cat([torch.full_like(input_ids[:, :1], self.padding_idx), input_ids[:, :-1]], 1)


_KEYS = (
    "encoder_output", "encoder_hidden_states", "encoder_sa_scores", "encoder_ca_scores",
    "decoder_output", "decoder_hidden_states", "decoder_sa_scores", "decoder_ca_scores", "past_key_values",
)  # fmt: skip

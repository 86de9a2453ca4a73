"""The encoder of RoBERTa: BERT's Transformer with learned positions that begin after the padding index.

Liu et al. 2019, arXiv:1907.11692; Devlin et al. 2018, arXiv:1810.04805. State names are those of published checkpoints;
`_legacy.py` renames the older ones while a state is loaded.

Padding costs next to nothing: where a batch has some, the layers run on the real tokens alone, gathered once at the
beginning and put back once at the end (`models/_packed.py`). Rows of padding are 0 then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.text.models._packed import Places, Plan, attend, attention_mask, is_traced, plan
from flambeau.text.models.roberta._legacy import rename_encoder_layers, rename_single_layer

__all__ = ["PositionalEmbedding", "TransformerEncoder", "TransformerEncoderLayer"]


class PositionalEmbedding(nn.Module):
    """Learned embeddings of positions, counted over the tokens that are no padding.

    Args:
        num_embeddings: rows of the table; `num_embeddings - pad_index - 1` tokens fit.
        embedding_dim: width.
        pad_index: the token of padding, and the row that it gets; the first token gets the next one.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, pad_index: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_embeddings, embedding_dim, pad_index)
        self.pad_index = pad_index

    @property
    def max_length(self) -> int:
        """How many tokens fit."""
        return self.embedding.num_embeddings - self.pad_index - 1

    def positions(self, tokens: Tensor) -> Tensor:
        """Rows of the table for tokens (N, T), int64."""
        return self._make_positions(tokens, self.pad_index)

    def max_positions(self) -> int:
        """As `max_length`, under upstream's name."""
        return self.max_length

    def _make_positions(self, tensor: Tensor, pad_index: int) -> Tensor:
        """As `positions`, for any token of padding; upstream's name."""
        real = tensor.ne(pad_index).long()
        return real.cumsum(1) * real + pad_index

    def forward(self, input: Tensor) -> Tensor:
        """Map tokens (N, T) to (N, T, embedding_dim)."""
        return self.embedding(self.positions(input))  # type: ignore[no-any-return]


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself, on `scaled_dot_product_attention`.

    Args:
        embedding_dim: width.
        num_heads: a divisor of it.
        dropout: of the attention's weights.
    """

    def __init__(self, embedding_dim: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        if embedding_dim % num_heads:
            raise ValueError(f"embedding_dim is {embedding_dim}, expected a multiple of num_heads, {num_heads}.")
        self.num_heads, self.dropout = num_heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embedding_dim, embedding_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embedding_dim))
        self.out_proj = nn.Linear(embedding_dim, embedding_dim)
        nn.init.zeros_(self.out_proj.bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, as `nn.MultiheadAttention` does."""
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.in_proj_bias)

    def forward(self, x: Tensor, mask: Tensor | None, places: Places | None) -> Tensor:
        """Map (N, T, C), or packed (M, C), to the same shape.

        Args:
            x: what is mixed.
            mask: added to the scores (float) or True where a key counts, (N, 1 or heads, 1 or T, T); or None.
            places: where packed rows belong; None for rows that are not packed.
        """
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        dropout = self.dropout if self.training else 0.0
        return self.out_proj(attend(q, k, v, self.num_heads, mask, places, dropout))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each with a residual and a normalization after or before it.

    Args:
        embedding_dim: width.
        num_heads: of the attention.
        ffn_dimension: inner width of the feed-forward network.
        dropout: everywhere.
        norm_first: normalize before, and not after.
    """

    def __init__(
        self, embedding_dim: int, num_heads: int, ffn_dimension: int, dropout: float, norm_first: bool
    ) -> None:
        super().__init__()
        self.self_attn = SelfAttention(embedding_dim, num_heads, dropout)
        self.linear1 = nn.Linear(embedding_dim, ffn_dimension)
        self.linear2 = nn.Linear(ffn_dimension, embedding_dim)
        self.norm1 = nn.LayerNorm(embedding_dim)
        self.norm2 = nn.LayerNorm(embedding_dim)
        self.dropout, self.norm_first = nn.Dropout(dropout), norm_first

    def forward(self, x: Tensor, mask: Tensor | None = None, places: Places | None = None) -> Tensor:
        """Map (N, T, C), or packed (M, C), to the same shape; arguments as `SelfAttention`."""
        if self.norm_first:
            x = x + self.dropout(self.self_attn(self.norm1(x), mask, places))
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + self.dropout(self.self_attn(x, mask, places)))
        return self.norm2(x + self._feed_forward(x))  # type: ignore[no-any-return]

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.linear2(self.dropout(F.gelu(self.linear1(x)))))  # type: ignore[no-any-return]


class TransformerEncoderLayer(nn.Module):
    """One layer by itself, with upstream's layout: sequences first.

    Args:
        embedding_dim: width.
        num_attention_heads: of the attention.
        ffn_dimension: inner width of the feed-forward network; four times the width if not given.
        dropout: everywhere.
        normalize_before: normalize before attention and feed-forward network, and not after.
    """

    def __init__(
        self,
        embedding_dim: int,
        num_attention_heads: int,
        ffn_dimension: int | None = None,
        dropout: float = 0.1,
        normalize_before: bool = False,
    ) -> None:
        super().__init__()
        inner = ffn_dimension or 4 * embedding_dim
        self.better_transformer = EncoderLayer(embedding_dim, num_attention_heads, inner, dropout, normalize_before)

    def forward(self, input: Tensor, key_padding_mask: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Map (T, N, C) to the same shape.

        Args:
            input: the sequences.
            key_padding_mask: (N, T), True at padding.
            attn_mask: (T, T), True where a key is hidden, or floats that are added to the scores.
        """
        mask = attention_mask(~key_padding_mask, attn_mask, input.dtype)
        return self.better_transformer(input.transpose(0, 1), mask).transpose(0, 1)  # type: ignore[no-any-return]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        rename_single_layer(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class LayerStack(nn.Module):
    """Layers under the name that checkpoints have for them."""

    def __init__(self, layers: Sequence[EncoderLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


class TransformerEncoder(nn.Module):
    """Embeddings of tokens and positions, and layers.

    Args:
        vocab_size: rows of the tokens' table.
        embedding_dim: width.
        padding_idx: the token of padding.
        max_seq_len: rows of the positions' table: `max_seq_len - padding_idx - 1` tokens fit.
        num_encoder_layers: how many layers.
        num_attention_heads: of each.
        ffn_dimension: inner width of the feed-forward networks; four times the width if not given.
        dropout: everywhere.
        normalize_before: normalize before attention and feed-forward network, and once after the last layer.
        scaling: accepted, without effect, as upstream.
        return_all_layers: give the states before and after every layer.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        padding_idx: int,
        max_seq_len: int,
        num_encoder_layers: int,
        num_attention_heads: int,
        ffn_dimension: int | None = None,
        dropout: float = 0.1,
        normalize_before: bool = False,
        scaling: float | None = None,
        return_all_layers: bool = False,
    ) -> None:
        super().__init__()
        self.padding_idx = padding_idx
        self.token_embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx)
        inner = ffn_dimension or 4 * embedding_dim
        self.layers = LayerStack(
            [
                EncoderLayer(embedding_dim, num_attention_heads, inner, dropout, normalize_before)
                for _ in range(num_encoder_layers)
            ]
        )
        self.positional_embedding = PositionalEmbedding(max_seq_len, embedding_dim, padding_idx)
        self.embedding_layer_norm = nn.LayerNorm(embedding_dim)
        self.dropout = nn.Dropout(dropout)
        self.normalize_before, self.scaling, self.return_all_layers = normalize_before, scaling, return_all_layers

    def forward(self, tokens: Tensor, attn_mask: Tensor | None = None) -> Tensor | list[Tensor]:
        """Encode tokens.

        Args:
            tokens: (N, T), integers.
            attn_mask: (T, T), True where a key is hidden, or floats that are added to the scores.

        Returns:
            (T, N, C), or with `return_all_layers` a list of 1 + layers of them. At padding the values mean nothing.

        Raises:
            ValueError: a sequence has more tokens than there are positions.
        """
        states = self.encode(tokens, attn_mask, every=self.return_all_layers)
        transposed = [state.transpose(0, 1) for state in states]
        return transposed if self.return_all_layers else transposed[-1]

    def encode(self, tokens: Tensor, attn_mask: Tensor | None = None, *, every: bool = False) -> list[Tensor]:
        """The states (N, T, C): all of them, or the last alone."""
        real = tokens.ne(self.padding_idx)
        self._check_length(tokens, real)
        x = self.token_embedding(tokens) + self.positional_embedding(tokens)
        if not self.normalize_before:
            x = self.embedding_layer_norm(x)
        x = self.dropout(x)
        planned = plan(real, attn_mask, x.dtype)
        x = planned.begin(x)
        states = [x]
        for layer in self.layers.layers:
            x = layer(x, planned.mask, planned.places)
            if every:
                states.append(x)
        if self.normalize_before:
            x = self.embedding_layer_norm(x)
        states = [*states[:-1], x] if every else [x]
        return [planned.end(state) for state in states]

    def padding_plan(self, tokens: Tensor) -> Plan:
        """How a batch of tokens (N, T) would be worked on; for `fast_path_report`."""
        return plan(tokens.ne(self.padding_idx), None, self.token_embedding.weight.dtype)

    def _check_length(self, tokens: Tensor, real: Tensor) -> None:
        room = self.positional_embedding.max_length
        # Sequences within the table cannot be too long, whatever they hold: no value has to be read.
        if tokens.dim() != 2:
            raise ValueError(f"tokens has shape {tuple(tokens.shape)}, expected (N, T).")
        if is_traced() or tokens.shape[1] <= room:
            return
        if (longest := int(real.sum(1).max())) > room:
            raise ValueError(
                f"a sequence has {longest} tokens, at most {room} fit: truncate them (`Truncate({room})`)."
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        rename_encoder_layers(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

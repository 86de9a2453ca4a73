"""Self-attention with gated relative position bias (Chen et al. 2021, arXiv:2110.13900, section 3.1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from flambeau.audio.models._attention import key_mask, projected_self_attention, split_heads

__all__ = ["WavLMSelfAttention"]


class WavLMSelfAttention(nn.Module):
    """Attention whose scores get a bias by relative position, gated by the query.

    Args:
        embed_dim: channels, a multiple of `num_heads`.
        num_heads: heads.
        dropout: probability on attention weights, in training.
        bias: whether the projections have one.
        has_relative_attention_bias: whether this layer holds the embedding; the others get the bias from it.
        num_buckets: buckets of relative positions, half of them for each direction.
        max_distance: frames from which on all positions share a bucket.
        gru_rel_pos: whether the bias is gated.

    Raises:
        ValueError: `embed_dim` is no multiple of `num_heads`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        has_relative_attention_bias: bool = False,
        num_buckets: int = 32,
        max_distance: int = 128,
        gru_rel_pos: bool = True,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim is {embed_dim}, expected a multiple of num_heads, which is {num_heads}.")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.has_relative_attention_bias = has_relative_attention_bias
        self.rel_attn_embed = nn.Embedding(num_buckets, num_heads) if has_relative_attention_bias else None
        self.dropout = dropout
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout, bias=bias, batch_first=True)
        self.gru_rel_pos = gru_rel_pos
        if gru_rel_pos:
            self.gru_rel_pos_linear = nn.Linear(self.head_dim, 8)
            self.gru_rel_pos_const = nn.Parameter(torch.ones(1, num_heads, 1, 1))

    def compute_bias(self, query_length: int, key_length: int) -> Tensor:
        """(heads, query_length, key_length): what each relative position adds to the scores, before the gate.

        Raises:
            RuntimeError: this layer has no embedding.
        """
        if self.rel_attn_embed is None:
            raise RuntimeError(
                "This layer has no position embedding; the first layer of the encoder computes the bias."
            )
        device = self.rel_attn_embed.weight.device
        positions = (
            torch.arange(key_length, device=device)[None, :] - torch.arange(query_length, device=device)[:, None]
        )
        bias: Tensor = self.rel_attn_embed(self._relative_positions_bucket(positions))
        return bias.permute(2, 0, 1)

    def _relative_positions_bucket(self, relative_positions: Tensor) -> Tensor:
        """Near positions have buckets of their own, far ones share them on a logarithmic scale."""
        half = self.num_buckets // 2
        exact = half // 2
        distance = relative_positions.abs()
        scale = (half - exact) / math.log(self.max_distance / exact)
        far = exact + (torch.log(distance.float().clamp(min=1.0) / exact) * scale).long()
        bucket = torch.where(distance < exact, distance, far.clamp(max=half - 1))
        return bucket + (relative_positions > 0) * half

    def forward(
        self,
        query: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            query: (batch, frames, embed_dim).
            attention_mask: bool, True where a key counts; broadcasts to (batch, heads, frames, frames).
            position_bias: (batch or 1, heads, frames, frames) from the layer that holds the embedding.
            key_padding_mask: (batch, frames) bool, True where a frame is padding; an alternative to `attention_mask`.

        Returns:
            (batch, frames, embed_dim), and the position bias for the next layer.
        """
        if position_bias is None and self.rel_attn_embed is not None:
            position_bias = self.compute_bias(query.shape[1], query.shape[1]).unsqueeze(0)
        allowed = attention_mask if attention_mask is not None else key_mask(key_padding_mask)
        scores = position_bias
        if scores is not None and self.gru_rel_pos:
            scores = self._gate(query) * scores
        if scores is None:
            scores = allowed
        elif allowed is not None:
            if allowed.dtype == torch.bool:
                allowed = torch.zeros_like(allowed, dtype=scores.dtype).masked_fill(~allowed, float("-inf"))
            scores = scores + allowed
        if scores is not None and scores.is_floating_point():
            scores = scores.to(query.dtype).expand(len(query), -1, -1, -1)
        return projected_self_attention(self.attention, query, scores), position_bias

    def _gate(self, query: Tensor) -> Tensor:
        """(batch, heads, frames, 1): equations of section 3.1, an update gate and a scaled reset gate."""
        gates = self.gru_rel_pos_linear(split_heads(query, self.num_heads))
        update, reset = gates.unflatten(-1, (2, 4)).sum(-1).sigmoid().chunk(2, dim=-1)
        return update * (reset * self.gru_rel_pos_const - 1.0) + 2.0  # type: ignore[no-any-return]

"""The layers of T5 (Raffel et al. 2019, arXiv:1910.10683), under the state names of published checkpoints.

Pre-norm layers with root-mean-square normalization, no biases, attention that is not scaled by the width, and positions
that enter as a learned bias of the first layer's scores, which all layers share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["PAST_KEY_VALUE_TYPE", "T5Layer", "T5LayerNorm", "T5MultiheadAttention", "TokenScores"]

# Keys and values of self- and cross-attention of one layer, each (N, heads, length, qkv_dim).
PAST_KEY_VALUE_TYPE = tuple[Tensor, Tensor, Tensor, Tensor]
Weights = Callable[[], Tensor]


def gelu_new(x: Tensor) -> Tensor:
    """GELU by its tanh approximation."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "gelu_new": gelu_new}


class T5LayerNorm(nn.Module):
    """Divide by the root of the mean square, computed in float32.

    Args:
        d_model: width.
        eps: added to the mean square.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.variance_epsilon = eps

    def reset_parameters(self) -> None:
        """Ones."""
        nn.init.ones_(self.weight)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Map (..., d_model) to the same shape, in the dtype of the weight if that is a half type."""
        mean_square = hidden_states.float().square().mean(-1, keepdim=True)
        normalized = hidden_states * torch.rsqrt(mean_square + self.variance_epsilon)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            normalized = normalized.to(self.weight.dtype)
        return self.weight * normalized


class TokenScores(nn.Linear):
    """A linear layer without bias to as many outputs as there are tokens, which costs most of a step of generation.

    Args:
        embedding_dim: width.
        vocab_size: how many tokens.
    """

    # Up to so many rows a CPU multiplies the turned matrices two to three times faster: torch's product reads the
    # weights at a fraction of the memory's speed when it has few rows. One row is taken twice for the same reason.
    _FEW = 8

    def __init__(self, embedding_dim: int, vocab_size: int) -> None:
        super().__init__(embedding_dim, vocab_size, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., embedding_dim) to (..., vocab_size)."""
        plain = input.device.type != "cpu" or input.dtype != torch.float32 or torch.is_autocast_enabled("cpu")
        if plain or torch.compiler.is_compiling() or torch.compiler.is_exporting():
            return super().forward(input)
        rows = input.reshape(-1, input.shape[-1])
        if not 0 < len(rows) <= self._FEW:
            return super().forward(input)
        turned = self.weight @ (rows if len(rows) > 1 else rows.repeat(2, 1)).t()
        return turned[:, : len(rows)].t().reshape(*input.shape[:-1], self.out_features)


class T5MultiheadAttention(nn.Module):
    """Attention with a learned bias by distance.

    Args:
        embed_dim: width.
        num_heads: how many heads.
        is_decoder: distances into the future count as 0.
        dropout: of the weights.
        qkv_dim: width of each head.
        compute_relative_attention_bias: own the table of biases, as the first layer does.
        relative_attention_num_buckets: rows of the table.
        relative_attention_max_distance: distances from here on share a row.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        is_decoder: bool = False,
        dropout: float = 0.0,
        qkv_dim: int = 64,
        compute_relative_attention_bias: bool = False,
        relative_attention_num_buckets: int = 32,
        relative_attention_max_distance: int = 128,
    ) -> None:
        super().__init__()
        inner = num_heads * qkv_dim
        self.num_heads, self.qkv_dim, self.is_decoder, self.dropout = num_heads, qkv_dim, is_decoder, dropout
        self.num_buckets, self.max_distance = relative_attention_num_buckets, relative_attention_max_distance
        self.q_proj_weight = nn.Parameter(torch.empty(inner, embed_dim))
        self.k_proj_weight = nn.Parameter(torch.empty(inner, embed_dim))
        self.v_proj_weight = nn.Parameter(torch.empty(inner, embed_dim))
        self.out_proj = nn.Linear(inner, embed_dim, bias=False)
        self.relative_attention_bias = (
            nn.Embedding(relative_attention_num_buckets, num_heads) if compute_relative_attention_bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new projections."""
        for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            nn.init.xavier_uniform_(weight)

    def _heads(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(x, weight).unflatten(-1, (self.num_heads, self.qkv_dim)).transpose(1, 2)  # type: ignore[no-any-return]

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (N, heads, length, qkv_dim) of (N, length, embed_dim)."""
        return self._heads(x, self.k_proj_weight), self._heads(x, self.v_proj_weight)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> tuple[Tensor, Weights]:
        """Attend.

        Args:
            query: (N, length, embed_dim).
            keys: from `project`.
            values: likewise.
            bias: added to the scores, broadcast to (N, heads, length, keys).

        Returns:
            (N, length, embed_dim), and a function that computes the weights (N, heads, length, keys).
        """
        q = self._heads(query, self.q_proj_weight)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=bias, dropout_p=dropout, scale=1.0)

        def weights() -> Tensor:
            scores = q @ keys.transpose(-1, -2)
            return (scores if bias is None else scores + bias).softmax(-1)

        return self.out_proj(mixed.transpose(1, 2).flatten(2)), weights

    def position_bias(self, query_length: int, key_length: int, device: torch.device) -> Tensor:
        """The biases by distance (1, heads, query_length, key_length); the queries are the last of the keys.

        Raises:
            RuntimeError: this layer has no table.
        """
        if self.relative_attention_bias is None:
            raise RuntimeError("only the first layer has a table of biases; pass its position_bias to the others.")
        queries = torch.arange(key_length - query_length, key_length, device=device)[:, None]
        distance = torch.arange(key_length, device=device)[None, :] - queries
        buckets = self._relative_position_bucket(distance, not self.is_decoder, self.num_buckets, self.max_distance)
        return self.relative_attention_bias(buckets).permute(2, 0, 1)[None]  # type: ignore[no-any-return]

    @staticmethod
    def _relative_position_bucket(
        relative_position: Tensor, bidirectional: bool = True, num_buckets: int = 32, max_distance: int = 128
    ) -> Tensor:
        """The row of each distance: small ones have their own, larger ones share rows of logarithmic width.

        Args:
            relative_position: key's place minus query's, any integers.
            bidirectional: half of the rows are for keys behind the query; otherwise those count as distance 0.
            num_buckets: how many rows.
            max_distance: distances from here on share the last row.
        """
        offset: Tensor | int = 0
        if bidirectional:
            num_buckets //= 2
            offset = (relative_position > 0).long() * num_buckets
            distance = relative_position.abs()
        else:
            distance = (-relative_position).clamp_min(0)
        exact = num_buckets // 2
        share = (distance.float().clamp_min(1) / exact).log() / math.log(max_distance / exact)
        far = (exact + (share * (num_buckets - exact)).long()).clamp_max(num_buckets - 1)
        return offset + torch.where(distance < exact, distance, far)


class T5Layer(nn.Module):
    """Self-attention, in a decoder attention to the encoder's output, and a feed-forward network.

    Args:
        d_model: width.
        nhead: attention heads.
        dim_feedforward: inner width of the feed-forward network.
        qkv_dim: width of each head.
        dropout: everywhere.
        activation: "relu", "gelu", "gelu_new" or a function.
        is_gated_act: the feed-forward network's input gates it (Shazeer 2020, arXiv:2002.05202).
        layer_norm_eps: of the normalizations.
        relative_attention_num_buckets, relative_attention_max_distance: see `T5MultiheadAttention`.
        compute_relative_attention_bias: own the table of biases.
        is_decoder: attend to an encoder's output too.
        device, dtype: of the parameters.

    Raises:
        AssertionError: there is no such activation; upstream's type of error.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 3072,
        qkv_dim: int = 64,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        is_gated_act: bool = False,
        layer_norm_eps: float = 1e-6,
        relative_attention_num_buckets: int = 32,
        relative_attention_max_distance: int = 128,
        compute_relative_attention_bias: bool = False,
        is_decoder: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shared: dict[str, Any] = {
            "dropout": dropout,
            "qkv_dim": qkv_dim,
            "relative_attention_num_buckets": relative_attention_num_buckets,
            "relative_attention_max_distance": relative_attention_max_distance,
        }
        if isinstance(activation, str) and activation not in ACTIVATIONS:
            raise AssertionError(f"activation is {activation!r}, expected {', '.join(ACTIVATIONS)} or a function.")
        self.is_decoder, self.is_gated_act = is_decoder, is_gated_act
        self.self_attn = T5MultiheadAttention(
            d_model, nhead, is_decoder, compute_relative_attention_bias=compute_relative_attention_bias, **shared
        )
        if is_decoder:
            self.cross_attn = T5MultiheadAttention(d_model, nhead, is_decoder, **shared)
            self.norm3 = T5LayerNorm(d_model, layer_norm_eps)
        if is_gated_act:
            self.linear1_0 = nn.Linear(d_model, dim_feedforward, bias=False)
            self.linear1_1 = nn.Linear(d_model, dim_feedforward, bias=False)
        else:
            self.linear1 = nn.Linear(d_model, dim_feedforward, bias=False)
        self.linear2 = nn.Linear(dim_feedforward, d_model, bias=False)
        self.norm1 = T5LayerNorm(d_model, layer_norm_eps)
        self.norm2 = T5LayerNorm(d_model, layer_norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.activation = ACTIVATIONS[activation] if isinstance(activation, str) else activation
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)

    def forward(
        self,
        x: Tensor,
        bias: Tensor | None,
        *,
        memory: Tensor | None = None,
        memory_bias: Tensor | None = None,
        past: PAST_KEY_VALUE_TYPE | None = None,
    ) -> tuple[Tensor, Weights, Weights | None, Any]:
        """Compute a layer.

        Args:
            x: (N, length, d_model).
            bias: of self-attention, positions and masks together.
            memory: the encoder's output, (N, M, d_model); not read where `past` has it.
            memory_bias: of cross-attention, its mask.
            past: keys and values of what came before.

        Returns:
            The output, functions that compute the weights of self- and cross-attention, and keys and values up to here.
        """
        normed = self.norm1(x)
        keys, values = self.self_attn.project(normed)
        if past is not None:
            keys, values = torch.cat([past[0], keys], 2), torch.cat([past[1], values], 2)
        mixed, self_weights = self.self_attn(normed, keys, values, bias)
        x = x + self.dropout(mixed)
        present: Any = (keys, values)
        cross_weights: Weights | None = None
        if self.is_decoder:
            if past is not None:
                cross = past[2], past[3]
            else:
                assert memory is not None  # a decoder is given it with its first tokens
                cross = self.cross_attn.project(memory)
            mixed, cross_weights = self.cross_attn(self.norm3(x), *cross, memory_bias)
            x = x + self.dropout(mixed)
            present = (keys, values, *cross)
        return x + self._feed_forward(self.norm2(x)), self_weights, cross_weights, present

    def _feed_forward(self, x: Tensor) -> Tensor:
        if self.is_gated_act:
            inner = self.activation(self.linear1_0(x)) * self.linear1_1(x)
        else:
            inner = self.activation(self.linear1(x))
        return self.dropout(self.linear2(self.dropout(inner)))  # type: ignore[no-any-return]

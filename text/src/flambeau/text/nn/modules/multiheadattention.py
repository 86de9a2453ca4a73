"""Multi-head attention whose projections and attention are the caller's (Vaswani et al. 2017, arXiv:1706.03762)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["InProjContainer", "MultiheadAttentionContainer", "ScaledDotProduct", "generate_square_subsequent_mask"]

# What a hidden score becomes: a number and not -inf, so that a row without keys stays finite, as upstream.
_HIDDEN = -1e8


class MultiheadAttentionContainer(nn.Module):
    """Project, split into heads, attend, join, project.

    Args:
        nhead: how many heads.
        in_proj_container: maps query, key and value to their projections; `InProjContainer`.
        attention_layer: maps projections (L, N * heads, E / heads) and masks to output and weights; `ScaledDotProduct`.
        out_proj: maps the joined heads to the output.
        batch_first: (..., N, L, E) in place of (..., L, N, E), whatever the attention layer has.

    Example:
        >>> projections = InProjContainer(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
        >>> attention = MultiheadAttentionContainer(2, projections, ScaledDotProduct(), nn.Linear(8, 8))
        >>> output, weights = attention(torch.rand(5, 3, 8), torch.rand(7, 3, 8), torch.rand(7, 3, 8))
        >>> output.shape, weights.shape
        (torch.Size([5, 3, 8]), torch.Size([6, 5, 7]))
    """

    def __init__(
        self,
        nhead: int,
        in_proj_container: nn.Module,
        attention_layer: nn.Module,
        out_proj: nn.Module,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.nhead = nhead
        self.in_proj_container = in_proj_container
        self.attention_layer = attention_layer
        self.out_proj = out_proj
        self.batch_first = batch_first

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        bias_k: Tensor | None = None,
        bias_v: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attend.

        Args:
            query: (..., L, N, E).
            key: (..., S, N, E).
            value: (..., S, N, E).
            attn_mask: (N * heads, L, S), True where a key is hidden.
            bias_k: (1, N * heads, E / heads), one more key.
            bias_v: the value that belongs to it; given with `bias_k` or not at all.

        Returns:
            The output (..., L, N, E), and the weights (N * heads, L, S), S one more with biases.

        Raises:
            AssertionError: a width is no multiple of the number of heads; upstream's type of error.
            RuntimeError: a mask has another shape or dtype, or one bias is given without the other.
        """
        if self.batch_first:
            query, key, value = (x.transpose(-3, -2) for x in (query, key, value))
        length, batch = query.shape[-3], query.shape[-2]
        q, k, v = self.in_proj_container(query, key, value)
        q, k, v = self._heads(q, "query"), self._heads(k, "key"), self._heads(v, "value")
        # The attention layer's first two dimensions are in the order that it is set to.
        swapped = bool(getattr(self.attention_layer, "batch_first", False))
        if swapped:
            q, k, v = (x.transpose(-3, -2) for x in (q, k, v))
        mixed, weights = self.attention_layer(q, k, v, attn_mask=attn_mask, bias_k=bias_k, bias_v=bias_v)
        if swapped:
            mixed = mixed.transpose(-3, -2)
        mixed = mixed.reshape(*mixed.shape[:-3], length, batch, -1)
        output = self.out_proj(mixed)
        return (output.transpose(-3, -2) if self.batch_first else output), weights

    def _heads(self, x: Tensor, name: str) -> Tensor:
        width = x.shape[-1]
        if width % self.nhead:
            raise AssertionError(
                f"the projected {name} is {width} wide, expected a multiple of the {self.nhead} heads."
            )
        return x.reshape(*x.shape[:-2], x.shape[-2] * self.nhead, width // self.nhead)


class InProjContainer(nn.Module):
    """Three projections.

    Args:
        query_proj: of queries.
        key_proj: of keys.
        value_proj: of values.
    """

    def __init__(self, query_proj: nn.Module, key_proj: nn.Module, value_proj: nn.Module) -> None:
        super().__init__()
        self.query_proj, self.key_proj, self.value_proj = query_proj, key_proj, value_proj

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project each."""
        return self.query_proj(query), self.key_proj(key), self.value_proj(value)


class ScaledDotProduct(nn.Module):
    """Attention by products, divided by the root of their width.

    Args:
        dropout: of the weights.
        batch_first: (..., N, L, E) in place of (..., L, N, E).
    """

    def __init__(self, dropout: float = 0.0, batch_first: bool = False) -> None:
        super().__init__()
        self.dropout, self.batch_first = dropout, batch_first

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        bias_k: Tensor | None = None,
        bias_v: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attend.

        Args:
            query: (..., L, N or 1, E), N the batch times the heads.
            key: (..., S, N or 1, E).
            value: (..., S, N or 1, E).
            attn_mask: (N, L, S), True where a key is hidden.
            bias_k: (1, N, E), one more key; with `batch_first` (N, 1, E).
            bias_v: the value that belongs to it; given with `bias_k` or not at all.

        Returns:
            The output (..., L, N, E), and the weights (..., N, L, S), S one more with biases.

        Raises:
            AssertionError: query and key differ in width; upstream's type of error.
            RuntimeError: other shapes do not fit, the mask is not bool, or one bias is given without the other.
        """
        if (bias_k is None) != (bias_v is None):
            raise RuntimeError("bias_k and bias_v belong together: give both or neither.")
        if bias_k is not None and bias_v is not None:
            key, value, attn_mask = self._extended(key, value, attn_mask, bias_k, bias_v)
        if not self.batch_first:
            query, key, value = (x.transpose(-3, -2) for x in (query, key, value))
        _check(query, key, value)
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        if attn_mask is not None:
            _check_mask(attn_mask, scores)
            scores = scores.masked_fill(attn_mask, _HIDDEN)
        weights = F.dropout(scores.softmax(-1), self.dropout, self.training)
        mixed = weights @ value
        return (mixed if self.batch_first else mixed.transpose(-3, -2)), weights

    def _extended(
        self, key: Tensor, value: Tensor, attn_mask: Tensor | None, bias_k: Tensor, bias_v: Tensor
    ) -> tuple[Any, ...]:
        sources = -2 if self.batch_first else -3
        extended = []
        for name, x, bias in (("bias_k", key, bias_k), ("bias_v", value, bias_v)):
            expected = list(x.shape[-3:])
            expected[sources] = 1
            if list(bias.shape) != expected:
                raise RuntimeError(f"{name} has shape {tuple(bias.shape)}, expected {tuple(expected)}.")
            extended.append(torch.cat([x, bias.expand(*x.shape[:-3], *bias.shape)], sources))
        mask = None if attn_mask is None else F.pad(attn_mask, (0, 1))
        return (*extended, mask)


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    if key.shape != value.shape:
        raise RuntimeError(f"key and value have shapes {tuple(key.shape)} and {tuple(value.shape)}, expected one.")
    if query.shape[-1] != key.shape[-1]:
        raise AssertionError(f"query and key are {query.shape[-1]} and {key.shape[-1]} wide, expected one width.")
    if query.dim() != key.dim() or (key.shape[-3] != query.shape[-3] and 1 not in (key.shape[-3], query.shape[-3])):
        raise RuntimeError(
            f"query and key have shapes {tuple(query.shape)} and {tuple(key.shape)} (batch first), expected as many "
            "dimensions, and one batch, or 1 for one of them."
        )


def _check_mask(mask: Tensor, scores: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise RuntimeError(f"attn_mask has dtype {mask.dtype}, expected bool: True hides a key.")
    if mask.dim() != 3 or tuple(mask.shape) != tuple(scores.shape[-3:]):
        raise RuntimeError(f"attn_mask has shape {tuple(mask.shape)}, expected {tuple(scores.shape[-3:])}.")


def generate_square_subsequent_mask(nbatch: int, sz: int) -> Tensor:
    """True on and below the diagonal, (nbatch, sz, sz).

    This is what upstream's function of this name gives; as `attn_mask`, where True hides, it hides the past. Its
    inverse hides the future.
    """
    return torch.ones(sz, sz, dtype=torch.bool).tril().repeat(nbatch, 1, 1)

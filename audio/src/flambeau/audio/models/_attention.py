"""What attention layers of several families share: masks from lengths, and self-attention on torch's fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["key_mask", "padding_mask", "projected_self_attention", "split_heads"]


def padding_mask(lengths: Tensor, max_length: int) -> Tensor:
    """(batch, max_length) bool, True where a frame lies behind the end of its item.

    Args:
        lengths: (batch,) integers, the number of valid frames of each item.
        max_length: frames of the batch.
    """
    return torch.arange(max_length, device=lengths.device)[None, :] >= lengths[:, None]


def key_mask(padding: Tensor | None) -> Tensor | None:
    """(batch, 1, 1, keys) bool as `scaled_dot_product_attention` takes it: True where a key counts."""
    return None if padding is None else ~padding[:, None, None, :]


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(batch, time, channels) -> (batch, heads, time, channels / heads)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # type: ignore[no-any-return]


def projected_self_attention(layer: nn.MultiheadAttention, x: Tensor, mask: Tensor | None) -> Tensor:
    """Self-attention with the parameters of a `torch.nn.MultiheadAttention`.

    Args:
        layer: holds the projections; its own `forward` is not used, so that one path serves training and inference.
        x: (batch, time, channels).
        mask: added to the scores, or bool with True where a key counts; broadcasts to (batch, heads, time, time).

    Returns:
        (batch, time, channels).
    """
    query, key, value = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    heads = layer.num_heads
    attended = F.scaled_dot_product_attention(
        split_heads(query, heads),
        split_heads(key, heads),
        split_heads(value, heads),
        attn_mask=mask,
        dropout_p=layer.dropout if layer.training else 0.0,
    )
    return layer.out_proj(attended.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

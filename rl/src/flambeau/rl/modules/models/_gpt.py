"""The trunk of GPT-2 (Radford et al. 2019), with the names of its parameters."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_ACTIVATIONS: dict[str, Any] = {
    "relu": nn.ReLU, "gelu": nn.GELU, "gelu_new": lambda: nn.GELU("tanh"), "silu": nn.SiLU, "swish": nn.SiLU,
    "tanh": nn.Tanh,
}  # fmt: skip


class Conv1D(nn.Module):
    """A linear layer whose weight is (inputs, outputs), as GPT-2's checkpoints have it."""

    def __init__(self, outputs: int, inputs: int, std: float = 0.02) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=std))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs)."""
        return F.linear(x, self.weight.T, self.bias)


class Attention(nn.Module):
    """Causal attention of several heads."""

    def __init__(self, width: int, heads: int, dropout: float, residual_dropout: float, std: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.c_attn = Conv1D(3 * width, width)
        self.c_proj = Conv1D(width, width, std)
        self.resid_dropout = nn.Dropout(residual_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, width) -> the same."""
        parts = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.c_attn(x).chunk(3, -1))
        query, key, value = parts
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=dropout)
        out: Tensor = self.resid_dropout(self.c_proj(mixed.transpose(1, 2).flatten(-2)))
        return out


class Perceptron(nn.Module):
    """What follows attention, position by position."""

    def __init__(self, width: int, inner: int, activation: str, dropout: float, std: float) -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation is {activation!r}, expected one of {', '.join(sorted(_ACTIVATIONS))}.")
        self.c_fc = Conv1D(inner, width)
        self.c_proj = Conv1D(width, inner, std)
        self.act, self.dropout = _ACTIVATIONS[activation](), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        out: Tensor = self.dropout(self.c_proj(self.act(self.c_fc(x))))
        return out


class Block(nn.Module):
    """Attention and perceptron, each behind a norm and beside an identity."""

    def __init__(self, config: Any, std: float) -> None:
        super().__init__()
        width = config.n_embd
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, config.n_head, config.attn_pdrop, config.resid_pdrop, std)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Perceptron(width, config.n_inner, config.activation, config.resid_pdrop, std)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, width) -> the same."""
        x = x + self.attn(self.ln_1(x))
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class Trunk(nn.Module):
    """Positions, blocks and a last norm, on inputs that are embedded already.

    Args:
        config: has `n_embd`, `n_layer`, `n_head`, `n_inner`, `activation`, `n_positions`, `resid_pdrop`, `attn_pdrop`.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError(f"n_embd is {config.n_embd}, expected a multiple of n_head, {config.n_head}.")
        self.config = config
        self.wte = nn.Embedding(1, config.n_embd)  # not used; checkpoints have it
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        for embedding in (self.wte, self.wpe):
            nn.init.normal_(embedding.weight, std=0.02)
        self.drop = nn.Dropout(0.1)
        std = 0.02 / math.sqrt(2 * config.n_layer)
        self.h = nn.ModuleList(Block(config, std) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, n_embd) -> the same, each position from those before it.

        Raises:
            ValueError: there are more than `n_positions`.
        """
        if inputs.shape[1] > self.config.n_positions:
            raise ValueError(
                f"there are {inputs.shape[1]} positions, three a step; n_positions allows {self.config.n_positions}."
            )
        x = self.drop(inputs + self.wpe.weight[: inputs.shape[1]])
        for block in self.h:
            x = block(x)
        out: Tensor = self.ln_f(x)
        return out

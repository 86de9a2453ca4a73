"""Stochastic depth: drop whole residual branches at random while a network trains."""

from __future__ import annotations

import torch
from torch import Tensor, fx, nn

__all__ = ["StochasticDepth", "stochastic_depth"]


@fx.wrap  # one node, as its result depends on chance and mode
def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Set samples of a residual branch to zero with probability `p`; divide the others by `1 - p`.

    Args:
        input: (N, ...), floating point.
        p: probability to drop, in [0, 1]; 1 gives zeros.
        mode: "row" decides for each sample of the batch, "batch" once for all of it.
        training: False returns the input as it is.

    Returns:
        The shape and memory format of the input; the input itself if nothing can be dropped.

    Raises:
        ValueError: `p` or `mode` is none of these.

    References:
        Huang et al. 2016, Deep Networks with Stochastic Depth, arXiv:1603.09382.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is {p!r}, expected a probability from 0 to 1.")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode is {mode!r}, expected 'batch' or 'row'.")
    if not training or p == 0.0:
        return input
    survival = 1.0 - p
    decisions = input.shape[0] if mode == "row" else 1
    shape = (decisions,) + (1,) * (input.ndim - 1)
    kept = torch.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(survival)
    if survival > 0.0:
        kept.div_(survival)
    return input * kept


class StochasticDepth(nn.Module):
    """Drop a residual branch at random in train mode; see `stochastic_depth`.

    Args:
        p: probability to drop, in [0, 1].
        mode: "row" decides for each sample, "batch" once for all of them.
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        """Drop samples of (N, ...) in train mode; the input itself in eval mode."""
        return stochastic_depth(input, self.p, self.mode, self.training)

    def extra_repr(self) -> str:
        """Probability and mode."""
        return f"p={self.p}, mode={self.mode}"

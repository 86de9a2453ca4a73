"""One vector of a text's features."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

__all__ = ["Pooling", "pool"]

Pooling = Literal["cls", "mean", "max"]


def pool(features: Tensor, real: Tensor, how: Pooling) -> Tensor:
    """Make one vector of the features of each text (Reimers and Gurevych 2019, arXiv:1908.10084).

    Args:
        features: (N, T, C).
        real: (N, T), True where there is a token and no padding.
        how: "cls" takes the first token's, "mean" and "max" are over the real tokens.

    Returns:
        (N, C); 0 for the mean and the maximum of a text without tokens.

    Raises:
        ValueError: `how` is something else.
    """
    if how == "cls":
        return features[:, 0]
    counted = real[..., None]
    if how == "mean":
        # Not `features * real`: what padding holds means nothing and could be NaN.
        return features.masked_fill(~counted, 0.0).sum(1) / counted.sum(1).clamp_min(1)
    if how == "max":
        highest = features.masked_fill(~counted, -torch.inf).amax(1)
        return highest.masked_fill(~counted.any(1), 0.0)
    raise ValueError(f"pooling is {how!r}, expected one of {', '.join(get_args(Pooling))}, 'pooler' or None.")

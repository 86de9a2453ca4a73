"""Changing scores and probabilities of the next token before it is chosen."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "apply_repetition_penalty",
    "apply_temperature",
    "remove_invalid_values",
    "restrict_to_top_k",
    "restrict_to_top_p",
]


def restrict_to_top_k(scores: Tensor, top_k: int) -> Tensor:
    """Set all but the k largest of each row to 0 (Fan et al. 2018, arXiv:1805.04833).

    Args:
        scores: (N, V).
        top_k: at least 1; more than V keeps all.

    Raises:
        ValueError: `top_k` is below 1.
    """
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}, expected at least 1.")
    least = scores.topk(min(top_k, scores.shape[-1])).values[..., -1:]
    return scores.masked_fill(scores < least, 0.0)


def restrict_to_top_p(probs: Tensor, top_p: float) -> Tensor:
    """Keep the likeliest tokens that together hold at most this share, and set the others to 0.

    Holtzman et al. 2019, arXiv:1904.09751, keep the token that passes the share too; upstream does not.

    Args:
        probs: (N, V), probabilities.
        top_p: between 0 and 1; the likeliest token is always kept.

    Raises:
        ValueError: `top_p` is outside of that.
    """
    if not 0 <= top_p <= 1:
        raise ValueError(f"top_p is {top_p}, expected a share between 0 and 1.")
    ordered, places = probs.sort(descending=True)
    hidden = ordered.cumsum(-1) > top_p
    hidden[..., 0] = False
    return probs.masked_fill(hidden.scatter(-1, places, hidden), 0.0)


def apply_temperature(scores: Tensor, temperature: float) -> Tensor:
    """Divide by the temperature: below 1 sharpens, above 1 flattens what `softmax` makes of it.

    Raises:
        ValueError: `temperature` is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}, expected a positive number.")
    return scores / temperature


def remove_invalid_values(scores: Tensor) -> Tensor:
    """NaN becomes 0, infinity the dtype's largest number; -inf stays, and is never drawn."""
    return torch.nan_to_num(scores, nan=0.0, neginf=-torch.inf)


def apply_repetition_penalty(scores: Tensor, ids: Tensor, penalty: float) -> Tensor:
    """Make tokens that were there less likely (Keskar et al. 2019, arXiv:1909.05858).

    Args:
        scores: (N, V), of the next token.
        ids: (N, T), what there is already.
        penalty: positive scores are divided by it, negative ones multiplied; above 1 repeats less.

    Raises:
        ValueError: `penalty` is not positive.
    """
    if not penalty > 0:
        raise ValueError(f"repetition_penalty is {penalty}, expected a positive number.")
    found = scores.gather(1, ids)
    return scores.scatter(1, ids, torch.where(found > 0, found / penalty, found * penalty))

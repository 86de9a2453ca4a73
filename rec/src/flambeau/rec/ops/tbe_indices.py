"""How often rows are looked up: estimated from a batch, and made up again for benchmarks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._short_calls import OPS

__all__ = ["tbe_estimate_indices_distribution", "tbe_generate_indices_from_distribution"]

_HEAVY = 20
"""Rows whose frequencies are kept as they are."""


def tbe_estimate_indices_distribution(indices: Tensor) -> tuple[Tensor, float, float, int, int]:
    """Describe how often rows are looked up: the most frequent ones by themselves, the others by a power law.

    The frequency of the row with the rank r is taken to be in proportion to 1 / (r + q)^s (Mandelbrot 1953), where q
    and s minimize the squared error of logarithms.

    Args:
        indices: (L,) int32 or int64, at least one.

    Returns:
        (k,) float64 frequencies of the k most frequent rows, at most 20, as parts of L; q; s; the largest index; L.

    Raises:
        RuntimeError: there are no indices.

    Example:
        >>> tbe_estimate_indices_distribution(torch.tensor([3, 3, 3, 7]))[0]
        tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    return OPS.tbe_estimate_indices_distribution(indices)  # type: ignore[no-any-return]


def tbe_generate_indices_from_distribution(
    heavy_hitters: Tensor, zipf_q: float, zipf_s: float, max_index: int, num_indices: int
) -> Tensor:
    """Make up indices of which rows are as frequent as `tbe_estimate_indices_distribution` said.

    Args:
        heavy_hitters: (k,) frequencies of the k most frequent rows.
        zipf_q: of the others.
        zipf_s: of the others.
        max_index: the largest index.
        num_indices: how many.

    Returns:
        (num_indices,) int64; which row has which frequency is drawn as well.

    Raises:
        RuntimeError: frequencies above 1 in sum, or sizes below 0.
    """
    return OPS.tbe_generate_indices_from_distribution(  # type: ignore[no-any-return]
        heavy_hitters, zipf_q, zipf_s, max_index, num_indices
    )


def _estimate(indices: Tensor) -> tuple[Tensor, float, float, int, int]:
    require_indices("tbe_estimate_indices_distribution", "indices", indices)
    require(indices.numel() > 0, "tbe_estimate_indices_distribution: there are no indices; give at least one.")
    _, counts = indices.unique(return_counts=True)
    frequencies = counts.sort(descending=True).values.double() / indices.numel()
    heavy, rest = frequencies[:_HEAVY], frequencies[_HEAVY:]
    q, s = _fitted(rest, len(heavy))
    return heavy, q, s, int(indices.max()), indices.numel()


def _fitted(frequencies: Tensor, before: int) -> tuple[float, float]:
    """Q and s of frequencies whose ranks begin behind some others; those of few ranks are 1 and 2."""
    if len(frequencies) < 2 or float(frequencies[0]) == float(frequencies[-1]):
        return 1.0, 2.0
    ranks = torch.arange(before + 1, before + 1 + len(frequencies), dtype=torch.float64, device=frequencies.device)
    # Ranks are many, and most of them rare: as many of each octave count.
    weights, target = 1 / ranks, frequencies.log()
    best = (math.inf, 1.0, 2.0)
    for step in range(41):
        q = step / 2
        x = (ranks + q).log()
        mean_x, mean_y = (weights * x).sum() / weights.sum(), (weights * target).sum() / weights.sum()
        spread = (weights * (x - mean_x) ** 2).sum()
        slope = (weights * (x - mean_x) * (target - mean_y)).sum() / spread
        error = float((weights * (target - mean_y - slope * (x - mean_x)) ** 2).sum())
        best = min(best, (error, q, max(float(-slope), 0.0)))
    return best[1], best[2]


def _generate(heavy_hitters: Tensor, zipf_q: float, zipf_s: float, max_index: int, num_indices: int) -> Tensor:
    require(
        max_index >= 0 and num_indices >= 0,
        f"tbe_generate_indices_from_distribution: max_index is {max_index} and num_indices {num_indices}, expected 0 "
        "or more.",
    )
    heavy = heavy_hitters.double()[: max_index + 1]
    rest = 1 - float(heavy.sum())
    require(
        rest >= -1e-6 and bool((heavy >= 0).all()),
        "tbe_generate_indices_from_distribution: heavy_hitters are parts of 1, at most 1 in sum.",
    )
    ranks = torch.arange(len(heavy) + 1, max_index + 2, dtype=torch.float64, device=heavy.device)
    tail = (ranks + zipf_q).pow(-zipf_s)
    tail = tail / tail.sum() * max(rest, 0.0) if len(tail) else tail
    ends = torch.cat([heavy, tail]).cumsum(0)
    drawn = torch.rand(num_indices, dtype=torch.float64, device=heavy.device) * ends[-1]
    rows = torch.searchsorted(ends, drawn, right=True).clamp(max=max_index)
    return torch.randperm(max_index + 1, device=heavy.device)[rows]


register_composite("tbe_estimate_indices_distribution(Tensor indices) -> (Tensor, float, float, int, int)", _estimate)
register_composite(
    "tbe_generate_indices_from_distribution(Tensor heavy_hitters, float zipf_q, float zipf_s, int max_index, int "
    "num_indices) -> Tensor",
    _generate,
)

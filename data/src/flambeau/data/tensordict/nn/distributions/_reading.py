"""Reading one value off a distribution, whatever kind it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributions as D


def deterministic(distribution: Any) -> Any:
    """`deterministic_sample` where there is one, else the mode of discrete and the mean of continuous distributions."""
    try:
        return distribution.deterministic_sample
    except AttributeError:
        pass
    try:
        discrete = bool(distribution.support.is_discrete)
    except NotImplementedError:
        discrete = False
    return distribution.mode if discrete else mean_of(distribution, 1000)


def mean_of(distribution: D.Distribution, samples: int) -> Tensor:
    """The mean, or an estimate of it from samples where there is no formula."""
    try:
        return distribution.mean
    except (AttributeError, NotImplementedError):
        draw = distribution.rsample if distribution.has_rsample else distribution.sample
        return draw(torch.Size((samples,))).mean(0)


def median_of(distribution: Any) -> Tensor:
    """The median, by its inverse distribution function where it has no formula.

    Raises:
        NotImplementedError: there is neither.
    """
    try:
        return distribution.median
    except (AttributeError, NotImplementedError):
        pass
    try:
        half = torch.full_like(distribution.mean, 0.5)
        return distribution.icdf(half)
    except (AttributeError, NotImplementedError):
        raise NotImplementedError(
            f"{type(distribution).__name__} has no median; choose another interaction type, such as MEAN or MODE."
        ) from None

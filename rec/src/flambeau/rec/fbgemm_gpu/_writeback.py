"""Gradients of which each row takes the first alone, for tables whose rows are written rather than trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = ["only_first_gradients"]


def only_first_gradients(
    gradient: Tensor,
    numbers: Tensor,
    ends: Sequence[int],
    widths: Sequence[int] | None,
    *,
    by_first_feature: bool,
) -> Tensor:
    """Put to zero what would be added to a row that has a gradient already.

    Args:
        gradient: (B, columns of all features) of sums and means; (L, columns) of rows as they are.
        numbers: (L,) of the row of each index among all rows, feature-major; one index in each bag of sums and means.
        ends: (features + 1,) which of them are a feature's.
        widths: columns of each feature; None for rows as they are.
        by_first_feature: whether rows of the first feature alone are looked at: an example has a gradient for all of
            its features, or for none.

    Returns:
        Of the same shape.

    Raises:
        OptionError: bags have other than one index.
    """
    count = ends[1] if by_first_feature and len(ends) > 1 else len(numbers)
    first = torch.zeros(len(numbers), dtype=torch.bool, device=numbers.device)
    first[:count] = _is_first(numbers[:count])
    if widths is None:
        return gradient * first.unsqueeze(1).to(gradient)
    batch, features = gradient.shape[0], len(widths)
    if list(ends) != [batch * feature for feature in range(features + 1)]:
        raise OptionError(
            f"use_writeback_bwd_prehook takes bags of one index; {len(numbers)} are in {batch * features}."
        )
    if by_first_feature:
        return gradient * first[:batch].unsqueeze(1).to(gradient)
    columns = first.view(features, batch).t().repeat_interleave(torch.tensor(widths, device=first.device), dim=1)
    return gradient * columns.to(gradient)


def _is_first(numbers: Tensor) -> Tensor:
    """Whether no earlier one is the same."""
    unique, inverse = numbers.unique(return_inverse=True)
    places = torch.arange(len(numbers), device=numbers.device)
    firsts = torch.full_like(unique, len(numbers)).scatter_reduce(0, inverse, places, "amin")
    return firsts[inverse] == places

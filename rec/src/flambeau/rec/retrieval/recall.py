"""How much of what is near an index finds."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = ["recall_at_k"]


def recall_at_k(found: Tensor, expected: Tensor) -> float:
    """The mean share of the expected neighbours that were found.

    Args:
        found: (n, k) numbers, in any order; -1 for none.
        expected: (n, j) numbers, such as an `ExactIndex` gives; -1 for none, which is not expected.

    Returns:
        0 to 1; 1 where nothing is expected.

    Raises:
        OptionError: they are not for as many queries.

    Example:
        >>> recall_at_k(torch.tensor([[3, 1, 2]]), torch.tensor([[1, 9]]))
        0.5
    """
    found, expected = torch.as_tensor(found), torch.as_tensor(expected)
    if found.dim() != 2 or expected.dim() != 2 or len(found) != len(expected):
        raise OptionError(
            f"found has shape {tuple(found.shape)} and expected {tuple(expected.shape)}; give (n, k) and (n, j)."
        )
    real = expected >= 0
    hits = (expected.unsqueeze(2) == found.unsqueeze(1)).any(2) & real
    return float(hits.sum() / real.sum()) if bool(real.any()) else 1.0

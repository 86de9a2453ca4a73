"""Pooled features put into another order, that is fixed."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.ops._short_calls import OPS

__all__ = ["PermutePooledEmbeddings"]


def permutation(embs_dims: list[int], permute: list[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """What the operator takes: columns that features begin at, the order, and both for the way back.

    Raises:
        OptionError: `permute` does not name each feature once.
    """
    if sorted(permute) != list(range(len(embs_dims))):
        raise OptionError(
            f"permute is {permute}, expected each of 0 to {len(embs_dims) - 1} once: there are {len(embs_dims)} "
            "features."
        )
    inverse = [0] * len(permute)
    for at, feature in enumerate(permute):
        inverse[feature] = at
    begins = list(accumulate(embs_dims, initial=0))
    return begins, list(permute), inverse, list(accumulate((embs_dims[feature] for feature in permute), initial=0))


class PermutePooledEmbeddings:
    """Puts features into another order.

    Args:
        embs_dims: widths of the features.
        permute: which comes first, second, ...
        device: of what is permuted; by default the device that new tensors are on.

    Raises:
        OptionError: `permute` does not name each feature once.

    Example:
        >>> PermutePooledEmbeddings([1, 2], [1, 0])(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[2., 3., 1.]])
    """

    def __init__(self, embs_dims: list[int], permute: list[int], device: torch.device | None = None) -> None:
        lists = [torch.tensor(one, dtype=torch.int64, device=device) for one in permutation(embs_dims, permute)]
        self._offset_dim_list, self._permute, self._inv_permute, self._inv_offset_dim_list = lists

    def __call__(self, pooled_embs: Tensor) -> Tensor:
        """(B, columns) in the new order; differentiable."""
        result: Tensor = OPS.permute_pooled_embs_auto_grad(
            pooled_embs, self._offset_dim_list, self._permute, self._inv_offset_dim_list, self._inv_permute
        )
        return result

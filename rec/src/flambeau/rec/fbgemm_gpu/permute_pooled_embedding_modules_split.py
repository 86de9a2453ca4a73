"""`PermutePooledEmbeddings` as a module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.rec.fbgemm_gpu.permute_pooled_embedding_modules import permutation
from flambeau.rec.ops._short_calls import OPS

__all__ = ["PermutePooledEmbeddingsSplit"]


class PermutePooledEmbeddingsSplit(nn.Module):
    """Puts features into another order.

    Args:
        embs_dims: widths of the features.
        permute: which comes first, second, ...
        device: of what is permuted.

    Raises:
        OptionError: `permute` does not name each feature once.
    """

    _offset_dim_list: Tensor
    _permute: Tensor
    _inv_permute: Tensor
    _inv_offset_dim_list: Tensor

    def __init__(self, embs_dims: list[int], permute: list[int], device: torch.device | None = None) -> None:
        super().__init__()
        names = ("_offset_dim_list", "_permute", "_inv_permute", "_inv_offset_dim_list")
        for name, numbers in zip(names, permutation(embs_dims, permute), strict=True):
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.int64, device=device))

    def forward(self, pooled_embs: Tensor) -> Tensor:
        """(B, columns) in the new order; differentiable."""
        result: Tensor = OPS.permute_pooled_embs_auto_grad_split(
            pooled_embs, self._offset_dim_list, self._permute, self._inv_offset_dim_list, self._inv_permute
        )
        return result

"""A table within the memory of many, as a parameter of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["TableBatchedEmbeddingSlice"]


class TableBatchedEmbeddingSlice(nn.Parameter):
    """A parameter that is a part of a flat one, and whose gradient is the same part of that one's gradient.

    Args:
        data: (elements,): the flat parameter.
        start_offset: where the part begins.
        end_offset: where it ends.
        num_embeddings: its rows.
        embedding_dim: its columns.
    """

    __slots__ = ["_original_tensor", "_start_offset", "_end_offset", "_num_embeddings", "_embedding_dim"]  # noqa: RUF023

    def __init__(
        self, data: Tensor, start_offset: int, end_offset: int, num_embeddings: int, embedding_dim: int
    ) -> None:
        super().__init__()
        self._original_tensor = data
        self._start_offset, self._end_offset = start_offset, end_offset
        self._num_embeddings, self._embedding_dim = num_embeddings, embedding_dim

    def __new__(
        cls, data: Tensor, start_offset: int, end_offset: int, num_embeddings: int, embedding_dim: int
    ) -> TableBatchedEmbeddingSlice:
        """A view of the part."""
        part = data.detach()[start_offset:end_offset].view(num_embeddings, embedding_dim)
        return part.as_subclass(cls).requires_grad_(data.requires_grad)  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        if id(self) not in memo:
            # A copy has memory of its own, as that of any parameter has.
            memo[id(self)] = nn.Parameter(self.detach().clone(), self.requires_grad)
        copied: nn.Parameter = memo[id(self)]
        return copied

    @property
    def grad(self) -> Tensor | None:
        """The part of the flat parameter's gradient; None where that has none."""
        whole = self._original_tensor.grad
        if whole is None:
            return None
        return whole[self._start_offset : self._end_offset].view(self._num_embeddings, self._embedding_dim)

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        whole = self._original_tensor.grad
        if grad is None:
            self._original_tensor.grad = None
            return
        if whole is None:
            whole = torch.zeros_like(self._original_tensor)
            self._original_tensor.grad = whole
        whole[self._start_offset : self._end_offset].copy_(grad.reshape(-1))

    @property
    def grad_fn(self) -> None:  # type: ignore[override]
        """None, as of every parameter."""
        return None

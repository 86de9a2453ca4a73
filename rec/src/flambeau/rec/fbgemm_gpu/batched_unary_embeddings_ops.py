"""Tables of scalars for several tasks, looked up together."""

from __future__ import annotations

import math
from itertools import accumulate

import torch
from torch import Tensor, nn

from flambeau.rec.ops.dense import batched_unary_embeddings

__all__ = ["BatchedUnaryEmbeddingBag", "wrap_weight_to_parameter"]


def wrap_weight_to_parameter(weights: list[Tensor]) -> list[Tensor]:
    """Make parameters of those that are none, in the list itself, which is returned."""
    for at, weight in enumerate(weights):
        if not isinstance(weight, nn.Parameter):
            weights[at] = nn.Parameter(weight)
    return weights


class BatchedUnaryEmbeddingBag(nn.Module):
    """Sums of scalars that indices stand for, of T tables, for each of N tasks.

    Args:
        num_tasks: N.
        hash_sizes: rows of each table.
        long_index: whether indices and offsets are int64 instead of int32.

    Shape:
        - offsets: (T * B + 1,) where each bag begins, table-major.
        - input: (L,) rows of the tables.
        - output: (N, B, T).
    """

    table_offsets_tensor: Tensor

    def __init__(self, num_tasks: int, hash_sizes: list[int], long_index: bool = False) -> None:
        super().__init__()
        self.num_tasks = num_tasks
        self.hash_sizes = hash_sizes
        offsets = list(accumulate(hash_sizes, initial=0))
        self.weight = nn.Parameter(torch.randn(num_tasks, offsets[-1], 1))
        index_dtype = torch.int64 if long_index else torch.int32
        self.register_buffer("table_offsets_tensor", torch.tensor(offsets, dtype=index_dtype))
        self.init_parameters()

    def forward(self, offsets: Tensor, input: Tensor) -> Tensor:
        """Look the batch up."""
        return batched_unary_embeddings(self.weight, self.table_offsets_tensor, offsets, input)

    def split_embedding_weights(self) -> list[Tensor]:
        """Views (rows, 1): of the first task, the tables in order; then of the second, ..."""
        return [table for task in self.weight.detach() for table in task.split(self.hash_sizes)]

    def init_parameters(self) -> None:
        """Draw all scalars of a table with n rows from [-1 / sqrt(n), 1 / sqrt(n))."""
        for weight in self.split_embedding_weights():
            bound = math.sqrt(1 / len(weight)) if len(weight) else 0.0
            weight.uniform_(-bound, bound)

"""An index that compares a query with every vector."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.retrieval._vectors import check_k, check_metric, like, vectors

__all__ = ["ExactIndex"]

_AT_ONCE = 1 << 23  # scores held at a time: 32 MiB


class ExactIndex:
    """The nearest of all vectors: what other indices are measured by, and enough for some hundred thousand.

    Args:
        dim: columns of a vector.
        metric: "l2", squared distances, or "inner_product", where larger is nearer.
        device: of the vectors.

    Raises:
        OptionError: another metric.

    Example:
        >>> index = ExactIndex(2)
        >>> index.add(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        >>> index.search(torch.tensor([[3.0, 3.0]]), 2)
        (tensor([[ 1., 18.]]), tensor([[1, 0]]))
    """

    is_trained = True

    def __init__(self, dim: int, metric: str = "l2", device: torch.device | str | None = None) -> None:
        check_metric(metric)
        self.d, self.metric, self.device = dim, metric, torch.device(device or "cpu")
        self._vectors = torch.empty(0, dim, device=self.device)

    @property
    def ntotal(self) -> int:
        """Vectors in the index."""
        return len(self._vectors)

    def add(self, x: Any) -> None:
        """Add vectors (n, dim), numbered on from those that are there.

        Raises:
            OptionError: they have another shape, or are not finite.
        """
        self._vectors = torch.cat([self._vectors, vectors("x", x, self.d, self.device)])

    def search(self, x: Any, k: int) -> tuple[Any, Any]:
        """Find the nearest ones.

        Args:
            x: (n, dim) queries, a tensor or an array.
            k: how many for each.

        Returns:
            Squared distances, ascending, or products, descending, (n, k) float32; and numbers (n, k) int64, -1 where
            there are fewer than k. Arrays, if the queries are one.

        Raises:
            OptionError: k below 1, or queries of another shape.
        """
        check_k(k)
        queries = vectors("x", x, self.d, self.device)
        nearest = self.metric == "l2"
        found = [self._of(part, k, nearest) for part in queries.split(max(1, _AT_ONCE // max(self.ntotal, 1)))]
        worst = torch.inf if nearest else -torch.inf
        scores, rows = (torch.cat(parts) for parts in zip(*found, strict=True))
        missing = k - rows.shape[1]
        scores = torch.nn.functional.pad(scores, (0, missing), value=worst)
        return like(x, scores, torch.nn.functional.pad(rows, (0, missing), value=-1))

    def _of(self, queries: Tensor, k: int, nearest: bool) -> tuple[Tensor, Tensor]:
        count = min(k, self.ntotal)
        if not nearest:
            scores = queries @ self._vectors.T
            found = scores.topk(count)
            return found.values, found.indices
        # Products are fast, and near vectors lose digits by them: some more are taken, and their distances made anew.
        middle = self._vectors.mean(0) if self.ntotal else queries.new_zeros(self.d)
        rows, asked = self._vectors - middle, queries - middle
        far = torch.addmm(rows.square().sum(1), asked, rows.T, alpha=-2)
        near = far.topk(min(2 * k + 16, self.ntotal), largest=False).indices
        distances = (self._vectors[near] - queries.unsqueeze(1)).square().sum(2)
        best = distances.topk(count, largest=False)
        return best.values, near.gather(1, best.indices)

    def reconstruct(self, rows: Tensor) -> Tensor:
        """The vectors of these numbers.

        Raises:
            OptionError: a number that no vector has.
        """
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.ntotal:
            raise OptionError(f"rows are {int(rows.min())} to {int(rows.max())}, expected 0 to {self.ntotal - 1}.")
        return self._vectors[rows]

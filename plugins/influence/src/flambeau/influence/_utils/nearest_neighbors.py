"""Search for the stored vectors that have the largest scalar product with a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from flambeau.influence.errors import InfluenceError

__all__ = ["AnnoyNearestNeighbors", "ExactNearestNeighbors", "NearestNeighbors"]


class NearestNeighbors(ABC):
    """What searches the vectors of training examples for `TracInCPFastRandProj`."""

    @abstractmethod
    def setup(self, data: Tensor) -> None:
        """Store vectors (examples, numbers)."""

    @abstractmethod
    def get_nearest_neighbors(self, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k stored vectors with the largest scalar products with each query.

        Args:
            query: (queries, numbers).
            k: how many.

        Returns:
            Positions (queries, k), int64, and the scalar products (queries, k), the largest first.
        """


class ExactNearestNeighbors(NearestNeighbors):
    """Every scalar product is computed, for a block of stored vectors at a time.

    Args:
        block: stored vectors at a time.

    Example:
        >>> search = ExactNearestNeighbors()
        >>> search.setup(torch.eye(3))
        >>> search.get_nearest_neighbors(torch.tensor([[1.0, 3.0, 2.0]]), 2)[0]
        tensor([[1, 2]])
    """

    def __init__(self, block: int = 1 << 16) -> None:
        self.block = block
        self._data: Tensor | None = None

    def setup(self, data: Tensor) -> None:
        """Store vectors (examples, numbers)."""
        self._data = data.detach()

    def get_nearest_neighbors(self, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """As `NearestNeighbors`; at most as many as there are."""
        data = _set_up(self._data)
        query = query.to(data.device)
        best, positions = query.new_empty(len(query), 0), query.new_empty(len(query), 0, dtype=torch.int64)
        for begin in range(0, len(data), self.block):
            products = query @ data[begin : begin + self.block].T
            places = torch.arange(begin, begin + products.shape[1], device=data.device).expand_as(products)
            best, positions = torch.cat([best, products], 1), torch.cat([positions, places], 1)
            found = torch.topk(best, min(k, best.shape[1]), dim=1)
            best, positions = found.values, positions.gather(1, found.indices)
        return positions, best


class AnnoyNearestNeighbors(NearestNeighbors):
    """Approximate search in a forest of random splits, by Spotify's `annoy`, which has to be installed.

    It is asked for more than wanted, and the best of them by exact scalar products are kept.

    Args:
        num_trees: more are slower and more exact.
    """

    def __init__(self, num_trees: int = 10) -> None:
        try:
            from annoy import AnnoyIndex
        except ImportError as error:
            raise ImportError(
                "AnnoyNearestNeighbors needs annoy. Run: pip install 'flambeau-influence[annoy]', or leave "
                "`nearest_neighbors` out for exact search."
            ) from error
        self.num_trees = num_trees
        self._make: Any = AnnoyIndex
        self._index: Any = None
        self._data: Tensor | None = None

    def setup(self, data: Tensor) -> None:
        """Store vectors (examples, numbers)."""
        self._data = data.detach().cpu()
        self._index = self._make(data.shape[1], "dot")
        for place, vector in enumerate(self._data.tolist()):
            self._index.add_item(place, vector)
        self._index.build(self.num_trees)

    def get_nearest_neighbors(self, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """As `NearestNeighbors`; what the forest does not find is left to exact search."""
        data = _set_up(self._data)
        k, rows, products = min(k, len(data)), [], []
        for vector in query.detach().cpu():
            places = torch.tensor(self._index.get_nns_by_vector(vector.tolist(), min(4 * k, len(data))))
            if len(places) < k:
                places = torch.arange(len(data))
            best = torch.topk(data[places] @ vector, k)
            rows.append(places[best.indices])
            products.append(best.values)
        return torch.stack(rows).to(query.device), torch.stack(products).to(query.device)


def _set_up(data: Tensor | None) -> Tensor:
    if data is None:
        raise InfluenceError("There are no vectors to search; call `setup` before.")
    return data

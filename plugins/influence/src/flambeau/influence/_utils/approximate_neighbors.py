"""Approximate search by libraries with indexes; what they find is ranked again by exact scalar products."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.files import replace
from flambeau.influence._utils.common import _require_count
from flambeau.influence._utils.nearest_neighbors import ExactNearestNeighbors, NearestNeighbors, _set_up
from flambeau.influence.errors import InfluenceError

__all__ = ["FaissNearestNeighbors", "UsearchNearestNeighbors", "default_nearest_neighbors"]

# Vectors up to which exact search takes well under a second.
_EXACT = 1 << 20


class _ApproximateNearestNeighbors(NearestNeighbors):
    """Ask an index for more than wanted, and keep the best by exact scalar products.

    Args:
        candidates: how many times `k` the index is asked for.
    """

    def __init__(self, candidates: int = 4) -> None:
        _require_count("candidates", candidates)
        self.candidates = candidates
        self._data: Tensor | None = None

    def setup(self, data: Tensor) -> None:
        """Store vectors (examples, numbers), and build the index."""
        self._data = data.detach().cpu().float()
        self._build(self._data)

    def get_nearest_neighbors(self, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """As `NearestNeighbors`; at most as many as there are. Where too few are found, search is exact."""
        data = _set_up(self._data)
        k, given = min(k, len(data)), query.detach().cpu().float()
        places = self._candidates(given, min(len(data), k * self.candidates))
        products = torch.einsum("qd,qcd->qc", given, data[places.clamp(min=0)])
        products = products.masked_fill(places < 0, float("-inf"))
        best = products.topk(k, dim=1)
        places = places.gather(1, best.indices)
        values, short = best.values, (places < 0).any(1)
        if short.any():
            exact = ExactNearestNeighbors()
            exact.setup(data)
            places[short], values[short] = exact.get_nearest_neighbors(given[short], k)
        return places.to(query.device), values.to(query)

    @abstractmethod
    def _build(self, data: Tensor) -> None:
        """Build the index of float32 vectors."""

    @abstractmethod
    def _candidates(self, query: Tensor, count: int) -> Tensor:
        """Positions (queries, count), int64; -1 where the index found fewer."""


class UsearchNearestNeighbors(_ApproximateNearestNeighbors):
    """Search in a graph of neighbours, by `usearch`, which has to be installed.

    Args:
        dtype: of the index: "f32", "f16" or "i8".
        path: a file in which the index is kept, and from which it is mapped into memory; None keeps it in memory.
        candidates: how many times `k` it is asked for, before they are ranked exactly.
    """

    def __init__(self, dtype: str = "f16", path: str | Path | None = None, candidates: int = 4) -> None:
        super().__init__(candidates)
        if dtype not in ("f32", "f16", "i8"):
            raise InfluenceError(f"dtype is {dtype!r}, expected 'f32', 'f16' or 'i8'.")
        try:
            from usearch.index import Index
        except ImportError as error:
            raise _not_installed("UsearchNearestNeighbors", "usearch") from error
        self.dtype, self.path = dtype, None if path is None else Path(path)
        self._make: Any = Index
        self._index: Any = None

    def _build(self, data: Tensor) -> None:
        # Lengths beyond 1 would be cut off in 8 bits; the order of a query's products stays.
        largest = data.norm(dim=1).amax().clamp(min=1e-30)
        self._index = self._make(ndim=data.shape[1], metric="ip", dtype=self.dtype)
        self._index.add(torch.arange(len(data)).numpy(), (data / largest).numpy())
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f".{self.path.name}.tmp")
            self._index.save(str(temporary))
            replace(temporary, self.path)
            self._index = self._make.restore(str(self.path), view=True)

    def _candidates(self, query: Tensor, count: int) -> Tensor:
        unit = query / query.norm(dim=1, keepdim=True).clamp(min=1e-30)
        found = self._index.search(unit.numpy(), count)
        places = torch.full((len(query), count), -1)
        # One query gives a list of its own, several a matrix.
        keys = torch.as_tensor(found.keys.astype("int64")).reshape(len(query), -1)
        counts = torch.as_tensor(getattr(found, "counts", [keys.shape[1]])).reshape(-1, 1)
        filled = torch.arange(keys.shape[1]) < counts
        places[:, : keys.shape[1]] = torch.where(filled, keys, -1)
        return places


class FaissNearestNeighbors(_ApproximateNearestNeighbors):
    """Search in an index of `faiss`, which has to be installed.

    Args:
        factory: a description of the index, as `faiss.index_factory` takes it.
        candidates: how many times `k` it is asked for, before they are ranked exactly.
    """

    def __init__(self, factory: str = "HNSW32", candidates: int = 4) -> None:
        super().__init__(candidates)
        try:
            import faiss
        except ImportError as error:
            raise _not_installed("FaissNearestNeighbors", "faiss") from error
        self.factory = factory
        self._faiss: Any = faiss
        self._index: Any = None

    def _build(self, data: Tensor) -> None:
        try:
            self._index = self._faiss.index_factory(data.shape[1], self.factory, self._faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise InfluenceError(f"factory is {self.factory!r}, which faiss does not know: {error}") from error
        vectors = data.contiguous().numpy()
        if not self._index.is_trained:
            self._index.train(vectors)
        self._index.add(vectors)

    def _candidates(self, query: Tensor, count: int) -> Tensor:
        return torch.as_tensor(self._index.search(query.contiguous().numpy(), count)[1])


def default_nearest_neighbors(examples: int) -> NearestNeighbors:
    """Exact search, or usearch's where it is installed and there are more than a million vectors."""
    if examples > _EXACT:
        try:
            return UsearchNearestNeighbors()
        except ImportError:
            pass  # exact search is slower, and right
    return ExactNearestNeighbors()


def _not_installed(name: str, package: str) -> ImportError:
    return ImportError(
        f"{name} needs {package}. Run: pip install 'flambeau-influence[{package}]', or leave `nearest_neighbors` out."
    )

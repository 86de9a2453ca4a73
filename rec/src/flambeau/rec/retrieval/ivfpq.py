"""An inverted file of product-quantized vectors (Jegou et al. 2011, section IV).

Letters: N vectors of d columns in L lists, M bytes each; n queries.

A vector x is in the list of its nearest centroid c, as the code of x - c. What stands for it is y = c + r, and for a
query q

    |q - y|^2 = (|q|^2 - 2 q.c) - 2 q.r + |y|^2,

of which the first part is one number for a list, q.r the sum of M entries of a table that a query needs once, and the
last a number that is stored: 4 bytes for each vector save a table for each list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.ops.ivfpq import ivfpq_scan
from flambeau.rec.retrieval._vectors import check_k, check_metric, like, vectors
from flambeau.rec.retrieval.kmeans import kmeans, nearest_centroids
from flambeau.rec.retrieval.product_quantizer import ProductQuantizer

__all__ = ["IVFPQIndex"]

_FORMAT = "flambeau.rec.IVFPQIndex/1"
_AT_ONCE = 1 << 16  # vectors encoded at a time
_QUERIES = 1 << 12  # queries answered at a time: their tables of products are 8 KiB each with M = 8


class IVFPQIndex:
    """Near vectors of millions, in M + 12 bytes each, found by looking at a few lists.

    Its methods are named as faiss's are; queries may be tensors or NumPy's arrays, and results are of the same kind.

    Args:
        dim: d, a multiple of `num_subquantizers`.
        num_centroids: L; about the square root of N, or some times that.
        num_subquantizers: M.
        bits_per_code: 1 to 8; M * bits are what is left of a vector.
        num_probe: lists that are searched for a query; may be changed at any time.
        metric: "l2", squared distances, or "inner_product", where larger is nearer.
        device: where the index is.
        seed: of the random numbers of `train`.

    Attributes:
        nprobe: lists that are searched for a query.

    Raises:
        OptionError: sizes that do not fit, or another metric.

    Example:
        >>> items = torch.randn(5000, 32, generator=torch.Generator().manual_seed(0))
        >>> index = IVFPQIndex(32, num_centroids=64, num_probe=8)
        >>> index.train(items)
        >>> index.add(items)
        >>> distances, ids = index.search(items[:3], k=5)
        >>> ids[:, 0]
        tensor([0, 1, 2])
    """

    def __init__(
        self,
        dim: int,
        num_centroids: int = 100,
        num_subquantizers: int = 8,
        bits_per_code: int = 8,
        *,
        num_probe: int = 8,
        metric: str = "l2",
        device: torch.device | str | None = None,
        seed: int = 0,
    ) -> None:
        check_metric(metric)
        for name, value in (("dim", dim), ("num_centroids", num_centroids), ("num_probe", num_probe)):
            if value < 1:
                raise OptionError(f"{name} is {value}, expected at least 1.")
        self.d, self.num_centroids, self.nprobe, self.metric = dim, num_centroids, num_probe, metric
        self.quantizer = ProductQuantizer(dim, num_subquantizers, bits_per_code)
        self.device, self.seed = torch.device(device or "cpu"), seed
        self.centroids: Tensor | None = None
        self._pending: list[tuple[Tensor, ...]] = []
        self.reset()

    @property
    def is_trained(self) -> bool:
        """Whether vectors can be added."""
        return self.centroids is not None

    @property
    def ntotal(self) -> int:
        """N."""
        return len(self._ids) + sum(len(part[1]) for part in self._pending)

    def __len__(self) -> int:
        return self.ntotal

    def __repr__(self) -> str:
        return (
            f"IVFPQIndex({self.ntotal} vectors of {self.d} columns in {self.num_centroids} lists, "
            f"{self.quantizer.num_subquantizers} x {self.quantizer.bits_per_code} bits, {self.metric}, "
            f"nprobe {self.nprobe}{'' if self.is_trained else ', not trained'})"
        )

    def reset(self) -> None:
        """Take all vectors out; what it was trained to stays."""
        self._ids = torch.empty(0, dtype=torch.int64, device=self.device)
        self._codes = torch.empty(0, self.quantizer.num_subquantizers, dtype=torch.uint8, device=self.device)
        self._norms = torch.empty(0, device=self.device)
        self._offsets = torch.zeros(self.num_centroids + 1, dtype=torch.int64, device=self.device)
        self._pending = []

    def train(self, x: Any, *, iterations: int = 25) -> None:
        """Find the centroids of lists, and those of codes.

        Args:
            x: (n, d), of the kind that will be added: at least L, and at least 2^bits; some 40 for each of the
                larger number are enough, more than 256 are not looked at.
            iterations: of k-means.

        Raises:
            OptionError: there are vectors in the index already, or too few to train with.
        """
        if self.ntotal:
            raise OptionError(f"the index holds {self.ntotal} vectors coded by its training; call reset() first.")
        points = vectors("x", x, self.d, self.device)
        needed = max(self.num_centroids, 2**self.quantizer.bits_per_code)
        if len(points) < needed:
            raise OptionError(
                f"x has {len(points)} vectors, expected at least {needed}: one for each of num_centroids and 2^bits. "
                "Use fewer centroids or bits for so few."
            )
        draw = torch.Generator(self.device).manual_seed(self.seed)
        most = needed * 256
        if len(points) > most:
            points = points[torch.randperm(len(points), generator=draw, device=self.device)[:most]]
        self.centroids = kmeans(points, self.num_centroids, iterations=iterations, generator=draw)
        lists = nearest_centroids(points.unsqueeze(0), self.centroids.unsqueeze(0))[0]
        self.quantizer.train(points - self.centroids[lists], iterations=iterations, generator=draw)

    def add(self, x: Any) -> None:
        """Add vectors (n, d), numbered on from `ntotal`.

        Raises:
            OptionError: not trained yet, or vectors of another shape.
        """
        self.add_with_ids(x, torch.arange(self.ntotal, self.ntotal + len(x)))

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """Add vectors under numbers of their own.

        Args:
            x: (n, d).
            ids: (n,) whole numbers, at least 0.

        Raises:
            OptionError: not trained yet, vectors of another shape, or numbers that do not fit.
        """
        centroids = self._trained()
        points = vectors("x", x, self.d, self.device)
        numbers = torch.as_tensor(ids, device=self.device)
        if numbers.shape != (len(points),) or numbers.is_floating_point() or numbers.dtype == torch.bool:
            raise OptionError(
                f"ids has shape {tuple(numbers.shape)} and dtype {numbers.dtype}, expected ({len(points)},) integers."
            )
        if len(numbers) and int(numbers.min()) < 0:
            raise OptionError(f"ids has {int(numbers.min())}, expected at least 0: -1 stands for nothing found.")
        for some, part in zip(points.split(_AT_ONCE), numbers.long().split(_AT_ONCE), strict=True):
            lists = nearest_centroids(some.unsqueeze(0), centroids.unsqueeze(0))[0]
            codes = self.quantizer.encode(some - centroids[lists])
            norms = (centroids[lists] + self.quantizer.decode(codes)).square().sum(1)
            self._pending.append((lists, part, codes, norms))

    def remove_ids(self, ids: Any) -> int:
        """Take the vectors of these numbers out; returns how many those were."""
        self._sort()
        gone = torch.isin(self._ids, torch.as_tensor(ids, device=self.device).long())
        lists = self._lists()[~gone]
        self._ids, self._codes, self._norms = self._ids[~gone], self._codes[~gone], self._norms[~gone]
        self._offsets = self._counted(lists)
        return int(gone.sum())

    def search(self, x: Any, k: int) -> tuple[Any, Any]:
        """Find near ones.

        Args:
            x: (n, d) queries, a tensor or an array.
            k: how many for each.

        Returns:
            Squared distances, ascending, or products, descending, (n, k) float32, to what stands for the vectors; and
            their numbers (n, k) int64, -1 where the lists hold fewer than k. Arrays, if the queries are one.

        Raises:
            OptionError: not trained yet, k below 1, or queries of another shape.
        """
        check_k(k)
        centroids = self._trained()
        queries = vectors("x", x, self.d, self.device)
        self._sort()
        found = [self._of(part, k, centroids) for part in queries.split(_QUERIES)]
        sums, rows = (torch.cat(parts) for parts in zip(*found, strict=True))
        ids = self._ids[rows.clamp(min=0)] if len(self._ids) else rows
        scores = sums.clamp(min=0) if self.metric == "l2" else -sums
        return like(x, scores, ids.where(rows >= 0, -1))

    def _of(self, queries: Tensor, k: int, centroids: Tensor) -> tuple[Tensor, Tensor]:
        near = torch.mm(queries, centroids.T)
        by_distance = self.metric == "l2"
        factor = -2.0 if by_distance else -1.0
        farness = factor * near + (centroids.square().sum(1) if by_distance else 0.0)
        lists = farness.topk(min(self.nprobe, self.num_centroids), largest=False).indices
        coarse = factor * near.gather(1, lists)
        if by_distance:
            coarse += queries.square().sum(1, keepdim=True)
        norms = self._norms if by_distance else torch.zeros_like(self._norms)
        products = self.quantizer.products(queries) * factor
        return ivfpq_scan(products, coarse, lists, self._offsets, self._codes, norms, k)

    def reconstruct(self, ids: Any) -> Tensor:
        """What stands for the vectors of these numbers, (n, d) float32.

        Raises:
            OptionError: a number that is not in the index.
        """
        self._sort()
        wanted = torch.as_tensor(ids, device=self.device).long()
        order = self._ids.argsort()
        place = torch.searchsorted(self._ids[order], wanted).clamp(max=max(self.ntotal - 1, 0))
        rows = order[place] if self.ntotal else place
        if len(wanted) and (not self.ntotal or not torch.equal(self._ids[rows], wanted)):
            raise OptionError("ids has numbers that are not in the index.")
        return self._trained()[self._lists()[rows]] + self.quantizer.decode(self._codes[rows])

    def to(self, device: torch.device | str) -> IVFPQIndex:
        """Move it; returns itself."""
        self._sort()
        self.device = torch.device(device)
        for name in ("_ids", "_codes", "_norms", "_offsets"):
            setattr(self, name, getattr(self, name).to(self.device))
        if self.centroids is not None and self.quantizer.codebooks is not None:
            self.centroids = self.centroids.to(self.device)
            self.quantizer.codebooks = self.quantizer.codebooks.to(self.device)
        return self

    def save(self, path: str | Path) -> None:
        """Write it into a file of safetensors.

        Raises:
            OptionError: not trained yet.
        """
        from safetensors.torch import save_file

        self._sort()
        options = {
            "dim": self.d,
            "num_centroids": self.num_centroids,
            "num_subquantizers": self.quantizer.num_subquantizers,
            "bits_per_code": self.quantizer.bits_per_code,
            "num_probe": self.nprobe,
            "metric": self.metric,
            "seed": self.seed,
        }
        tensors = {name: tensor.cpu().contiguous() for name, tensor in self._tensors().items()}
        save_file(tensors, path, {"format": _FORMAT, "options": json.dumps(options)})

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str | None = None) -> IVFPQIndex:
        """Read one that `save` wrote.

        Raises:
            OptionError: the file is none, or damaged.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                facts = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
        except SafetensorError as error:
            raise OptionError(f"{path} cannot be read: {error}; it is no file that IVFPQIndex.save wrote.") from error
        if facts.get("format") != _FORMAT:
            raise OptionError(f"{path} is of the format {facts.get('format')!r}, expected {_FORMAT!r}.")
        index = cls(**json.loads(facts["options"]))
        for name, tensor in index._shapes(len(tensors.get("ids", ()))).items():
            if name not in tensors or tuple(tensors[name].shape) != tensor:
                raise OptionError(f"{path} is damaged: it has no {name!r} of shape {tensor}.")
        index.centroids, index.quantizer.codebooks = tensors["centroids"], tensors["codebooks"]
        index._ids, index._codes, index._norms = tensors["ids"], tensors["codes"], tensors["norms"]
        index._offsets = tensors["offsets"]
        return index.to(device or "cpu")

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "centroids": self._trained(),
            "codebooks": self.quantizer._trained(),
            "ids": self._ids,
            "codes": self._codes,
            "norms": self._norms,
            "offsets": self._offsets,
        }

    def _shapes(self, count: int) -> dict[str, tuple[int, ...]]:
        parts, entries = self.quantizer.num_subquantizers, 2**self.quantizer.bits_per_code
        return {
            "centroids": (self.num_centroids, self.d),
            "codebooks": (parts, entries, self.d // parts),
            "ids": (count,),
            "codes": (count, parts),
            "norms": (count,),
            "offsets": (self.num_centroids + 1,),
        }

    def _trained(self) -> Tensor:
        if self.centroids is None:
            raise OptionError("the index is not trained; call train with some of the vectors first.")
        return self.centroids

    def _lists(self) -> Tensor:
        """The list of each vector, (N,)."""
        numbers = torch.arange(self.num_centroids, device=self.device)
        return numbers.repeat_interleave(self._offsets.diff(), output_size=len(self._ids))

    def _counted(self, lists: Tensor) -> Tensor:
        offsets = torch.zeros(self.num_centroids + 1, dtype=torch.int64, device=self.device)
        offsets[1:] = torch.bincount(lists, minlength=self.num_centroids).cumsum(0)
        return offsets

    def _sort(self) -> None:
        """Bring what was added into its lists."""
        if not self._pending:
            return
        parts = [(self._lists(), self._ids, self._codes, self._norms), *self._pending]
        lists, ids, codes, norms = (torch.cat(some) for some in zip(*parts, strict=True))
        order = lists.argsort(stable=True)
        self._ids, self._codes, self._norms = ids[order], codes[order], norms[order]
        self._offsets, self._pending = self._counted(lists), []

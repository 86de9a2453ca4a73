"""Product quantization (Jegou et al. 2011, Product Quantization for Nearest Neighbor Search, section II)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.rec.errors import OptionError
from flambeau.rec.retrieval.kmeans import kmeans, nearest_centroids

__all__ = ["ProductQuantizer"]

ENTRIES = 256  # of a table of products, whatever the bits of a code, so that no code can lead out of it


class ProductQuantizer:
    """Vectors cut into parts, each of which is replaced by the number of a centroid.

    Letters: M parts, K = 2^bits centroids of each part, d columns of a vector.

    Args:
        dim: d, a multiple of the number of parts.
        num_subquantizers: M.
        bits_per_code: 1 to 8.

    Attributes:
        codebooks: (M, K, d / M) float32 after `train`, None before.

    Raises:
        OptionError: parts that do not divide the columns, or other numbers of bits.
    """

    def __init__(self, dim: int, num_subquantizers: int = 8, bits_per_code: int = 8) -> None:
        if num_subquantizers < 1 or dim % num_subquantizers:
            raise OptionError(f"dim is {dim}, expected a multiple of num_subquantizers, {num_subquantizers}.")
        if not 1 <= bits_per_code <= 8:
            raise OptionError(f"bits_per_code is {bits_per_code}, expected 1 to 8.")
        self.dim, self.num_subquantizers, self.bits_per_code = dim, num_subquantizers, bits_per_code
        self.codebooks: Tensor | None = None

    def train(self, vectors: Tensor, *, iterations: int = 25, generator: torch.Generator | None = None) -> None:
        """Find the centroids of each part.

        Args:
            vectors: (n, d) float32, at least K.
            iterations: of k-means.
            generator: of random numbers.

        Raises:
            OptionError: fewer vectors than centroids.
        """
        count = 2**self.bits_per_code
        self.codebooks = kmeans(self._parts(vectors), count, iterations=iterations, generator=generator)

    def encode(self, vectors: Tensor) -> Tensor:
        """The codes (n, M) uint8 of vectors (n, d)."""
        return nearest_centroids(self._parts(vectors), self._trained()).T.to(torch.uint8).contiguous()

    def decode(self, codes: Tensor) -> Tensor:
        """The vectors (n, d) that codes (n, M) stand for."""
        parts = torch.arange(self.num_subquantizers, device=codes.device)
        return self._trained()[parts, codes.long()].flatten(1)

    def products(self, queries: Tensor) -> Tensor:
        """Of each part of queries (n, d) the products with all centroids of that part: (n, M, 256), 0 beyond K."""
        made = torch.einsum("mnd,mkd->nmk", self._parts(queries), self._trained())
        return F.pad(made, (0, ENTRIES - made.shape[2])).contiguous()

    def _parts(self, vectors: Tensor) -> Tensor:
        return vectors.view(len(vectors), self.num_subquantizers, self.dim // self.num_subquantizers).transpose(0, 1)

    def _trained(self) -> Tensor:
        if self.codebooks is None:
            raise OptionError("the quantizer has no centroids; call train first.")
        return self.codebooks

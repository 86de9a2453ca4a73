"""Random projections whose matrices are not stored: every entry is a function of a seed and of its place.

A matrix of signs keeps scalar products about as they are (Achlioptas, "Database-friendly random projections", 2003,
after Johnson and Lindenstrauss). Its signs are the bits of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014) at counters, so that a result depends on neither the size of a batch nor on what
was projected before, and processes that share a seed share the matrix.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from flambeau.influence.errors import InfluenceError

__all__ = ["RandomProjection"]

# Entries of the matrix that are there at a time: 64 MB of float32.
_ENTRIES = 1 << 24
# Words of 64 signs that a row may have.
_WORDS = 1 << 24


def _signed(value: int) -> int:
    """The int64 of the same bits: torch counts modulo 2^64 in signed numbers."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


_GAMMA, _FIRST, _SECOND = (_signed(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class RandomProjection:
    """Project rows on `dim` numbers by a matrix of entries +-1 / sqrt(dim).

    Args:
        dim: numbers of a projected row.
        seed: of the matrix.
        stream: which of the matrices of a seed; they are independent.

    Raises:
        InfluenceError: a `dim` below 1.

    Example:
        >>> rows = torch.randn(5, 300)
        >>> RandomProjection(64)(rows).shape
        torch.Size([5, 64])
    """

    def __init__(self, dim: int, seed: int = 0, stream: int = 0) -> None:
        if int(dim) != dim or not 1 <= dim <= 64 * _WORDS:
            raise InfluenceError(f"The dimension of a projection is {dim!r}, expected a positive int.")
        self.dim, self.seed, self.stream = dim, seed, stream
        self._scale = math.sqrt(1 / dim)
        key = _mixed(torch.tensor([_signed(seed)])) + _signed(stream * _GAMMA)
        self._key = int(_mixed(key))

    def __call__(self, rows: Tensor) -> Tensor:
        """Rows (examples, numbers) to (examples, dim), float32 or the rows' own floating-point dtype."""
        total = rows.new_zeros(len(rows), self.dim)
        for begin, signs in self._blocks(rows.shape[1], rows):
            total.addmm_(rows[:, begin : begin + len(signs)], signs)
        return total * self._scale

    def matrix(self, numbers: int) -> Tensor:
        """The matrix of rows of `numbers`, (numbers, dim), float32; for small ones."""
        blocks = [signs for _, signs in self._blocks(numbers, torch.empty(0))]
        return torch.cat(blocks) * self._scale

    def _blocks(self, numbers: int, like: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Some rows of signs after the other, and where they begin; which ones depends on `dim` alone."""
        each = max(1, _ENTRIES // self.dim)
        table = _table(like.dtype).to(like.device)
        words = torch.arange(-(-self.dim // 64), device=like.device)
        for begin in range(0, numbers, each):
            places = torch.arange(begin, min(begin + each, numbers), device=like.device)
            counters = places.unsqueeze(1) * _WORDS + words
            parts = _mixed(counters * _GAMMA + self._key).view(torch.uint8)
            yield begin, table[parts.int()].flatten(1)[:, : self.dim]


def _mixed(words: Tensor) -> Tensor:
    """SplitMix64's function of 64 bits."""
    words = (words ^ _shifted(words, 30)) * _FIRST
    words = (words ^ _shifted(words, 27)) * _SECOND
    return words ^ _shifted(words, 31)


def _shifted(words: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (words >> by) & ((1 << (64 - by)) - 1)


@cache
def _table(dtype: torch.dtype) -> Tensor:
    """The eight signs of each byte, the lowest bit first on machines that store the lowest byte first."""
    bits = (torch.arange(256).unsqueeze(1) >> torch.arange(8)) & 1
    signs = 2 * bits - 1
    return (signs if sys.byteorder == "little" else signs.flip(1)).to(dtype)

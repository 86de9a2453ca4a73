"""Initial rows that are computed from their numbers, so that a table need not be written before it is used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["UniformRows"]

_GOLDEN = 0x9E3779B97F4A7C15
_CHUNK = 1 << 20  # numbers that are made at a time, so that little memory is needed


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A number from a counter, in place, the same on every machine (SplitMix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        state += np.uint64(_GOLDEN)
        state ^= state >> np.uint64(30)
        state *= np.uint64(0xBF58476D1CE4E5B9)
        state ^= state >> np.uint64(27)
        state *= np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


@dataclass(frozen=True)
class UniformRows:
    """Rows of uniform random numbers, each of which depends on its seed, row and column alone.

    Args:
        seed: of the table.
        columns: numbers in a row.
        lower: numbers are at least this.
        upper: and below this.
    """

    seed: int
    columns: int
    lower: float
    upper: float

    def __call__(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The rows of some numbers: (len(rows), columns) float32."""
        found = np.empty((len(rows), self.columns), np.float32)
        step = max(_CHUNK // max(self.columns, 1), 1)
        for begin in range(0, len(rows), step):
            found[begin : begin + step] = self._some(rows[begin : begin + step])
        return found

    def _some(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        pairs = -(-self.columns // 2)  # one mixed number gives two of 24 bits
        with np.errstate(over="ignore"):
            counters = np.empty((len(rows), pairs), np.uint64)
            np.multiply(rows.astype(np.uint64)[:, None], np.uint64(pairs), out=counters)
            counters += np.arange(pairs, dtype=np.uint64)
            counters ^= _mixed(np.array([self.seed & 0xFFFFFFFFFFFFFFFF], np.uint64))
        mixed = _mixed(counters).view(np.uint32).reshape(len(rows), 2 * pairs)[:, : self.columns]
        unit = (mixed >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        unit *= np.float32(self.upper - self.lower)
        unit += np.float32(self.lower)
        return unit

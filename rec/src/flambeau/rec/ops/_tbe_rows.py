"""Rows of tables in plain torch: where they are, and how numbers are rounded to theirs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from flambeau.rec.ops._tbe_types import OptimizerSettings

__all__ = ["Rows", "by_chance"]


@dataclass(frozen=True)
class Rows:
    """Rows of one table, some of which may be in a cache for the time being.

    Args:
        table: (rows, dim).
        base: number of its first row among all rows of all tables.
        cache: (slots, widest).
    """

    table: Tensor
    base: int = 0
    cache: Tensor | None = None

    def read(self, ids: Tensor, slots: Tensor | None = None) -> Tensor:
        """(n, dim) float32, where `ids` are.

        Args:
            ids: (n,).
            slots: (n,) of the cache; -1 for rows that are not there.
        """
        found = self.table[ids.to(self.table.device)].to(ids.device).float()
        if slots is None or self.cache is None:
            return found
        there = slots >= 0
        if bool(there.any()):
            found[there] = self.cache[slots[there].long(), : self.table.shape[1]].float()
        return found

    def write(self, ids: Tensor, values: Tensor, settings: OptimizerSettings, slots: Tensor | None = None) -> None:
        """Put rows back where they were read.

        Args:
            ids: (n,), each once.
            values: (n, dim).
            settings: whether numbers are rounded by chance.
            slots: see `read`.
        """
        if slots is None or self.cache is None:
            self._write_table(ids, values, settings)
            return
        there = slots >= 0
        if bool(there.any()):
            rounded = self._rounded(ids[there], values[there], self.cache.dtype, settings)
            self.cache[slots[there].long(), : self.table.shape[1]] = rounded
        self._write_table(ids[~there], values[~there], settings)

    def _write_table(self, ids: Tensor, values: Tensor, settings: OptimizerSettings) -> None:
        rounded = self._rounded(ids, values, self.table.dtype, settings)
        self.table[ids.to(self.table.device)] = rounded.to(self.table.device)

    def _rounded(self, ids: Tensor, values: Tensor, dtype: torch.dtype, settings: OptimizerSettings) -> Tensor:
        if not settings.stochastic_rounding or dtype == torch.float32:
            return values.to(dtype)
        numbers = (ids.long() + self.base).unsqueeze(1)
        return by_chance(values, dtype, settings.seed, numbers)


def _mixed(x: Tensor) -> Tensor:
    """SplitMix64 (Steele et al. 2014) of each number, as native/tbe_backward.cpp has it."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shifted(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shifted(x, 31)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Without the sign that a shift to the right would fill up with."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def by_chance(values: Tensor, dtype: torch.dtype, seed: int, numbers: Tensor) -> Tensor:
    """Round up or down by chance, so that the mean is the number itself.

    Args:
        values: (n, dim) float32.
        dtype: float16 or bfloat16.
        seed: of this step.
        numbers: (n, 1) of the rows among all rows of all tables.

    Returns:
        (n, dim): the same numbers as native kernels give.
    """
    columns = torch.arange(values.shape[1], device=values.device)
    chance = _shifted(_mixed(_mixed(numbers << 20 ^ columns) ^ seed), 32)
    raw = values.contiguous().view(torch.int32).long() & 0xFFFFFFFF
    lost = 13 if dtype == torch.float16 else 16
    moved = (raw + (chance & ((1 << lost) - 1))) & (0xFFFFFFFF << lost)
    moved = torch.where(moved >= 1 << 31, moved - (1 << 32), moved).int().view(torch.float32).to(dtype)
    size = raw & 0x7FFFFFFF
    # A number of float16 that is denormal loses more bits, and is rounded to nearest; so is one that does not fit.
    nearest = (size < 0x38800000) | (size >= 0x477FE000) if dtype == torch.float16 else size >= 0x7F800000
    return torch.where(nearest, values.to(dtype), moved)

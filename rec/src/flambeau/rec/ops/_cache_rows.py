"""Rows between tables in host memory and a cache: whole numbers that are trained, or bytes that are only read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Rows", "RowsOfBytes", "Tables", "WholeRows"]


class Rows(Protocol):
    """What moves rows, given by their numbers among all cached rows."""

    def read(self, indices: Tensor, slots: Tensor) -> None:
        """From the tables to slots of the cache."""

    def write_back(self, indices: Tensor, slots: Tensor) -> None:
        """From slots of the cache to the tables."""


@dataclass(frozen=True)
class Tables:
    """Where the rows of tables are.

    Args:
        starts: (T + 1,) number of each table's first row; -1 for tables that are not cached.
        table_map: (rows,) the table of each cached row.
        offsets: (T,) where each table begins in memory.
    """

    starts: Tensor
    table_map: Tensor
    offsets: Tensor

    def by_table(self, indices: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Each table with rows among those given: its number, which of them, and the rows in it."""
        table = self.table_map.to(indices.device)[indices].long()
        for one in table.unique().tolist():
            chosen = (table == one).nonzero()[:, 0]
            yield one, chosen, indices[chosen] - int(self.starts[one])


class WholeRows:
    """Rows of numbers, which are written back when they leave.

    Args:
        tables: where they are.
        weights: all tables, one after another.
        D_offsets: (T + 1,) running sums of widths.
        cached: (slots, widest).
    """

    def __init__(self, tables: Tables, weights: Tensor, D_offsets: Tensor, cached: Tensor) -> None:
        self._tables, self._weights, self._cached = tables, weights, cached
        self._widths = D_offsets.diff().tolist()

    def _rows(self, indices: Tensor) -> Iterator[tuple[Tensor, Tensor, int]]:
        for table, chosen, rows in self._tables.by_table(indices):
            width, begin = self._widths[table], int(self._tables.offsets[table])
            columns = torch.arange(width, device=rows.device)
            yield chosen, begin + rows[:, None] * width + columns, width

    def read(self, indices: Tensor, slots: Tensor) -> None:
        """From the tables to slots of the cache."""
        for chosen, places, width in self._rows(indices):
            found = self._weights.view(-1)[places.to(self._weights.device)]
            self._cached[slots[chosen], :width] = found.to(self._cached.device, self._cached.dtype)

    def write_back(self, indices: Tensor, slots: Tensor) -> None:
        """From slots of the cache to the tables."""
        for chosen, places, width in self._rows(indices):
            found = self._cached[slots[chosen], :width].to(self._weights.device, self._weights.dtype)
            self._weights.view(-1)[places.to(self._weights.device)] = found


# Of `SparseType` as an integer: bits of an entry, and bytes of a row's scale and shift.
_FORMATS = {0: (32, 0), 1: (16, 0), 2: (8, 4), 3: (4, 4), 4: (2, 4), 5: (16, 0), 6: (8, 0), 8: (8, 0)}


class RowsOfBytes:
    """Rows of quantized tables, which are only read.

    Args:
        tables: where they are, in bytes.
        weights: uint8, all tables.
        weights_tys: (T,) the number of each table's `SparseType`.
        D_offsets: (T + 1,) running sums of widths.
        cached: (slots, bytes) uint8.
        row_alignment: bytes that a row is a multiple of.
    """

    def __init__(
        self,
        tables: Tables,
        weights: Tensor,
        weights_tys: Tensor,
        D_offsets: Tensor,
        cached: Tensor,
        row_alignment: int,
    ) -> None:
        self._tables, self._weights, self._cached = tables, weights, cached
        formats = [_FORMATS[kind] for kind in weights_tys.tolist()]
        sizes = [
            (width * bits + 7) // 8 + more
            for width, (bits, more) in zip(D_offsets.diff().tolist(), formats, strict=True)
        ]
        self._bytes = [-(-size // row_alignment) * row_alignment for size in sizes]

    def read(self, indices: Tensor, slots: Tensor) -> None:
        """From the tables to slots of the cache."""
        for table, chosen, rows in self._tables.by_table(indices):
            size, begin = self._bytes[table], int(self._tables.offsets[table])
            places = begin + rows[:, None] * size + torch.arange(size, device=rows.device)
            found = self._weights.view(-1)[places.to(self._weights.device)]
            self._cached[slots[chosen], :size] = found.to(self._cached.device)

    def write_back(self, indices: Tensor, slots: Tensor) -> None:
        """They are not changed."""

"""How a row and what its optimizer keeps of it lie in a record on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import Bytes, Rows

__all__ = ["RowFormat"]


@dataclass(frozen=True)
class RowFormat:
    """A record: the row, filled up to four bytes, then each state as float32.

    Args:
        columns: of the row.
        dtype: of the row.
        states: of each state, how many numbers a row has of it: `columns`, or 1.
    """

    columns: int
    dtype: torch.dtype
    states: tuple[int, ...] = ()

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of the row itself."""
        return self.columns * self.dtype.itemsize

    @cached_property
    def parts(self) -> list[slice]:
        """Where in a record the row is, and where each state is."""
        found, at = [slice(0, self.row_bytes)], -(-self.row_bytes // 4) * 4
        for numbers in self.states:
            found.append(slice(at, at + 4 * numbers))
            at += 4 * numbers
        return found

    @cached_property
    def record_bytes(self) -> int:
        """Bytes of a record."""
        last: int = self.parts[-1].stop
        return -(-last // 4) * 4

    def initial(self, make: Callable[[Rows], np.ndarray], rows: Rows) -> Bytes:
        """Records of rows that begin as `make` makes them, with states of zero."""
        records = np.zeros((len(rows), self.record_bytes), np.uint8)
        records[:, self.parts[0]] = _bytes(torch.from_numpy(make(rows)).to(self.dtype))
        return records

    def unpack(self, records: Bytes, part: int) -> Tensor:
        """The rows, or a state of them, as they are in records: (len(records), numbers), a copy."""
        dtype = self.dtype if part == 0 else torch.float32
        numbers = self.columns if part == 0 else self.states[part - 1]
        if not len(records):
            return torch.empty(0, numbers, dtype=dtype)
        taken = np.ascontiguousarray(records[:, self.parts[part]])
        return torch.from_numpy(taken).view(dtype)

    def pack(self, records: Bytes, part: int, values: Tensor) -> None:
        """Write rows, or a state of them, into records."""
        dtype = self.dtype if part == 0 else torch.float32
        records[:, self.parts[part]] = _bytes(values.detach().to("cpu", dtype).reshape(len(records), -1))


def _bytes(values: Tensor) -> Bytes:
    if not values.numel():  # which torch cannot view as other elements
        return np.empty((values.shape[0], values.shape[1] * values.element_size()), np.uint8)
    found: Bytes = values.contiguous().view(torch.uint8).numpy()
    return found

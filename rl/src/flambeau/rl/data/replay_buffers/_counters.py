"""Whole numbers that several objects, threads or processes count in: cursors, lengths, generations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Counters"]


class Counters:
    """A fixed number of int64 values, private at first, in memory that processes share after `share`.

    A pickle that multiprocessing makes of shared counters refers to the same memory; any other is a copy.

    Args:
        count: how many.
        fill: their first value.
    """

    def __init__(self, count: int, fill: int = 0) -> None:
        self.tensor = torch.full((count,), fill, dtype=torch.int64)
        self.values = self.tensor.numpy()

    def share(self) -> None:
        """Move the values to shared memory; what holds this object holds the shared ones from now on."""
        if not self.tensor.is_shared():
            self.tensor = self.tensor.clone().share_memory_()
            self.values = self.tensor.numpy()

    def __getitem__(self, at: Any) -> Any:
        return self.values[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self.values[at] = value

    def add(self, at: Any, amount: Any = 1) -> None:
        """Count up, writing each value once.

        `counters[at] += 1` writes a slice twice, and what another process made of it in between would be lost.
        """
        if isinstance(at, slice):
            view = self.values[at]
            np.add(view, amount, out=view)
        else:
            self.values[at] += amount

    def __len__(self) -> int:
        return len(self.values)

    def __getstate__(self) -> dict[str, Tensor]:
        return {"tensor": self.tensor}

    def __setstate__(self, state: dict[str, Tensor]) -> None:
        self.tensor = state["tensor"]
        self.values = self.tensor.numpy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Counters:
        twin = Counters(0)
        twin.tensor = self.tensor.clone()
        twin.values = twin.tensor.numpy()
        return twin

    def load(self, values: Any) -> None:
        """Take over other values, in place."""
        self.values[:] = np.asarray(values)

"""Segment trees for prioritized sampling: `SumSegmentTreeFp32`, `SumSegmentTreeFp64`, and those of minima.

Upstream's extension module has these names. Here each is a tensor with the operators of `flambeau.rl.ops.segment_tree`,
so that trees work with every build of torch, on every device, and can live in memory that processes share.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flambeau.rl.ops import segment_tree

__all__ = ["MinSegmentTreeFp32", "MinSegmentTreeFp64", "SumSegmentTreeFp32", "SumSegmentTreeFp64"]


class _SegmentTree:
    """An array of `size` numbers of which any range can be summed up in logarithmic time.

    An index is an int, a list, a NumPy array or a tensor; what comes back is a float, an array for a list or an array,
    or a tensor.

    Args:
        size: how many entries there are, > 0.
        device: where the tree lives.

    Raises:
        ValueError: size < 1.
    """

    _dtype: ClassVar[torch.dtype]
    _minimum: ClassVar[bool]
    _identity: ClassVar[float]

    def __init__(self, size: int, device: torch.device | str | None = None) -> None:
        if size < 1:
            raise ValueError(f"{type(self).__name__}: size is {size}, expected at least 1.")
        self._size = int(size)
        # Upstream: a power of two above the size, never equal to it.
        self._capacity = 1 << self._size.bit_length()
        self._tree = torch.full((2 * self._capacity,), self._identity, dtype=self._dtype, device=device)

    @property
    def size(self) -> int:
        """How many entries there are."""
        return self._size

    @property
    def capacity(self) -> int:
        """How many leaves the tree has: the smallest power of two above the size."""
        return self._capacity

    @property
    def identity_element(self) -> float:
        """What a range without entries gives: 0 for sums, the largest finite number for minima."""
        return self._identity

    @property
    def device(self) -> torch.device:
        """Where the tree lives."""
        return self._tree.device

    def __len__(self) -> int:
        return self._size

    def at(self, index: Any) -> Any:
        """The entries at an index.

        Raises:
            IndexError: outside of 0 to size - 1.
        """
        if isinstance(index, int):
            self._check_one(index)
            return self._tree[self._capacity + index].item()
        return _like(index, self._tree[self._capacity + self._checked(index)])

    __getitem__ = at

    def update(self, index: Any, value: Any) -> None:
        """Give entries new values: one for each, or one for all.

        Raises:
            IndexError: outside of 0 to size - 1.
            ValueError: neither one value nor as many as the index has.
        """
        places = self._checked(index).reshape(-1)
        values = torch.as_tensor(value, dtype=self._dtype, device=self._tree.device).reshape(-1)
        if values.numel() != places.numel():
            if values.numel() != 1:
                raise ValueError(
                    f"{type(self).__name__}: {values.numel()} values for {places.numel()} entries; give one for each, "
                    "or one for all."
                )
            values = values.expand(places.shape)
        segment_tree.segment_tree_write(self._tree, places, values, self._minimum)

    __setitem__ = update

    def query(self, left: Any, right: Any) -> Any:
        """What the entries from `left` up to, but without, `right` give together.

        Raises:
            IndexError: a bound outside of 0 to size.
            ValueError: left > right.
        """
        if isinstance(left, int) and isinstance(right, int):
            if left <= 0 and right >= self._size:
                return self._tree[1].item()
            asked = (torch.tensor([left]), torch.tensor([right]))
            return self._query(*asked).item()
        return _like(left, self._query(_integers(left), _integers(right)))

    def _query(self, left: Tensor, right: Tensor) -> Tensor:
        left, right = torch.broadcast_tensors(left.to(self._tree.device), right.to(self._tree.device))
        for bound in (left, right):
            self._check_range(bound, self._size)
        if bool((left > right).any()):
            raise ValueError(f"{type(self).__name__}: a range whose left bound is above the right one.")
        return segment_tree.segment_tree_query(self._tree, left, right, self._identity, self._minimum)

    def _checked(self, index: Any) -> Tensor:
        places = _integers(index).to(self._tree.device)
        self._check_range(places, self._size - 1)
        return places

    def _check_one(self, index: int) -> None:
        if not 0 <= index < self._size:
            raise IndexError(f"{type(self).__name__}: index is {index}, expected 0 to {self._size - 1}.")

    def _check_range(self, places: Tensor, most: int) -> None:
        # On other devices the test would wait for them; a wrong index is then an error of the device.
        if places.numel() and places.device.type == "cpu":
            low, high = torch.aminmax(places)
            if int(low) < 0 or int(high) > most:
                wrong = int(low) if int(low) < 0 else int(high)
                raise IndexError(f"{type(self).__name__}: index is {wrong}, expected 0 to {most}.")

    def share_memory_(self) -> _SegmentTree:
        """Move the tree to memory that processes share."""
        self._tree.share_memory_()
        return self

    def DumpValues(self) -> np.ndarray[Any, Any]:
        """The entries, (size,)."""
        return self._tree[self._capacity : self._capacity + self._size].cpu().numpy().copy()

    def LoadValues(self, values: Any) -> None:
        """Give all entries new values.

        Raises:
            ValueError: not as many as there are entries.
        """
        values = torch.as_tensor(np.asarray(values))
        if values.numel() != self._size:
            raise ValueError(f"{type(self).__name__}: {values.numel()} values for {self._size} entries.")
        self.update(torch.arange(self._size), values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self._size})"


class _SumSegmentTree(_SegmentTree):
    _minimum = False
    _identity = 0.0

    def scan_lower_bound(self, value: Any) -> Any:
        """The smallest entry up to which, and with which, the sum reaches a value; `size` where none does.

        Args:
            value: a number, list, array or tensor.
        """
        if isinstance(value, (int, float)):
            asked = torch.tensor([value], dtype=self._dtype, device=self._tree.device)
            return int(segment_tree.segment_tree_find(self._tree, asked, self._size).item())
        asked = torch.as_tensor(value, dtype=self._dtype, device=self._tree.device)
        return _like(value, segment_tree.segment_tree_find(self._tree, asked, self._size))


class _MinSegmentTree(_SegmentTree):
    _minimum = True


class SumSegmentTreeFp32(_SumSegmentTree):
    __doc__ = _SegmentTree.__doc__
    _dtype = torch.float32


class SumSegmentTreeFp64(_SumSegmentTree):
    __doc__ = _SegmentTree.__doc__
    _dtype = torch.float64


class MinSegmentTreeFp32(_MinSegmentTree):
    """An array of `size` numbers of which the least of any range is found in logarithmic time.

    Args:
        size: how many entries there are, > 0.
        device: where the tree lives.

    Raises:
        ValueError: size < 1.
    """

    _dtype = torch.float32
    _identity = torch.finfo(torch.float32).max


class MinSegmentTreeFp64(_MinSegmentTree):
    __doc__ = MinSegmentTreeFp32.__doc__
    _dtype = torch.float64
    _identity = torch.finfo(torch.float64).max


def _integers(index: Any) -> Tensor:
    return torch.as_tensor(index, dtype=torch.int64)


def _like(asked: Any, found: Tensor) -> Any:
    return found if isinstance(asked, Tensor) else found.cpu().numpy()

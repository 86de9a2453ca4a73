"""What is found out about the rows of each key: examples, items, and where they begin."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.sparse._rows import Rows

__all__ = ["InverseIndices", "KeyedRows", "Strides"]

Strides = list[list[int]]
InverseIndices = tuple[list[str], Tensor]


class KeyedRows(Rows):
    """Rows of several keys, those of the first key first; sizes are found out once, when they are asked for."""

    _keys: list[str]
    _stride: int | None
    _strides: Tensor | Strides | None
    _strides_tensor: Tensor | None
    _stride_per_key: list[int] | None
    _length_per_key: list[int] | None
    _lengths_offset_per_key: list[int] | None
    _offset_per_key: list[int] | None
    _index_per_key: dict[str, int] | None
    _jt_dict: dict[str, Any] | None
    _inverse_indices: InverseIndices | None

    def _found_stride(self) -> int:
        if self._lengths is not None:
            if self._lengths.dim() > 1:
                return int(self._lengths.shape[-1])
            count = self._lengths.numel()
        else:
            assert self._offsets is not None
            count = self._offsets.numel() - 1
        if not self._keys:
            return 0
        return count // len(self._keys)

    def keys(self) -> list[str]:
        """The names, in order."""
        return self._keys

    def stride(self) -> int:
        """B: examples of the batch; with a batch for each key, of the full one, or of the largest."""
        if self._stride is None:
            if self._inverse_indices is not None and self._inverse_indices[1].numel():
                self._stride = self._inverse_indices[1].shape[-1]
            else:
                self._stride = max(self.stride_per_key(), default=0)
        return self._stride

    def stride_per_key(self) -> list[int]:
        """Examples of each key."""
        if self._stride_per_key is None:
            if self._strides is None:
                self._stride_per_key = [self.stride()] * len(self._keys)
            else:
                self._stride_per_key = [sum(ranks) for ranks in self.stride_per_key_per_rank()]
        return self._stride_per_key

    def stride_per_key_per_rank(self) -> Strides:
        """Examples of each key, and of each process that they came from; empty with one batch for all keys."""
        if self._strides is None:
            return []
        if isinstance(self._strides, Tensor):
            self._strides = self._strides.tolist()
        return self._strides

    def variable_stride_per_key(self) -> bool:
        """Whether each key has a batch of its own."""
        return self._strides is not None

    def inverse_indices(self) -> InverseIndices:
        """Keys, and (K, full batch): which row of a key each example has.

        Raises:
            SparseError: there are none.
        """
        if self._inverse_indices is None:
            raise SparseError(
                "this KeyedJaggedTensor has no inverse indices; inverse_indices_or_none() gives None then."
            )
        return self._inverse_indices

    def inverse_indices_or_none(self) -> InverseIndices | None:
        """Keys, and (K, full batch): which row of a key each example has; None where there are none."""
        return self._inverse_indices

    @property
    def _stride_per_key_per_rank(self) -> Tensor | None:
        if self._strides is None or isinstance(self._strides, Tensor):
            return self._strides
        if self._strides_tensor is None:
            self._strides_tensor = torch.tensor(self._strides, dtype=torch.int32)
        return self._strides_tensor

    @property
    def _inverse_indices_tensor(self) -> Tensor | None:
        return None if self._inverse_indices is None else self._inverse_indices[1]

    def length_per_key(self) -> list[int]:
        """Ids of each key; finding them out makes an accelerator wait.

        Raises:
            SparseError: the lengths do not fit the number of keys.
        """
        if self._length_per_key is None:
            self._length_per_key = self._found_length_per_key()
        return self._length_per_key

    def _found_length_per_key(self) -> list[int]:
        if self._offset_per_key is not None:
            return [end - begin for begin, end in pairwise(self._offset_per_key)]
        if not self._keys:
            return []
        count = self._lengths.numel() if self._lengths is not None else self.offsets().numel() - 1
        places = self.lengths_offset_per_key()
        if places[-1] != count:
            raise SparseError(
                f"{count} lengths for {len(self._keys)} keys of {self.stride_per_key()} examples, "
                f"expected {places[-1]}."
            )
        if self._offsets is None and self._strides is None and self._lengths is not None:
            sums: list[int] = self._lengths.view(len(self._keys), -1).sum(1).tolist()
            return sums
        offsets = self.offsets()
        uniform = self._strides is None and self.stride() > 0
        ends = offsets[:: self.stride()] if uniform else offsets[torch.tensor(places, device=offsets.device)]
        return [end - begin for begin, end in pairwise(ends.tolist())]

    def length_per_key_or_none(self) -> list[int] | None:
        """Ids of each key, or None where that was not found out yet."""
        return self._length_per_key

    def offset_per_key(self) -> list[int]:
        """Where the ids of each key begin, and where the last's end."""
        if self._offset_per_key is None:
            self._offset_per_key = [0, *accumulate(self.length_per_key())]
        return self._offset_per_key

    def offset_per_key_or_none(self) -> list[int] | None:
        """Where the ids of each key begin and the last's end, or None where that was not found out yet."""
        return self._offset_per_key

    def lengths_offset_per_key(self) -> list[int]:
        """Where the lengths of each key begin, and where the last's end."""
        if self._lengths_offset_per_key is None:
            self._lengths_offset_per_key = [0, *accumulate(self.stride_per_key())]
        return self._lengths_offset_per_key

    def index_per_key(self) -> dict[str, int]:
        """Place of each key."""
        if self._index_per_key is None:
            self._index_per_key = {key: at for at, key in enumerate(self._keys)}
        return self._index_per_key

    def sync(self) -> Self:
        """Find out now how many ids each key has, which makes an accelerator wait; returns itself."""
        self.length_per_key()
        self.offset_per_key()
        return self

    def unsync(self) -> Self:
        """Forget what `sync` found out; returns itself."""
        self._length_per_key = self._offset_per_key = self._jt_dict = None
        return self

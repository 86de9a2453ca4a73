"""The memory of keyed rows: copies on other devices, copies in place, and how much it is."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from flambeau.rec.sparse._keyed_rows import KeyedRows

__all__ = ["KeyedMemory"]


class KeyedMemory(KeyedRows):
    """Keyed rows that can be moved between devices, and written over by others of their shapes."""

    def to(self, device: torch.device, non_blocking: bool = False, dtype: torch.dtype | None = None) -> Self:
        """The same on another device.

        Args:
            device: where to.
            non_blocking: whether the copy may go on after the call; it does from pinned memory.
            dtype: of the weights there; as it is where not given.
        """

        def moved(tensor: Tensor | None, to_dtype: torch.dtype | None = None) -> Tensor | None:
            return None if tensor is None else tensor.to(device=device, dtype=to_dtype, non_blocking=non_blocking)

        values = self._values.to(device=device, non_blocking=non_blocking)
        return self._with(values, moved(self._weights, dtype), moved(self._lengths), moved(self._offsets))

    def pin_memory(self) -> Self:
        """The same in pinned memory, from which copies to a device need not be waited for."""

        def pinned(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.pin_memory()

        return self._with(
            self._values.pin_memory(), pinned(self._weights), pinned(self._lengths), pinned(self._offsets)
        )

    def _with(self, values: Tensor, weights: Tensor | None, lengths: Tensor | None, offsets: Tensor | None) -> Self:
        """The same keys and sizes over other tensors."""
        inverse = self._inverse_indices
        make: Any = type(self)  # it is constructed with keys, whichever class that is
        made: Self = make(
            self._keys,
            values,
            weights,
            lengths,
            offsets,
            self._stride,
            self._strides,
            self._stride_per_key,
            self._length_per_key,
            self._lengths_offset_per_key,
            self._offset_per_key,
            self._index_per_key,
            None,
            None if inverse is None else (inverse[0], inverse[1].to(values.device)),
        )
        return made

    def _like(self, device: torch.device) -> Self:
        def like(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else torch.empty_like(tensor, device=device)

        values = torch.empty_like(self._values, device=device)
        made = self._with(values, like(self._weights), like(self._lengths), like(self._offsets))
        if made._inverse_indices is not None:
            keys, rows = made._inverse_indices
            made._inverse_indices = keys, torch.empty_like(rows)
        return made

    def copy_(self, kjt: Self, non_blocking: bool = False) -> Self:
        """Take over the content of another one, whose tensors have the shapes of this one's."""
        for mine, other in zip(self._tensors(), kjt._tensors(), strict=True):
            if mine is not None and other is not None:
                mine.copy_(other, non_blocking=non_blocking)
        self._strides, self._strides_tensor, self._stride_per_key = kjt._strides, None, kjt._stride_per_key
        self._length_per_key, self._offset_per_key, self._jt_dict = kjt._length_per_key, kjt._offset_per_key, None
        return self

    def clear_storage(self) -> int:
        """Give the memory of all tensors back; returns how many bytes that were. The object is of no use afterwards."""
        freed = 0
        for tensor in self._tensors():
            if tensor is not None:
                storage = tensor.untyped_storage()
                freed += storage.size()
                storage.resize_(0)
        return freed

    def size_in_bytes(self) -> int:
        """The memory of all its tensors."""
        held = [self._values, self._weights, self._lengths, self._offsets, self._stride_per_key_per_rank]
        return sum(tensor.numel() * tensor.element_size() for tensor in held if tensor is not None)

    def _tensors(self) -> tuple[Tensor | None, ...]:
        return *super()._tensors(), self._inverse_indices_tensor

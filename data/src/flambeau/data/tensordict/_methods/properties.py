"""Size, device, dtype and layout of a tensordict as a whole."""

from __future__ import annotations

import math
from typing import Any, Self

import torch

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.printing import describe, entry_text, listing_of
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class PropertyMethods(CollectionMethods):
    """What a tensordict says about itself."""

    @property
    def shape(self) -> torch.Size:
        """The batch size."""
        return self.batch_size

    @shape.setter
    def shape(self, size: Any) -> None:
        self.batch_size = size

    @property
    def batch_dims(self) -> int:
        """How many dimensions the batch has."""
        return len(self.batch_size)

    @property
    def ndim(self) -> int:
        """How many dimensions the batch has."""
        return len(self.batch_size)

    def dim(self) -> int:
        """How many dimensions the batch has."""
        return len(self.batch_size)

    def ndimension(self) -> int:
        """How many dimensions the batch has."""
        return len(self.batch_size)

    def size(self, dim: int | None = None) -> torch.Size | int:
        """The batch size, or one of its dimensions."""
        return self.batch_size if dim is None else self.batch_size[dim]

    def numel(self) -> int:
        """The number of elements of the batch: the product of its size, 1 without batch dimensions."""
        return max(1, math.prod(self.batch_size))

    @property
    def depth(self) -> int:
        """How deep collections are nested, 0 where none is."""
        below = [value.depth for value in self._collections() if not value._is_non_tensor]
        return 1 + max(below) if below else 0

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of all tensors, None where there are several or none."""
        found = {leaf.dtype for leaf in self._leaves()}
        return found.pop() if len(found) == 1 else None

    def __repr__(self) -> str:
        return describe(self)

    def _repr_fields(self) -> list[tuple[str, str]]:
        """The listings of entries in the text: name and lines."""
        return [("fields", listing_of((key, entry_text(value)) for key, value in self._items()))]

    def _repr_extras(self) -> list[tuple[str, Any]]:
        """Further lines of the text: name and value."""
        return []

    # --- memory

    def is_contiguous(self) -> bool:
        """Whether all tensors are contiguous."""
        return all(leaf.is_contiguous() for leaf in self._leaves())

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        """With all tensors contiguous, as a `TensorDict`, unlocked.

        Args:
            canonical: copy tensors whose strides are contiguous only because dimensions have size 1, too.
            inplace: change this tensordict.

        Raises:
            RuntimeError: `inplace`, and it is locked.
        """
        leaves = iter([_contiguous(leaf, canonical) for leaf in self._leaves()])
        if not inplace:
            return self._rebuild(leaves)  # upstream: unlocked
        if self.is_locked:
            raise RuntimeError(LOCKED)
        return self._with_leaves(leaves, self.device, True)

    def bytes(self, *, count_duplicates: bool = True) -> int:
        """The bytes that the tensors take.

        Args:
            count_duplicates: count memory that several entries share as often.
        """
        leaves = self._leaves()
        if not count_duplicates:
            leaves = list({(leaf.data_ptr(), leaf.shape, leaf.stride()): leaf for leaf in leaves}.values())
        return sum([_bytes(leaf) for leaf in leaves])

    def param_count(self, *, count_duplicates: bool = True) -> int:
        """The number of elements of all tensors; `count_duplicates` as in `bytes`."""
        leaves = self._leaves()
        if not count_duplicates:
            leaves = list({id(leaf): leaf for leaf in leaves}.values())
        return sum([leaf.numel() for leaf in leaves])

    def data_ptr(self, *, storage: bool = False) -> Any:
        """A tensordict of the tensors' addresses, of their storage where asked for."""
        data: dict[str, Any] = {}
        for key, value in self._items():
            if not isinstance(value, TensorCollection):
                pointer = value.untyped_storage().data_ptr() if storage else value.data_ptr()
                data[key] = torch.tensor(pointer, dtype=torch.int64)
            elif not value._is_non_tensor:
                data[key] = value.data_ptr(storage=storage)
        return classes.make_td(data, torch.Size(()))

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Set the batch size to the longest run of leading dimensions that all entries share, here and below.

        Args:
            batch_dims: at most so many.
            keep_compliant_size: leave nested batch sizes of `batch_dims` dimensions or more as they are.
        """
        shared: tuple[int, ...] | None = None
        for _, value in self._items():
            if isinstance(value, TensorCollection):
                if value._is_non_tensor:
                    if not value.batch_size:  # fits whatever the others have
                        continue
                elif not (keep_compliant_size and batch_dims is not None and value.batch_dims >= batch_dims):
                    value.auto_batch_size_(batch_dims)
            shape = value.shape
            shared = tuple(shape) if shared is None else _common(shared, shape)
        size = torch.Size((shared or ())[: len(shared or ()) if batch_dims is None else batch_dims])
        for value in self._collections():
            if value._is_non_tensor and not value.batch_size:
                value.batch_size = size
        self.batch_size = size
        return self


def _contiguous(leaf: torch.Tensor, canonical: bool) -> torch.Tensor:
    if canonical and leaf.is_contiguous():
        strides, step = [], 1
        for size in reversed(leaf.shape):
            strides.append(step)
            step *= max(1, size)
        if list(leaf.stride()) != strides[::-1]:
            return leaf.clone(memory_format=torch.contiguous_format).as_strided(leaf.shape, strides[::-1])
    return leaf.contiguous()


def _bytes(leaf: torch.Tensor) -> int:
    if leaf.is_nested and leaf.layout is torch.strided:
        return sum(_bytes(part) for part in leaf.unbind(0))
    if leaf.is_nested:
        return _bytes(leaf.values()) + _bytes(leaf.offsets())  # type: ignore[attr-defined]  # of jagged tensors
    return leaf.numel() * leaf.element_size()


def _common(one: tuple[int, ...], other: Any) -> tuple[int, ...]:
    same = []
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        same.append(left)
    return tuple(same)

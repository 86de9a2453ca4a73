"""Cutting along a batch dimension, and the class methods that put together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.core.garbage import collection_paused
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._tensorcollection import CollectionMethods
from flambeau.data.tensordict._unbatched import UnbatchedTensor


class SplitMethods(CollectionMethods):
    """unbind, split, chunk, tensor_split; stack and cat."""

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """One tensordict per element of a batch dimension, all of them views."""
        where, size = self._dim(dim), self.batch_size
        names = self._names_or_none()
        left = None if names is None else _some([*names[:where], *names[where + 1 :]])
        new = torch.Size((*size[:where], *size[where + 1 :]))
        return self._cut(lambda value: value.unbind(where), [new] * size[where], left)

    def split(self, split_size: int | list[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts along a batch dimension, all of them views.

        Args:
            split_size: of each part, the last may be smaller; or the list of sizes, which adds up.
            dim: along which.

        Raises:
            RuntimeError: the sizes do not add up to the dimension's.
            ValueError: a size below 1.
        """
        where, size = self._dim(dim), self.batch_size
        sizes = _part_sizes(split_size, size[where])
        head, tail = size[:where], size[where + 1 :]
        shared = {length: torch.Size((*head, length, *tail)) for length in set(sizes)}
        parts = self._cut(
            lambda value: split_entry(value, split_size, where, len(sizes)),
            [shared[length] for length in sizes],
            self._names_or_none(),
        )
        if self.is_locked:
            for part in parts:
                part._lock_below(None)
        return parts

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """At most `chunks` parts of equal size (the last may be smaller) along a batch dimension, as views.

        Raises:
            ValueError: less than one.
        """
        if chunks < 1:
            raise ValueError(f"chunk: {chunks} parts; ask for 1 or more.")
        where, size = self._dim(dim), self.batch_size
        length = max(1, -(-size[where] // chunks))
        if not any(isinstance(value, Tensor) and value.is_nested for value in self._leaves()):
            return self.split(length, dim)
        sizes = _part_sizes(length, size[where])  # nested tensors can be chunked, and not split
        parts = [torch.Size((*size[:where], one, *size[where + 1 :])) for one in sizes]
        return self._cut(lambda value: value.chunk(chunks, where), parts, self._names_or_none())

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Self, ...]:
        """Parts along a batch dimension: as many as asked for, or cut before the given indices."""
        length = self.batch_size[self._dim(dim)]
        cuts = indices_or_sections
        if isinstance(cuts, Tensor):
            cuts = cuts.tolist()
        if isinstance(cuts, int):
            small, larger = divmod(length, cuts)
            sizes = [small + 1] * larger + [small] * (cuts - larger)
        else:
            bounds = [0, *(min(max(cut + length if cut < 0 else cut, 0), length) for cut in cuts), length]
            sizes = [max(0, high - low) for low, high in pairwise(bounds)]
            if sum(sizes) != length:
                raise ValueError(f"tensor_split: the indices {list(cuts)} do not grow.")
        return self.split(sizes, dim)

    def _cut(self, cut: Any, sizes: Sequence[torch.Size], names: Any) -> tuple[Any, ...]:
        """Cut every entry in as many parts as there are sizes, and group them."""
        if len(self._key_names()) * len(sizes) < 1000 or torch.compiler.is_compiling():
            return self._cut_now(cut, sizes, names)
        with collection_paused():
            return self._cut_now(cut, sizes, names)

    def _cut_now(self, cut: Any, sizes: Sequence[torch.Size], names: Any) -> tuple[Any, ...]:
        mapped = self.is_memmap()
        rows: list[dict[str, Any]] = [{} for _ in sizes]
        for key, value in self._items():
            column = [value._within(size) for size in sizes] if isinstance(value, UnbatchedTensor) else cut(value)
            for row, part in zip(rows, column, strict=True):
                row[key] = part
        device, make = self.device, self._result
        if names is None:
            parts = tuple([make(row, size, device) for row, size in zip(rows, sizes, strict=True)])
        else:
            parts = tuple([make(row, size, device, list(names)) for row, size in zip(rows, sizes, strict=True)])
        if mapped:
            for part in parts:
                part._is_memmap = True
                part._lock_below(None)
        return parts

    @classmethod
    def fromkeys(cls, keys: Any, value: Any = 0) -> Any:
        """A TensorDict without batch dimensions with the same value under every key."""
        return classes.TensorDict(dict.fromkeys(keys, value))

    def _get_sub_tensordict(self, idx: Any) -> Any:
        """The part that an index selects; writes to it reach this tensordict, whatever the index."""
        return classes._SubTensorDict(self, idx)

    @classmethod
    def stack(cls, input: Any, dim: int = 0, *, out: Any = None) -> Any:
        """`torch.stack` of tensordicts."""
        return torch.stack(input, dim, out=out)

    @classmethod
    def cat(cls, input: Any, dim: int = 0, *, out: Any = None) -> Any:
        """`torch.cat` of tensordicts."""
        return torch.cat(input, dim, out=out)

    @classmethod
    def lazy_stack(cls, input: Any, dim: int = 0, *, out: Any = None, **kwargs: Any) -> Any:
        """A `LazyStackedTensorDict` of tensordicts; see `LazyStackedTensorDict.lazy_stack`."""
        return classes.LazyStackedTensorDict.lazy_stack(input, dim, out=out, **kwargs)

    @classmethod
    def maybe_dense_stack(cls, input: Any, dim: int = 0, *, out: Any = None, **kwargs: Any) -> Any:
        """A dense stack where shapes and keys agree, else a lazy one."""
        return classes.LazyStackedTensorDict.maybe_dense_stack(input, dim, out=out, **kwargs)


def split_entry(value: Any, split_size: Any, dim: int, parts: int) -> Any:
    """`value.split`; equal parts of a tensor through `unbind` of a view, which is cheaper by a third for each part."""
    if type(value) is not Tensor or type(split_size) is not int or value.shape[dim] != parts * split_size:
        return value.split(split_size, dim)
    if split_size == 1:
        return value.unsqueeze(dim + 1).unbind(dim)
    return torch.unflatten(value, dim, (parts, split_size)).unbind(dim)


def _part_sizes(split_size: Any, length: int) -> list[int]:
    if isinstance(split_size, int):
        if split_size < 1:
            raise ValueError(f"split: parts of size {split_size}; sizes are 1 or more.")
        whole, rest = divmod(length, split_size)
        return [split_size] * whole + ([rest] if rest else []) or [0]
    sizes = list(split_size)
    if sum(sizes) != length or any(size < 0 for size in sizes):
        raise RuntimeError(f"split: the sizes {sizes} are not parts, 0 or more, of the dimension's {length}.")
    return sizes


def _some(names: list[Any]) -> list[Any] | None:
    return names if any(name is not None for name in names) else None

"""Shape operations: they act on the batch dimensions of every entry and leave the rest of its shape alone.

Each one works out batch size and names, and then does the same operation on each entry, tensor or collection: the
trailing dimensions of an entry are `entry.shape[batch_dims:]` for both. Results are locked if the tensordict is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection
from flambeau.data.tensordict._unbatched import UnbatchedTensor

Names = list[str | None] | None


def _same_memory(old: Any, new: Any) -> bool:
    """Whether what was made of a memory-mapped entry is a view of it."""
    if isinstance(old, Tensor):
        return old.untyped_storage().data_ptr() == new.untyped_storage().data_ptr()
    return old._is_non_tensor or new.is_memmap()


class ShapeMethods(CollectionMethods):
    """Reshaping, reordering and repeating batch dimensions."""

    def _each(self, function: Callable[[Any], Any], batch_size: torch.Size, names: Names = None) -> Any:
        """A tensordict with a function of each entry."""
        data = {
            key: value._within(batch_size) if isinstance(value, UnbatchedTensor) else function(value)
            for key, value in self._items()
        }
        result = self._result(data, batch_size, self.device, names)
        if self.is_locked:
            result._lock_below(None)
            if self._is_memmap:
                result._is_memmap = all(_same_memory(value, data[key]) for key, value in self._items())
        return result

    def _dim(self, dim: int, extra: int = 0, error: type[Exception] = IndexError) -> int:
        """A dimension counted from the front; raises `error` where there is none such."""
        ndim = len(self.batch_size) + extra
        if not -ndim <= dim < ndim:
            raise error(f"dimension {dim} is out of range for batch size {list(self.batch_size)}.")
        return dim % ndim

    def _reordered(self, order: Sequence[int]) -> Names:
        names = self._names_or_none()
        return None if names is None else [names[position] for position in order]

    # --- new sizes for the same elements

    def view(self, *shape: Any, size: Any = None, batch_size: torch.Size | None = None) -> Self:
        """The same memory under another batch size, or another dtype. As a context manager, writes changes back.

        Args:
            shape: the new batch size, one entry may be -1; or a dtype, which every tensor is then viewed as.
            size: the batch size, instead of positional arguments.
            batch_size: of the result of a view as another dtype, where the last dimension changes.
        """
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            data = {key: value.view(shape[0]) for key, value in self._items()}  # upstream: unlocked
            return self._result(data, batch_size or self.batch_size, self.device, self._names_or_none())
        new = self._new_size(shape if size is None else tuple(size))
        if new == self.batch_size:
            return self
        width = len(self.batch_size)
        return self._each(lambda value: value.view((*new, *value.shape[width:])), new)._remember("reshape", self)

    def reshape(self, *args: Any, **kwargs: Any) -> Self:
        """Another batch size for the same elements; a view where memory allows, else a copy.

        Args:
            args: the new batch size, one entry may be -1.
            kwargs: `size` or `shape`, the same by name.
        """
        shape = args or kwargs.get("size", kwargs.get("shape", ()))
        new = self._new_size(shape)
        if new == self.batch_size:
            return self
        width = len(self.batch_size)
        return self._each(lambda value: value.reshape((*new, *value.shape[width:])), new)._remember("reshape", self)

    def _new_size(self, shape: Any) -> torch.Size:
        if isinstance(shape, (int, torch.SymInt)):
            shape = (shape,)
        elif len(shape) == 1 and not isinstance(shape[0], (int, torch.SymInt)):
            shape = tuple(shape[0])
        if -1 in shape:
            return infer_size(shape, math.prod(self.batch_size))
        return torch.Size(shape)

    def flatten(self, start_dim: int | None = None, end_dim: int | None = None, *, inplace: bool = False) -> Self:
        """Join neighbouring batch dimensions, all of them by default.

        Args:
            start_dim: the first.
            end_dim: the last, inclusive.
            inplace: change this tensordict.
        """
        ndim = len(self.batch_size)
        if ndim == 0:
            for dim in (start_dim, end_dim):
                if dim not in (None, 0, -1):
                    raise IndexError(f"dimension {dim} is out of range for batch size [].")
            return self.reshape(1)
        start = self._dim(0 if start_dim is None else start_dim)
        end = self._dim(-1 if end_dim is None else end_dim)
        if end < start:
            raise ValueError(f"flatten: end_dim {end_dim} lies before start_dim {start_dim}.")
        size = self.batch_size
        new = torch.Size((*size[:start], math.prod(size[start : end + 1]), *size[end + 1 :]))
        names = self._names_or_none()
        kept = [None] if start < end else (names or [None] * ndim)[start : start + 1]
        new_names = None if names is None else _some([*names[:start], *kept, *names[end + 1 :]])
        result = self._each(lambda value: value.flatten(start, end), new, new_names)
        return self._become(result) if inplace else result._remember("reshape", self)

    def unflatten(self, dim: int, unflattened_size: Sequence[int], *, inplace: bool = False) -> Self:
        """Split a batch dimension into several.

        Args:
            dim: which.
            unflattened_size: the sizes, one may be -1; their product is the size of `dim`.
            inplace: change this tensordict.
        """
        dim, size = self._dim(dim), self.batch_size
        parts = infer_size(tuple(unflattened_size), size[dim])
        new = torch.Size((*size[:dim], *parts, *size[dim + 1 :]))
        names = self._names_or_none()
        # Upstream: the last of the parts has the name.
        new_names = None if names is None else _some([*names[:dim], *[None] * (len(parts) - 1), *names[dim:]])
        result = self._each(lambda value: value.unflatten(dim, parts), new, new_names)
        return self._become(result) if inplace else result._remember("reshape", self)

    def squeeze(self, *args: Any, **kwargs: Any) -> Self:
        """Drop batch dimensions of size 1: `dim`, an int or several, or all of them."""
        dim = args[0] if args else kwargs.get("dim")
        size = self.batch_size
        if dim is None:
            dims = [position for position, length in enumerate(size) if length == 1]
        else:
            wanted = (dim,) if isinstance(dim, int) else dim
            dims = [position for position in map(self._dim, wanted) if size[position] == 1]
        if not dims:
            return self
        kept = [position for position in range(len(size)) if position not in dims]
        new = torch.Size([size[position] for position in kept])
        which = dims[0] if len(dims) == 1 else tuple(dims)
        return self._each(lambda value: value.squeeze(which), new, self._reordered(kept))._remember("reshape", self)

    def unsqueeze(self, *args: Any, **kwargs: Any) -> Self:
        """Insert a batch dimension of size 1 at `dim`."""
        dim = self._dim(args[0] if args else kwargs["dim"], 1, RuntimeError)
        size, names = self.batch_size, self._names_or_none()
        new = torch.Size((*size[:dim], 1, *size[dim:]))
        new_names = None if names is None else [*names[:dim], None, *names[dim:]]
        return self._each(lambda value: value.unsqueeze(dim), new, new_names)._remember("unsqueeze", self, dim)

    # --- order

    def permute(self, *args: Any, **kwargs: Any) -> Self:
        """Reorder the batch dimensions. As a context manager, writes changes back.

        Args:
            args: every batch dimension once, in the new order.
            kwargs: `dims`, the same by name.
        """
        order = args or kwargs["dims"]
        if len(order) == 1 and not isinstance(order[0], int):
            order = order[0]
        order = [self._dim(dim) for dim in order]
        ndim = len(self.batch_size)
        if sorted(order) != list(range(ndim)):
            raise ValueError(f"permute: {order} does not name each of the {ndim} batch dimensions once.")
        if order == list(range(ndim)):
            return self
        new = torch.Size([self.batch_size[dim] for dim in order])
        back = [order.index(dim) for dim in range(ndim)]
        result = self._each(lambda value: value.permute(*order, *range(ndim, value.ndim)), new, self._reordered(order))
        return result._remember("permute", self, back)

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Exchange two batch dimensions. As a context manager, writes changes back."""
        dim0, dim1 = self._dim(dim0, error=ValueError), self._dim(dim1, error=ValueError)
        if dim0 == dim1:
            return self
        order = list(range(len(self.batch_size)))
        order[dim0], order[dim1] = dim1, dim0
        new = torch.Size([self.batch_size[dim] for dim in order])
        result = self._each(lambda value: value.transpose(dim0, dim1), new, self._reordered(order))
        return result._remember("permute", self, order)

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """`transpose`."""
        return self.transpose(axis0, axis1)

    def swapdims(self, axis0: int, axis1: int) -> Self:
        """`transpose`."""
        return self.transpose(axis0, axis1)

    def movedim(self, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Self:
        """Move batch dimensions to other positions; the others keep their order."""
        ndim = len(self.batch_size)
        sources = [self._dim(dim) for dim in ((source,) if isinstance(source, int) else source)]
        targets = [self._dim(dim) for dim in ((destination,) if isinstance(destination, int) else destination)]
        order = [dim for dim in range(ndim) if dim not in sources]
        for target, dim in sorted(zip(targets, sources, strict=True)):
            order.insert(target, dim)
        return self.permute(*order)

    def moveaxis(self, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Self:
        """`movedim`."""
        return self.movedim(source, destination)

    def flip(self, dims: int | tuple[int, ...]) -> Self:
        """Reverse the order along batch dimensions."""
        which = [self._dim(dim) for dim in ((dims,) if isinstance(dims, int) else dims)]
        return self._each(lambda value: value.flip(which), self.batch_size, self._names_or_none())

    def fliplr(self) -> Self:
        """Reverse the second batch dimension."""
        return self.flip(1)

    def flipud(self) -> Self:
        """Reverse the first batch dimension."""
        return self.flip(0)

    def roll(
        self, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None, *, inplace: bool = False
    ) -> Self:
        """Shift along batch dimensions; what falls out at one end comes in at the other.

        Args:
            shifts: by how many places, one for each of `dims`.
            dims: along which; without it over all batch dimensions as if they were one.
            inplace: change this tensordict's tensors.
        """
        if dims is None:
            result = self.flatten().roll(shifts, 0).reshape(self.batch_size)
            names = self._names_or_none()
            if names is not None:
                result._set_names(names)
        else:
            where = [self._dim(dim) for dim in ((dims,) if isinstance(dims, int) else dims)]
            result = self._each(lambda value: value.roll(shifts, where), self.batch_size, self._names_or_none())
        return self.update_(result) if inplace else result

    def rot90(self, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Self:
        """Rotate by `k` quarter turns in the plane of two batch dimensions."""
        first, second = (self._dim(dim) for dim in dims)
        k %= 4
        if k == 0:
            return self
        if k == 2:
            return self.flip((first, second))
        turned = self.transpose(first, second)
        return turned.flip(first if k == 1 else second)

    # --- repetition and parts

    def expand(self, *args: Any) -> Self:
        """Repeat batch dimensions of size 1 without memory, and add leading ones.

        Args:
            args: the new batch size; -1 keeps a dimension.
        """
        shape = tuple(args[0]) if len(args) == 1 and not isinstance(args[0], (int, torch.SymInt)) else args
        size = self.batch_size
        width, extra = len(size), len(shape) - len(size)
        if extra < 0:
            raise RuntimeError(f"expand: {list(shape)} has fewer dimensions than the batch size {list(size)}.")
        new = list(shape)
        for position in range(width):
            wanted, length = shape[extra + position], size[position]
            if wanted == -1:
                new[extra + position] = length
            elif wanted != length and length != 1:
                raise RuntimeError(f"expand: batch size {list(size)} does not expand to {list(shape)}.")
        names = self._names_or_none()
        result_size = torch.Size(new)
        return self._each(
            lambda value: value.expand(*result_size, *value.shape[width:]),
            result_size,
            None if names is None else [*[None] * extra, *names],
        )

    def expand_as(self, other: Any) -> Self:
        """`expand` to another's batch size; a tensor's shape may have feature dimensions, which do not count."""
        expanded = self.expand(other.shape)
        # Upstream: unlocked, if the other is a collection.
        return expanded.copy() if self.is_locked and isinstance(other, TensorCollection) else expanded

    def broadcast_to(self, shape: tuple[int, ...]) -> Self:
        """`expand`."""
        return self.expand(shape)

    def repeat(self, *repeats: Any, inplace: bool = False) -> Self:
        """Copies side by side: how many along each batch dimension, all of them given.

        Raises:
            ValueError: not one number per batch dimension.
        """
        if len(repeats) == 1 and not isinstance(repeats[0], int):
            repeats = tuple(repeats[0])
        size = self.batch_size
        if len(repeats) != len(size):
            raise ValueError(f"repeat: {len(repeats)} numbers for {len(size)} batch dimensions; give one for each.")
        width = len(size)
        new = torch.Size([length * times for length, times in zip(size, repeats, strict=True)])
        result = self._each(
            lambda value: value.repeat(*repeats, *[1] * (value.ndim - width)), new, self._names_or_none()
        )
        return self._become(result) if inplace else result

    def tile(self, dims: tuple[int, ...]) -> Self:
        """`repeat`, where numbers for leading dimensions may be left out."""
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        width = len(self.batch_size)
        td = self.reshape(*[1] * (len(dims) - width), *self.batch_size) if len(dims) > width else self
        return td.repeat(*[1] * (width - len(dims)), *dims)

    def repeat_interleave(
        self, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None, inplace: bool = False
    ) -> Self:
        """Repeat each element along a batch dimension.

        Args:
            repeats: how often, one number or one per element.
            dim: along which; without it the batch is flattened.
            output_size: the sum of `repeats`, which saves finding it out.
            inplace: change this tensordict.
        """
        if dim is None:
            result = self.reshape(-1).repeat_interleave(repeats, 0, output_size=output_size)
        else:
            where, size = self._dim(dim), self.batch_size
            if isinstance(repeats, int):
                total = size[where] * repeats
            elif output_size is not None:
                total = output_size
            else:
                total = int(repeats.sum()) * (size[where] if repeats.numel() == 1 else 1)
            new = torch.Size((*size[:where], total, *size[where + 1 :]))
            result = self._each(
                lambda value: value.repeat_interleave(repeats, where, output_size=output_size),
                new,
                self._names_or_none(),
            )
        return self._become(result) if inplace else result

    def narrow(self, dim: int, start: int, length: int) -> Self:
        """`length` elements from `start` on along a batch dimension, without a copy."""
        where, size = self._dim(dim), self.batch_size
        new = torch.Size((*size[:where], length, *size[where + 1 :]))
        return self._each(lambda value: value.narrow(where, start, length), new, self._names_or_none())

    def atleast_1d(self) -> Self:
        """With a batch dimension of size 1 where there is none."""
        return self if self.batch_size else self.unsqueeze(0)

    def atleast_2d(self) -> Self:
        """With leading batch dimensions of size 1 so that there are two."""
        td = self.atleast_1d()
        return td if len(td.batch_size) > 1 else td.unsqueeze(0)

    def atleast_3d(self) -> Self:
        """With leading batch dimensions of size 1 so that there are three."""
        td = self.atleast_2d()
        return td if len(td.batch_size) > 2 else td.unsqueeze(0)

    def _become(self, result: Any) -> Any:
        """Take over the entries and the batch size of a result."""
        if self.is_locked:
            raise RuntimeError(LOCKED)
        items = list(result._items())
        for key in list(self._key_names()):
            self._del_str(key)
        self._set_names(None)
        self.batch_size = result.batch_size
        for key, value in items:
            self._set_str(key, value, validated=True)
        self.names = result.names
        return self


def infer_size(shape: Sequence[int], numel: int) -> torch.Size:
    """A shape with its -1 worked out.

    Raises:
        RuntimeError: it does not hold `numel` elements, or has two -1.
    """
    if list(shape).count(-1) > 1:
        raise RuntimeError(f"only one size of {list(shape)} can be -1.")
    known = math.prod([size for size in shape if size != -1])
    if -1 in shape:
        if known == 0 or numel % known:
            raise RuntimeError(f"shape {list(shape)} does not fit a batch of {numel} elements.")
        return torch.Size([numel // known if size == -1 else size for size in shape])
    if known != numel:
        raise RuntimeError(f"shape {list(shape)} does not fit a batch of {numel} elements.")
    return torch.Size(shape)


def _some(names: list[str | None]) -> Names:
    return names if any(name is not None for name in names) else None

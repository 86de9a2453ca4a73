"""Shape operations of a lazy stack: on each tensordict, with the stack dimension moved where it then stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._lazy_stack.members import StackMethods
from flambeau.data.tensordict._methods.shape import infer_size
from flambeau.data.tensordict._methods.split import _part_sizes
from flambeau.data.tensordict._tensorcollection import TensorCollection


class LazyShape(StackMethods):
    """Shape operations that keep tensordicts apart."""

    def _below(self, dim: int) -> int:
        """A dimension of the stack, other than the stack dimension, as one of the tensordicts."""
        return dim - 1 if dim > self.stack_dim else dim

    def _add_batch_dim(self, *, in_dim: int, vmap_level: int) -> Any:
        if in_dim == self.stack_dim:
            # Copies: the mapped function may set entries, and its input stays as it is.
            return classes._VmappedStack([td.copy() for td in self.tensordicts], vmap_level)
        dim = self._below(in_dim)
        return self._each_td(
            lambda td: td._add_batch_dim(in_dim=dim, vmap_level=vmap_level), self.stack_dim - (in_dim < self.stack_dim)
        )

    def _remove_batch_dim(self, *, vmap_level: int, batch_size: int, out_dim: int) -> Any:
        before = out_dim <= self.stack_dim
        where = out_dim if before else out_dim - 1
        return self._each_td(
            lambda td: td._remove_batch_dim(vmap_level=vmap_level, batch_size=batch_size, out_dim=where),
            self.stack_dim + before,
        )

    def unsqueeze(self, *args: Any, **kwargs: Any) -> Self:
        """Insert a batch dimension of size 1 at `dim`."""
        dim = self._dim(args[0] if args else kwargs["dim"], 1, RuntimeError)
        if dim <= self.stack_dim:
            return self._each_td(lambda td: td.unsqueeze(dim), self.stack_dim + 1)._remember("unsqueeze", self, dim)
        return self._each_td(lambda td: td.unsqueeze(dim - 1))._remember("unsqueeze", self, dim)

    def squeeze(self, *args: Any, **kwargs: Any) -> Self:
        """Drop batch dimensions of size 1: `dim`, or all of them."""
        dim = args[0] if args else kwargs.get("dim")
        size = self.batch_size
        if dim is None:
            dims = [place for place, length in enumerate(size) if length == 1]
        else:
            dims = [place for place in map(self._dim, (dim,) if isinstance(dim, int) else dim) if size[place] == 1]
        result: Any = self
        for place in sorted(dims, reverse=True):
            result = result._squeezed(place) if isinstance(result, LazyShape) else result.squeeze(place)
        return result if result is self else result._remember("reshape", self)

    def _squeezed(self, place: int) -> Any:
        if place == self.stack_dim:
            return self.tensordicts[0]
        below = self._below(place)
        return self._each_td(lambda td: td.squeeze(below), self.stack_dim - (place < self.stack_dim))

    def permute(self, *args: Any, **kwargs: Any) -> Self:
        """Reorder the batch dimensions."""
        order = args or kwargs["dims"]
        if len(order) == 1 and not isinstance(order[0], int):
            order = order[0]
        order = [self._dim(dim) for dim in order]
        ndim = len(self.batch_size)
        if sorted(order) != list(range(ndim)):
            raise ValueError(f"permute: {order} does not name each of the {ndim} batch dimensions once.")
        if order == sorted(order):
            return self
        below = [self._below(dim) for dim in order if dim != self.stack_dim]
        back = [order.index(dim) for dim in range(len(order))]
        result = self._each_td(lambda td: td.permute(*below) if below else td, order.index(self.stack_dim))
        return result._remember("permute", self, back)

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Exchange two batch dimensions."""
        order = list(range(len(self.batch_size)))
        dim0, dim1 = self._dim(dim0, error=ValueError), self._dim(dim1, error=ValueError)
        order[dim0], order[dim1] = dim1, dim0
        return self.permute(*order)

    def _elements(self) -> list[Any]:
        """The tensordicts without batch dimensions, in row-major order."""
        found: list[Any] = [self]
        for _ in self.batch_size:
            found = [part for td in found for part in td.unbind(0)]
        return found

    def reshape(self, *args: Any, **kwargs: Any) -> Self:
        """Another batch size: a stack (of stacks) of the same elements, whose shapes may differ."""
        shape = args or (kwargs.get("size", kwargs.get("shape")),)
        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = tuple(shape[0])
        size = self.batch_size
        elements = self._elements() if -1 in size else None
        new = infer_size(shape, size.numel() if elements is None else len(elements))
        if new == size:
            return self
        if not new:
            return (elements or self._elements())[0]
        if len(new) > 1 and self._is_even():  # one tensor for each entry instead of as many stacks as there are rows
            return self._dense().reshape(new)._remember("reshape", self)
        return self._locked_alike(self._nest(elements or self._elements(), new, 0))._remember("reshape", self)

    def view(self, *shape: Any, size: Any = None, batch_size: torch.Size | None = None) -> Self:
        """As `reshape`; with a dtype, every tensor viewed as that."""
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            return self._each_td(lambda td: td.view(shape[0]))
        return self.reshape(*(shape or tuple(size)))

    def flatten(self, start_dim: int | None = 0, end_dim: int | None = -1, *, inplace: bool = False) -> Self:
        """Join neighbouring batch dimensions, all of them by default."""
        start = self._dim(0 if start_dim is None else start_dim)
        end = self._dim(-1 if end_dim is None else end_dim)
        if not start <= self.stack_dim <= end:
            shift = 1 if start > self.stack_dim else 0
            moved = self.stack_dim if shift else self.stack_dim - (end - start)
            return self._each_td(lambda td: td.flatten(start - shift, end - shift), moved)
        size = self.batch_size
        if start == 0 and end == len(size) - 1:
            return self.reshape(-1)
        return self.reshape(*size[:start], size[start : end + 1].numel(), *size[end + 1 :])

    def unflatten(self, dim: int, unflattened_size: Sequence[int], *, inplace: bool = False) -> Self:
        """Split a batch dimension into several."""
        where, size = self._dim(dim), self.batch_size
        parts = infer_size(tuple(unflattened_size), size[where])
        if where == self.stack_dim:
            return self._nest(self.tensordicts, parts, where)._remember("reshape", self)
        moved = self.stack_dim + (len(parts) - 1 if where < self.stack_dim else 0)
        below = self._below(where)
        return self._each_td(lambda td: td.unflatten(below, parts), moved)._remember("reshape", self)

    def expand(self, *args: Any, inplace: bool = False) -> Self:
        """Repeat batch dimensions of size 1 without memory, and add leading ones."""
        shape = tuple(args[0]) if len(args) == 1 and not isinstance(args[0], int) else args
        size = self.batch_size
        extra = len(shape) - len(size)
        if extra < 0:
            raise RuntimeError(f"expand: {list(shape)} has fewer dimensions than the batch size {list(size)}.")
        place = self.stack_dim + extra
        length = len(self.tensordicts)
        wanted = length if shape[place] == -1 else shape[place]
        if wanted != length and length != 1:
            raise ValueError(f"expand: the {length} tensordicts of a lazy stack do not expand to {wanted}.")
        below = (*shape[:place], *shape[place + 1 :])
        tds = [td.expand(*below) if below else td for td in self.tensordicts]
        return self._locked_alike(self._like(tds * wanted if length == 1 else tds, place))

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The tensordicts themselves, along the stack dimension; stacks of parts along another."""
        where = self._dim(dim)
        if where == self.stack_dim:
            return tuple(self.tensordicts)
        below = self._below(where)
        moved = self.stack_dim - (where < self.stack_dim)
        rows = zip(*[td.unbind(below) for td in self.tensordicts], strict=True)
        return tuple(self._like(list(row), moved) for row in rows)

    def split(self, split_size: int | list[int], dim: int = 0) -> tuple[Any, ...]:
        """Parts along a batch dimension, all of them stacks of the same tensordicts or of views of them."""
        where = self._dim(dim)
        if where != self.stack_dim:
            below = self._below(where)
            rows = zip(*[td.split(split_size, below) for td in self.tensordicts], strict=True)
            return tuple(self._like(list(row)) for row in rows)
        parts, start = [], 0
        for size in _part_sizes(split_size, len(self.tensordicts)):
            parts.append(self._like(self.tensordicts[start : start + size]))
            start += size
        return tuple(parts)

    def repeat(self, *repeats: Any, inplace: bool = False) -> Self:
        """Copies side by side: how many along each batch dimension."""
        if len(repeats) == 1 and not isinstance(repeats[0], int):
            repeats = tuple(repeats[0])
        if len(repeats) != len(self.batch_size):
            raise ValueError(f"repeat: {len(repeats)} numbers for {len(self.batch_size)} batch dimensions.")
        below = (*repeats[: self.stack_dim], *repeats[self.stack_dim + 1 :])
        tds = [td.repeat(*below) if below else td for td in self.tensordicts]
        return self._like([td.clone() for _ in range(repeats[self.stack_dim]) for td in tds])

    def repeat_interleave(
        self, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None, inplace: bool = False
    ) -> Self:
        """Repeat each element along a batch dimension; see `TensorDictBase.repeat_interleave`."""
        if dim is None:
            return self.reshape(-1).repeat_interleave(repeats, 0, output_size=output_size)
        where = self._dim(dim)
        if where != self.stack_dim:
            below = self._below(where)
            return self._each_td(lambda td: td.repeat_interleave(repeats, below, output_size=output_size))
        times = [repeats] * len(self.tensordicts) if isinstance(repeats, int) else repeats.tolist()
        return self._like([td.clone() for td, count in zip(self.tensordicts, times, strict=True) for _ in range(count)])

    def masked_fill(self, mask: Tensor, value: float | bool) -> Self:
        """With a number where a mask over the batch dimensions holds."""
        return self._like([td.masked_fill(part, value) for td, part in self._masked(mask)])

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        """`masked_fill` in place."""
        for td, part in self._masked(mask):
            td.masked_fill_(part, value)
        return self

    def _masked(self, mask: Tensor) -> Any:
        """Each tensordict with its part of a mask over the (first) batch dimensions."""
        self._check_mask(mask)
        if mask.ndim <= self.stack_dim:
            return [(td, mask) for td in self.tensordicts]
        return zip(self.tensordicts, mask.unbind(self.stack_dim), strict=True)

    def masked_select(self, mask: Tensor) -> Any:
        """The elements where a mask over the (first) batch dimensions holds, in a TensorDict where shapes agree."""
        chosen = self._index(mask)
        even = all(-1 not in self.get_item_shape(key) for key in self.keys(True, True))
        return chosen.contiguous() if even else chosen

    def where(
        self, condition: Tensor, other: Any, *, out: Any = None, pad: Any = None, update_batch_size: bool = False
    ) -> Self:
        """These entries where a condition holds, else those of another; see `TensorDictBase.where`."""
        conditions = condition.expand(self.batch_size).unbind(self.stack_dim)
        if isinstance(other, TensorCollection) or (isinstance(other, Tensor) and other.ndim > self.stack_dim):
            others = other.unbind(self.stack_dim)
        else:
            others = (other,) * len(self.tensordicts)
        rows = zip(self.tensordicts, conditions, others, strict=True)
        result = self._like([td.where(chosen, opposite, pad=pad) for td, chosen, opposite in rows])
        return result if out is None else out.update(result, inplace=True)

"""Making lazy stacks, and dense tensordicts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._lazy_stack.members import StackMethods
from flambeau.data.tensordict._lazy_stack.reading import padded
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._torch_func import stack_tensordicts


class LazyCombining(StackMethods):
    """Class methods that stack, and the way back to a TensorDict."""

    # A lazy stack among TensorDicts makes the combination a lazy one.
    _combine_rank = 1
    _is_lazy_stack = True

    @classmethod
    def lazy_stack(  # type: ignore[override]  # upstream's names of the arguments
        cls,
        items: Sequence[Any],
        dim: int = 0,
        *,
        device: Any = None,
        out: Any = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Stack tensordicts lazily.

        Args:
            items: tensordicts, of whatever keys and shapes; tensors are stacked as `get` would.
            dim: of the stack.
            device: of the stack where there are no items.
            out: a tensordict that takes the entries instead.
            stack_dim_name: of the stack dimension.
            strict_shape: raise where batch sizes differ.
            kwargs: `as_list`, `as_padded_tensor`, `as_nested_tensor`, `padding_side`, `padding_value`, `layout`, for
                tensors of different shapes.
        """
        items = list(items)
        if not items:
            raise RuntimeError("lazy_stack: the list of tensordicts is empty.")
        if isinstance(items[0], Tensor):
            return _stack_tensors(items, dim, kwargs)
        if out is not None:
            return stack_into(out, items, dim)
        first = items[0]
        ndim = len(first.batch_size) + 1
        if not -ndim <= dim < ndim:
            raise IndexError(f"lazy_stack: dimension {dim} is out of range for batch size {list(first.batch_size)}.")
        dim %= ndim
        if first._is_tensorclass and not first._is_non_tensor:
            return type(first)._lazy_stack_of(items, dim)
        if first._is_non_tensor:
            return torch.stack(items, dim)
        return cls(*items, stack_dim=dim, device=device, stack_dim_name=stack_dim_name, strict_shape=strict_shape)

    @classmethod
    def maybe_dense_stack(  # type: ignore[override]  # here, too
        cls, items: Sequence[Any], dim: int = 0, out: Any = None, strict: bool = False
    ) -> Any:
        """A dense stack where keys and shapes agree, else a lazy one.

        Args:
            items: tensordicts.
            dim: of the stack.
            out: takes the result.
            strict: raise where shapes differ.
        """
        items = list(items)
        if strict or all(alike(items[0], item) for item in items[1:]):
            return torch.stack(items, dim, out=out)
        return cls.lazy_stack(items, dim, out=out)

    @classmethod
    def _stack_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        """`torch.stack` with lazy stacks among the items: stacks side by side stay lazy along their own dimension."""
        ndim = len(tds[0].batch_size) + 1
        if not -ndim <= dim < ndim:
            raise IndexError(f"stack: dimension {dim} is out of range for batch size {list(tds[0].batch_size)}.")
        dim %= ndim
        if out is not None:
            return stack_into(out, tds, dim)
        first = tds[0]
        _check_alike(tds)
        if not all(isinstance(td, LazyCombining) and td.stack_dim == first.stack_dim for td in tds):
            return stack_tensordicts([td.contiguous() for td in tds], dim, None)
        rows = zip(*[td.tensordicts for td in tds], strict=True)
        place = first.stack_dim + (dim <= first.stack_dim)
        below = dim if dim <= first.stack_dim else dim - 1
        return first._like([cls.maybe_dense_stack(list(row), below) for row in rows], place)

    @classmethod
    def _cat_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        """`torch.cat` with lazy stacks among the items; along the stack dimension their lists are put together."""
        lazy = next(td for td in tds if isinstance(td, LazyCombining))
        where = lazy._dim(dim)
        if out is not None:
            parts = out.split([td.batch_size[where] for td in tds], where)
            for part, td in zip(parts, tds, strict=True):
                part.update(td, inplace=True)
            return out
        if where == lazy.stack_dim:
            return lazy._like([part for td in tds for part in td.unbind(where)])
        rows = zip(*[td.unbind(lazy.stack_dim) for td in tds], strict=True)
        below = lazy._below(where)
        return lazy._like([torch.cat(list(row), below) for row in rows])

    # --- dense

    def _is_even(self) -> bool:
        """Whether the tensordicts have the same keys and shapes, so that a dense stack loses nothing."""
        return all(alike(self.tensordicts[0], td) for td in self.tensordicts[1:])

    def _dense(self) -> Any:
        """A TensorDict of the stacked entries.

        Raises:
            RuntimeError: shapes differ.
        """
        data = {}
        for key, value in self._items():
            data[key] = value._dense() if isinstance(value, LazyCombining) else value
        return self._result(data, self.batch_size, self.device, self._names_or_none())

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Any:
        """A dense TensorDict with contiguous tensors.

        Raises:
            NotImplementedError: `inplace`; a lazy stack cannot become a TensorDict.
            RuntimeError: shapes differ; `densify` takes those.
        """
        if inplace:
            raise NotImplementedError("contiguous(inplace=True): a lazy stack cannot become dense; use its result.")
        return self._dense().contiguous(canonical=canonical)

    def densify(self, *, layout: torch.layout = torch.strided) -> Any:  # type: ignore[override]  # upstream's
        """A TensorDict with the entries stacked; those of different shapes become nested tensors of this layout.

        So do tensors that only some of the tensordicts have: for the others they have no elements.
        """
        data = {}
        for key in self._key_names():
            values = [td._get_str(key) for td in self.tensordicts]
            if isinstance(values[0], TensorCollection):
                entry = self._get_str(key)
                data[key] = entry.densify(layout=layout) if isinstance(entry, LazyCombining) else entry
            elif all(value.shape == values[0].shape for value in values):
                data[key] = torch.stack(values, self.stack_dim)
            else:
                data[key] = self._nested_tensor(key, values, layout)
        for key in dict.fromkeys(key for td in self.tensordicts for key in td._key_names() if key not in data):
            found = [td._get_str(key) for td in self.tensordicts]
            first = next(value for value in found if value is not None)
            if isinstance(first, Tensor) and first.ndim:
                empty = first.new_zeros((*first.shape[:-1], 0))
                values = [empty if value is None else value for value in found]
                data[key] = self._nested_tensor(key, values, layout)
        return self._result(data, self.batch_size, self.device, self._names_or_none())

    def to_lazystack(self, dim: int = 0) -> Any:
        """A lazy stack along a batch dimension: this one if it is along its own."""
        return self if self._dim(dim) == self.stack_dim else super().to_lazystack(dim)

    def to_padded_tensor(self, padding: float = 0.0, mask_key: Any = None) -> Any:
        """With nested tensors filled up in each tensordict; see `TensorDictBase.to_padded_tensor`."""
        return self._like([td.to_padded_tensor(padding, mask_key) for td in self.tensordicts])

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """A dense TensorDict with copies of all tensors.

        Raises:
            RuntimeError: shapes differ.
        """
        return self._dense()._fast_apply(lambda leaf: leaf.clone(), filter_empty=False)


def stack_into(out: Any, items: list[Any], dim: int) -> Any:
    """Write each item to its place in `out`."""
    for place, item in zip(out.unbind(dim), items, strict=True):
        place.update(item, inplace=True)
    return out


def _check_alike(tds: list[Any]) -> None:
    """Raise unless all have the same batch size, and the same keys; shapes of entries may differ."""
    first = tds[0]
    for position, td in enumerate(tds):
        if td.batch_size != first.batch_size:
            raise RuntimeError(
                f"stack: tensordict {position} has batch size {list(td.batch_size)}, the first has "
                f"{list(first.batch_size)}; lazy_stack takes tensordicts of different sizes."
            )
        if odd := set(first._key_names()) ^ set(td._key_names()):
            raise RuntimeError(
                f"stack: the keys of tensordict {position} differ from the first's in {listing(sorted(odd))}; "
                "lazy_stack takes tensordicts of different keys."
            )


def alike(one: Any, other: Any) -> bool:
    """Whether two collections stack: the same keys, and entries of the same shapes."""
    if type(one) is not type(other) or one.batch_size != other.batch_size:
        return False
    if one._is_non_tensor:
        return True
    if isinstance(one, LazyCombining):
        pairs = zip(one.tensordicts, other.tensordicts, strict=False)
        return one.stack_dim == other.stack_dim and all(alike(left, right) for left, right in pairs)
    if one._key_names() != other._key_names():
        return False
    for key, value in one._items():
        opposite = other._get_str(key)
        if isinstance(value, TensorCollection):
            if not isinstance(opposite, TensorCollection) or not alike(value, opposite):
                return False
        elif not isinstance(opposite, Tensor) or value.shape != opposite.shape:
            return False
    return True


def _stack_tensors(items: list[Tensor], dim: int, how: dict[str, Any]) -> Any:
    if how.get("as_list"):
        return items
    if how.get("as_padded_tensor"):
        return padded(items, dim, how.get("padding_value", 0.0), how.get("padding_side", "right"))
    if how.get("as_nested_tensor"):
        return torch.nested.as_nested_tensor(items, layout=how.get("layout") or torch.jagged)
    return torch.stack(items, dim)

"""Which tensors of two sides belong together in arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


def aligned_leaves(td: Any, other: Any, *, always_list: bool = False) -> tuple[list[Any], Any]:
    """The tensors of a collection, and what stands opposite to each.

    Args:
        td: a collection.
        other: a number, a tensor that broadcasts over the batch, or a collection or mapping of the same keys.
        always_list: repeat a number for every tensor.

    Returns:
        The tensors of `td`, and a list as long, or the one number.

    Raises:
        KeyError: the keys differ.
        RuntimeError: a tensor does not broadcast over the batch dimensions.
    """
    leaves = td._leaves()
    opposite: list[Any] = []
    if isinstance(other, (TensorCollection, Mapping)):
        td._collect_like(other, opposite)
        return leaves, opposite
    if isinstance(other, Tensor):
        if other.ndim:
            td._collect_spread(other, opposite)
            return leaves, opposite
        return leaves, [other] * len(leaves)
    if always_list:
        return leaves, [torch.full_like(leaf, other) for leaf in leaves]
    return leaves, other


def comparable(other: Any) -> bool:
    """Whether something can stand opposite to a collection: a collection, mapping, tensor or number."""
    return isinstance(other, (TensorCollection, Mapping, Tensor, Number))


def broadcast_sides(td: Any, other: Any) -> tuple[Any, Any]:
    """Both sides with the batch size that theirs broadcast to; numbers and mappings as they are.

    Raises:
        RuntimeError: the sizes do not broadcast.
    """
    size = td.batch_size
    if not isinstance(other, (TensorCollection, Tensor)) or not other.ndim or other.shape == size:
        return td, other
    shape = other.shape
    if -1 in size or -1 in shape:  # of lazy stacks, whose tensordicts are compared one by one
        return td, other
    common = torch.broadcast_shapes(size, shape)
    return td if size == common else td.expand(common), other if shape == common else other.expand(common)


class AlignmentMethods(CollectionMethods):
    """Walks over two sides in step."""

    def _collect_like(self, other: Any, into: list[Any]) -> None:
        """Append the tensors of `other` in the order of those here.

        Raises:
            KeyError: the keys differ.
        """
        get = other._get_str if isinstance(other, TensorCollection) else other.get
        count = 0
        for key, value in self._items():
            opposite = get(key)
            if opposite is None:
                raise mismatch(self, other)
            count += 1
            if not isinstance(value, TensorCollection):
                into.append(opposite)
            elif not value._is_non_tensor:
                value._collect_like(opposite, into)
        if count != len(names_of(other)):
            raise mismatch(self, other)

    def _collect_spread(self, tensor: Tensor, into: list[Any]) -> None:
        """Append, for every tensor here, `tensor` with dimensions of size 1 for its own after the batch's.

        Raises:
            RuntimeError: it does not broadcast to the batch size.
        """
        spread = tensor if tensor.shape == self.batch_size else tensor.expand(self.batch_size)
        for _, value in self._items():
            if isinstance(value, TensorCollection):
                if not value._is_non_tensor:
                    value._collect_spread(_widened(spread, len(value.batch_size)), into)
            else:
                into.append(_widened(spread, value.ndim))


def _widened(tensor: Tensor, ndim: int) -> Tensor:
    return tensor.reshape(tensor.shape + (1,) * (ndim - tensor.ndim)) if ndim > tensor.ndim else tensor


def names_of(other: Any) -> Any:
    """The keys of the first level, of a collection or a mapping."""
    return other._key_names() if isinstance(other, TensorCollection) else other


def mismatch(td: Any, other: Any) -> KeyError:
    """The error for sides of different keys."""
    odd = sorted(set(td._key_names()).symmetric_difference(names_of(other)))
    return KeyError(f"the two sides must have the same keys, but {listing(odd)} are on one side only.")


def spread_over(tensor: Tensor, batch_size: torch.Size, leaf: Tensor) -> Tensor:
    """A tensor over the batch dimensions, with dimensions of size 1 for the leaf's own.

    Raises:
        RuntimeError: it does not broadcast to the batch size.
    """
    return _widened(tensor if tensor.shape == batch_size else tensor.expand(batch_size), leaf.ndim)


def with_default(left: Any, right: Any, default: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine what both have; for other keys a default stands in, or they are dropped ("intersection")."""
    if left._is_lazy_stack:
        parts = right.unbind(left.stack_dim)
        rows = zip(left.tensordicts, parts, strict=True)
        return left._like([with_default(td, part, default, combine) for td, part in rows])
    mine, theirs = left._key_names(), right._key_names()
    shared = [key for key in mine if key in theirs]
    result = left.empty()
    for key in [*mine, *(key for key in theirs if key not in mine)]:
        if key in shared:
            a, b = left._get_str(key), right._get_str(key)
            if isinstance(a, TensorCollection) and not a._is_non_tensor:
                value = with_default(a, b, default, combine)
            else:
                value = _entry(combine, left, key, a, b)
        elif isinstance(default, str) and default == "intersection":
            value = left._get_str(key)
            value = _without_tensors(value) if isinstance(value, TensorCollection) else None
            if value is None:
                continue
        elif key in mine:
            value = _one_sided(combine, left, key, left._get_str(key), default, flip=False)
        else:
            value = _one_sided(combine, right, key, right._get_str(key), default, flip=True)
        result._set_str(key, value, validated=True)
    return result


def _without_tensors(value: Any) -> Any:
    """The non-tensor data of an entry, which take no part in arithmetic and stay; None where it has none."""
    if value._is_non_tensor:
        return value
    kept = {key: item for key, item in value._items() if isinstance(item, TensorCollection)}
    kept = {key: below for key, item in kept.items() if (below := _without_tensors(item)) is not None}
    return value._result(kept, value.batch_size, value.device, value._names_or_none()) if kept else None


def _entry(combine: Any, td: Any, key: str, a: Any, b: Any) -> Any:
    left, right = td.empty(), td.empty()
    left._set_str(key, a, validated=True)
    right._set_str(key, b, validated=True)
    return combine(left, right)._get_str(key)


def _one_sided(combine: Any, td: Any, key: str, value: Any, default: Any, *, flip: bool) -> Any:
    """An entry against the default, on whichever side it stands."""
    here = td.empty()
    here._set_str(key, value, validated=True)
    there = here._fast_apply(lambda item: torch.full_like(item, default))
    return (combine(there, here) if flip else combine(here, there))._get_str(key)

"""The numbers of a `NonTensorStack`: an int64 tensor that says which of its values stands at each position.

Along some dimensions the parts of a stack were one value for a whole batch each. There the numbers have stride 0, which
every view hands on: where nothing but such dimensions is left, the one value comes out again, not a stack of equal
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._non_tensor.data import NonTensorDataBase, values_and_positions
from flambeau.data.tensordict._td import make_td
from flambeau.data.tensordict.base import TensorDictBase

KEY = "positions"


def positions_td(positions: Tensor, like: Any = None) -> Any:
    """The tensordict around numbers, with device and names of another collection."""
    if like is None:
        return make_td({KEY: positions}, positions.shape)
    return make_td({KEY: positions}, positions.shape, like.device, like._names_or_none())


def is_one_value(positions: Tensor) -> bool:
    """Whether one value stands for all positions, not equal ones at each."""
    return not any(positions.stride()) and positions.numel() > 0 and not torch._C._functorch.is_batchedtensor(positions)


def shared_dims(wrapper: Any) -> set[int]:
    """The dimensions along which a wrapper has one value, not equal ones."""
    if isinstance(wrapper, NonTensorDataBase):
        return set(range(len(wrapper._size)))
    positions = wrapper._positions
    return {dim for dim, stride in enumerate(positions.stride()) if stride == 0} if positions.numel() else set()


def shared(positions: Tensor, dims: Iterable[int]) -> Tensor:
    """The same numbers, with stride 0 along dimensions on which they do not depend."""
    if not positions.numel():
        return positions
    for dim in dims:
        size = list(positions.shape)
        length, size[dim] = size[dim], max(2, size[dim])  # a view of size 1 would keep its stride
        positions = positions.narrow(dim, 0, 1).expand(size).narrow(dim, 0, length)
    return positions


def with_own(positions: Tensor, dims: Iterable[int], kept: Iterable[int]) -> Tensor:
    """The same numbers with a stride of their own along `dims`, and none along `kept`."""
    if all(positions.stride(dim) for dim in dims):
        return positions
    return shared(positions.clone(memory_format=torch.contiguous_format), kept)


def combined(function: Callable[..., Any], wrappers: list[Any], dim: int) -> tuple[list[Any], TensorDictBase]:
    """Values and positions of a stack or concatenation of wrappers of whatever kind."""
    first = wrappers[0]
    stacks = function is torch.stack
    if stacks and all(
        isinstance(item, NonTensorDataBase) and item._size == first._size and item._dim_names is None
        for item in wrappers
    ):
        return _stacked(wrappers, first, dim)
    pool: list[Any] = []
    parts = []
    for wrapper in wrappers:
        if not getattr(wrapper, "_is_non_tensor", False):
            raise RuntimeError(
                f"a {type(wrapper).__name__} cannot be combined with non-tensor data; the entry must be one or the "
                "other in all tensordicts."
            )
        values, positions = values_and_positions(wrapper)
        parts.append(positions_td(positions + len(pool), wrapper._tensordict))
        pool.extend(values)
    result = function(parts, dim)
    dim %= max(1, len(result.batch_size))
    both = set.intersection(*map(shared_dims, wrappers))
    kept = {one + (one >= dim) for one in both} if stacks else both - {dim}
    return pool, positions_td(shared(result._get_str(KEY), kept), result) if kept else result


def _stacked(wrappers: list[Any], first: Any, dim: int) -> tuple[list[Any], TensorDictBase]:
    """The stack of wrappers of one value each: it is numbered along the new dimension."""
    ndim = len(first._size)
    if not -ndim - 1 <= dim <= ndim:
        raise IndexError(f"stack: dimension {dim} is out of range for wrappers of batch size {list(first._size)}.")
    dim %= ndim + 1
    size = (*first._size[:dim], len(wrappers), *first._size[dim:])
    strides = [int(at == dim) for at in range(ndim + 1)]
    positions = positions_td(torch.arange(len(wrappers)).as_strided(size, strides))
    positions._device = first._where
    return [item._value for item in wrappers], positions


def compacted(values: list[Any], positions: Tensor) -> tuple[list[Any], Tensor]:
    """Only the values that stand somewhere."""
    used, numbers = positions.unique(return_inverse=True)
    kept = [dim for dim, stride in enumerate(positions.stride()) if stride == 0]
    return [values[index] for index in used.tolist()], shared(numbers.reshape(positions.shape), kept)


def place_after(index: Any, dim: int, ndim: int) -> int:
    """Where a dimension is after indexing with integers, slices and None; where it is gone, what comes in its place."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(part is Ellipsis for part in parts):
        at = next(place for place, part in enumerate(parts) if part is Ellipsis)
        filled = ndim - sum(part is not None and part is not Ellipsis for part in parts)
        parts[at : at + 1] = [slice(None)] * filled
    place = 0
    for part in parts:
        if part is None or isinstance(part, bool):
            place += 1
        elif dim == 0:
            break
        else:
            dim -= 1
            place += not isinstance(part, int)
    return place + dim


def shared_behind(index: Any, wrapper: Any) -> int:
    """How many trailing dimensions of one value an index of the first dimensions leaves as they are.

    Args:
        index: a tensor, list, range or array, which makes copies; other indices make views and keep strides anyway.
        wrapper: a `NonTensorStack`.
    """
    if index is None or isinstance(index, (tuple, int, slice, bool)) or index is Ellipsis:
        return 0
    mask = isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)
    reach = index.ndim if mask else 1
    ndim, dims = len(wrapper.batch_size), shared_dims(wrapper)
    count = 0
    while count < ndim - reach and ndim - 1 - count in dims:
        count += 1
    return count

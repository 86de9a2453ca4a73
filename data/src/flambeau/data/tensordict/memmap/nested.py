"""Nested tensors in mapped memory: the flat elements of all, one after the other, and an int64 table of sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict.memmap.files import map_file
from flambeau.data.tensordict.memmap.parallel import write_complete
from flambeau.data.tensordict.memmap.shared import SharedHandle


@dataclass(frozen=True)
class Jagged:
    """What a nested tensor over mapped memory is made of.

    Attributes:
        flat: all elements, one dimension.
        sizes: (tensors, dims), int64: the size of each.
    """

    flat: Tensor
    sizes: Tensor


def numel(sizes: Tensor) -> int:
    """How many elements a (tensors, dims) table of sizes stands for."""
    return int(sizes.prod(-1).sum()) if sizes.numel() else int(sizes.shape[0]) if sizes.ndim == 2 else 0


def take_apart(tensor: Tensor) -> Jagged:
    """The contiguous elements of a nested tensor, strided or jagged, and the table of its sizes.

    Raises:
        TypeError: tensors of more than one ragged dimension in jagged layout.
    """
    parts = [part.detach().cpu() for part in tensor.unbind(0)]
    sizes = torch.tensor([list(part.shape) for part in parts], dtype=torch.int64).reshape(len(parts), tensor.dim() - 1)
    if not parts:
        return Jagged(torch.empty(0, dtype=tensor.dtype), sizes)
    return Jagged(torch.cat([part.reshape(-1) for part in parts]), sizes)


def from_entries(flat: Tensor, sizes: Tensor) -> Tensor:
    """A nested tensor of strided layout over flat elements, without a copy."""
    strides = torch.ones_like(sizes)
    for column in range(sizes.shape[1] - 2, -1, -1):
        strides[:, column] = strides[:, column + 1] * sizes[:, column + 1]
    lengths = sizes.prod(-1)
    offsets: Any = lengths.cumsum(0) - lengths + flat.storage_offset()  # they are counted from the storage's beginning
    return torch._nested_view_from_buffer(flat, sizes, strides, offsets)


def to_jagged(flat: Tensor, sizes: Tensor) -> Tensor:
    """A nested tensor of jagged layout over flat elements: the first of its dimensions is the ragged one."""
    tail = sizes[0, 1:].tolist() if len(sizes) else [0] * (sizes.shape[1] - 1)
    offsets = torch.zeros(len(sizes) + 1, dtype=torch.int64)
    offsets[1:] = sizes[:, 0].cumsum(0)
    return torch.nested.nested_tensor_from_jagged(flat.reshape(-1, *tail), offsets)


def from_memory(
    cls: type[Tensor],
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    sizes: Tensor,
    *,
    filename: str | None = None,
    handler: SharedHandle | None = None,
    readonly: bool = False,
) -> Any:
    """A nested memory-mapped tensor over mapped memory."""
    flat = torch.empty(0, dtype=dtype).set_(storage, 0, (numel(sizes),))  # type: ignore[call-overload]  # torch lacks this form
    made: Any = from_entries(flat, sizes).as_subclass(cls)
    made._filename, made._handler, made._readonly, made._nested = filename, handler, readonly, Jagged(flat, sizes)
    return made


def from_file(cls: type[Tensor], path: str, dtype: torch.dtype, sizes: Tensor, mode: Any) -> Any:
    """A nested memory-mapped tensor over a file of flat elements."""
    storage, readonly = map_file(path, numel(sizes) * dtype.itemsize, mode)
    return from_memory(cls, storage, dtype, sizes, filename=path, readonly=readonly)


def from_nested(cls: type[Tensor], tensor: Tensor, path: str | None, *, sizes: Tensor | None, copy_data: bool) -> Any:
    """A nested tensor copied into a file or shared memory."""
    parts = take_apart(tensor)
    table = parts.sizes if sizes is None else sizes
    if path is not None:
        write_complete(path, parts.flat if copy_data else None, parts.flat.nbytes)
        return from_file(cls, path, tensor.dtype, table, "r+")
    handler = SharedHandle(max(parts.flat.nbytes, 1))
    made = from_memory(cls, handler.storage, tensor.dtype, table, handler=handler)
    if copy_data:
        made._nested.flat.copy_(parts.flat)
    return made


def rebuild(cls: type[Tensor], where: str | SharedHandle, dtype: torch.dtype, sizes: Tensor, readonly: bool) -> Any:
    """The nested tensor that a pickle describes."""
    if isinstance(where, SharedHandle):
        return from_memory(cls, where.storage, dtype, sizes, handler=where)
    return from_file(cls, where, dtype, sizes, "r" if readonly else "r+")

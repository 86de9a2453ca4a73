"""Batch sizes and devices as they are given, and the leading dimensions of entries."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

_EMPTY = torch.Size(())


def as_size(batch_size: Any) -> torch.Size:
    """A batch size as `torch.Size`; None is the empty one, an int is one dimension.

    Raises:
        ValueError: it is none of these, nor a sequence of ints.
    """
    if type(batch_size) is torch.Size:
        return batch_size
    if batch_size is None:
        return _EMPTY
    if isinstance(batch_size, int):
        return torch.Size((batch_size,))
    try:
        return torch.Size(batch_size)
    except TypeError as error:
        raise ValueError(f"a batch size is made of ints, but this is {batch_size!r}.") from error


def as_device(device: Any) -> torch.device:
    """A device, with its number where the kind has several."""
    device = torch.device(device)
    if device.index is None and device.type not in ("cpu", "meta"):
        module = getattr(torch, device.type, None)
        if module is not None and module.is_available():
            return torch.device(device.type, module.current_device())
    return device


def leading_shape(value: Any, dims: int) -> torch.Size:
    """The first dimensions of an entry; of a nested tensor those that are not ragged."""
    if isinstance(value, Tensor) and value.is_nested and value.layout is torch.strided:
        return torch.Size([value.size(0)][:dims])
    return value.shape[:dims]


def refuse_device(device: Any) -> NoReturn:
    """What the assignment of a device does: raise RuntimeError."""
    raise RuntimeError(f"the device cannot be assigned; `to({str(device)!r})` gives a copy there.")

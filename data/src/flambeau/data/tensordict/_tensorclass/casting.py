"""Values of a tensorclass's fields, converted to the types that they are annotated with."""

from __future__ import annotations

import dataclasses
import numbers
import typing
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._tensorcollection import TensorCollection, is_non_tensor, is_tensorclass


def cast_to_annotation(value: Any, kind: Any, batch_size: torch.Size, device: torch.device | None) -> Any:
    """A value as an entry of an annotated type.

    Args:
        value: anything but None.
        kind: the annotation. Upstream: unions, `Any`, generics such as `list[int]` and names that could not be resolved
            say no single class; numbers and arrays become tensors then, and all else stays as it is.
        batch_size: of the tensorclass.
        device: of the tensorclass.
    """
    if kind is Any or typing.get_origin(kind) is not None or not isinstance(kind, type) or kind is object:
        return _bare(value, batch_size, device) if isinstance(value, (list, tuple, dict, np.generic)) else value
    if issubclass(kind, Tensor):
        return value if isinstance(value, Tensor) else torch.as_tensor(value, device=device)
    if issubclass(kind, TensorCollection):
        return _collection(value, kind, batch_size, device)
    if isinstance(value, TensorCollection):
        return value
    if issubclass(kind, np.ndarray):
        return _bare(np.asarray(value), batch_size, device)  # the class called with a number makes an array of garbage
    if not isinstance(value, kind):
        make: Any = kind
        value = make(value.item() if isinstance(value, Tensor) and value.numel() == 1 else value)
    return _bare(value, batch_size, device)


def _collection(value: Any, kind: Any, batch_size: torch.Size, device: torch.device | None) -> Any:
    if isinstance(value, kind):
        return value
    if is_non_tensor(kind):
        return _bare(value, batch_size, device)
    if dataclasses.is_dataclass(value) and not isinstance(value, TensorCollection):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if is_tensorclass(kind) and isinstance(value, dict):
        return kind(**value, batch_size=batch_size, device=device)
    inner = classes.TensorDict(value, batch_size=batch_size, device=device) if isinstance(value, dict) else value
    return kind.from_tensordict(inner) if is_tensorclass(kind) else inner


_KEPT = (numbers.Number, np.generic, np.ndarray, dict, tuple)


def keep_number(value: Any, batch_size: torch.Size, device: torch.device | None) -> Any:
    """Numbers, arrays, dicts and tuples as the objects that they are; all else is converted as in any tensordict."""
    return _bare(value, batch_size, device) if isinstance(value, _KEPT) else value


def _bare(value: Any, batch_size: torch.Size, device: torch.device | None) -> Any:
    return classes.NonTensorData(value, batch_size=batch_size, device=device)

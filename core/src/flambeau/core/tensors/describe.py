"""One line of text, or a picture, for a typed tensor. Never its contents: those may be large, or private."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

import torch
from torch import Tensor

from flambeau.core.tensors.info import TensorTypeInfo, is_typed


def summary(value: Any) -> str:
    """Describe a value in one line: for tensors class, shape, dtype, device and metadata.

    Args:
        value: a tensor, or a dictionary, list or tuple of values, or anything else (its type is named).

    Example:
        >>> summary({"image": torch.zeros(3, 8, 8), "label": 3})
        '{image: Tensor (3, 8, 8) float32 cpu, label: int}'
    """
    if is_typed(value):
        own = TensorTypeInfo.of(value).summary
        return _typed(value) if own is None else " ".join(str(load(own)(value)).split())
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {summary(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        opening, closing = "[]" if isinstance(value, list) else "()"
        return opening + ", ".join(map(summary, value)) + closing
    return type(value).__name__


def plot(value: Any) -> str | None:
    """HTML for a typed tensor, from its type's `plot`; None when the type declares none."""
    target = TensorTypeInfo.of(value).plot
    return None if target is None else cast("str", load(target)(value))


def load(target: str) -> Callable[..., Any]:
    """The object that `"module:attribute"` names."""
    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return cast("Callable[..., Any]", found)


def _typed(value: Any) -> str:
    metadata = TensorTypeInfo.of(value).metadata(value)
    return " ".join([_tensor(value), *(f"{name}={_short(item)}" for name, item in metadata.items())])


def _tensor(value: Tensor) -> str:
    shape, dtype, device = tuple(value.shape), str(value.dtype).removeprefix("torch."), value.device
    grad = " requires_grad" if value.requires_grad else ""
    return f"{type(value).__name__} {shape} {dtype} {device}{grad}"


def _short(item: Any) -> str:
    if isinstance(item, Tensor):
        return f"<{_tensor(item)}>"
    if isinstance(item, enum.Enum):
        return item.name
    text = str(item) if isinstance(item, (torch.dtype, torch.device)) else repr(item)
    return text if len(text) <= 60 else text[:57] + "..."

"""How tensordicts print: keys, shapes, dtypes and devices of the entries, as `set_printoptions` asks for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._utils_options import _REPR_OPTIONS

_INDENT = "    "


def describe(td: Any) -> str:
    """The text of a tensordict."""
    options = _REPR_OPTIONS
    lines = [f"{name}={{\n{fields}}}" for name, fields in td._repr_fields()]
    if options["show_batch_size"]:
        lines.append(f"batch_size={td.batch_size}")
    if options["show_device"]:
        lines.append(f"device={td.device}")
    if options["show_is_shared"]:
        lines.append(f"is_shared={td.is_shared()}")
    lines += [f"{name}={value}" for name, value in td._repr_extras()]
    text = textwrap.indent(",\n".join(lines), _INDENT)
    return f"{type(td).__name__}(\n{text})"


def listing_of(entries: Iterable[tuple[str, str]]) -> str:
    """Keys and texts of entries, one below the other, in the order that `sort_keys` asks for."""
    lines = [f"{key}: {text}" for key, text in entries]
    order = _REPR_OPTIONS["sort_keys"]
    if order == "alphabetical":
        lines.sort()
    elif callable(order):
        lines.sort(key=order)
    return textwrap.indent(",\n".join(lines), _INDENT)


def entry_text(value: Any, shape: torch.Size | None = None) -> str:
    """The text of an entry.

    Args:
        value: the entry.
        shape: to tell in place of the value's own, of an entry that stands for several tensors.
    """
    if not isinstance(value, Tensor):
        return repr(value)
    options = _REPR_OPTIONS
    shown = []
    if options["show_shape"]:
        shown.append(f"shape={_shape_of(value) if shape is None else shape}")
    if options["show_field_device"]:
        shown.append(f"device={value.device}")
    if options["show_dtype"]:
        shown.append(f"dtype={value.dtype}")
    if options["show_field_is_shared"]:
        shown.append(f"is_shared={value.is_shared() if value.layout is torch.strided else False}")
    if shape is None:
        shown += _details(value)
    return f"{type(value).__name__}({', '.join(shown)})"


def _details(value: Tensor) -> list[str]:
    options = _REPR_OPTIONS
    shown = []
    if options["show_grad"]:
        shown.append(f"requires_grad={value.requires_grad}")
    if options["show_is_contiguous"]:
        shown.append(f"is_contiguous={value.is_contiguous()}")
    if options["show_is_view"]:
        shown.append(f"is_view={value._is_view()}")
    if options["show_storage_size"]:
        shown.append(f"storage_size={value.untyped_storage().size()}")
    if options["plain"]:
        shown.append(_summary(value))
    return shown


def _shape_of(value: Tensor) -> torch.Size:
    if not value.is_nested or value.layout is torch.jagged:
        return value.shape
    sizes = value._nested_tensor_size()
    same = [int(column[0]) if len(set(column.tolist())) == 1 else -1 for column in sizes.t()]
    return torch.Size((len(sizes), *same))


def _summary(value: Tensor) -> str:
    """The values in two numbers: mean and deviation, or the range of integers and bools."""
    if value.is_meta:
        return "..."
    value = value.detach().as_subclass(Tensor)
    value = value.values() if value.is_nested or value.layout is torch.sparse_coo else value
    if not value.numel():
        return "[]"
    if value.dtype.is_floating_point or value.dtype.is_complex:
        wide = value if value.dtype.is_complex else value.double()
        deviation = wide.std().item() if value.numel() > 1 else float("nan")
        return f"mean={wide.mean().item():.4g}, std={deviation:.4g}"
    return f"min={value.min().item()}, max={value.max().item()}"

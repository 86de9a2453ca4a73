"""How tensordicts print: keys, shapes, dtypes and devices of the entries, sorted by key."""

from __future__ import annotations

import textwrap
from typing import Any

from torch import Tensor

from flambeau.data.tensordict._utils_options import _REPR_OPTIONS


def describe(td: Any) -> str:
    """The text of a tensordict, as `set_printoptions` asks for."""
    options = _REPR_OPTIONS
    items = sorted(td._items()) if options["sort_keys"] == "alphabetical" else list(td._items())
    fields = ",\n".join(textwrap.indent(f"{key}: {_entry(value)}", "    ") for key, value in items)
    lines = ["fields={\n" + fields + "}"]
    if options["show_batch_size"]:
        lines.append(f"batch_size={td.batch_size}")
    if options["show_device"]:
        lines.append(f"device={td.device}")
    if options["show_is_shared"]:
        lines.append(f"is_shared={td.is_shared()}")
    lines += [f"{name}={value}" for name, value in td._repr_extras()]
    return f"{type(td).__name__}(\n{textwrap.indent(_joined(lines), '    ')})"


def _joined(lines: list[str]) -> str:
    return ",\n".join(lines)


def _entry(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    options = _REPR_OPTIONS
    if options["plain"]:
        return repr(value)
    shown = []
    if options["show_shape"]:
        shown.append(f"shape={value.shape}" if not value.is_nested else "shape=[...]")
    if options["show_field_device"]:
        shown.append(f"device={value.device}")
    if options["show_dtype"]:
        shown.append(f"dtype={value.dtype}")
    if options["show_field_is_shared"]:
        shown.append(f"is_shared={value.is_shared()}")
    if options["show_grad"]:
        shown.append(f"requires_grad={value.requires_grad}")
    if options["show_is_contiguous"]:
        shown.append(f"is_contiguous={value.is_contiguous()}")
    if options["show_is_view"]:
        shown.append(f"is_view={value._is_view()}")
    if options["show_storage_size"]:
        shown.append(f"storage_size={value.untyped_storage().size()}")
    return f"{type(value).__name__}({', '.join(shown)})"

"""Whether an item is what a dataset's schema says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau.core.datasets import Field


def item_fault(item: Any, schema: Sequence[Field]) -> str | None:
    """None where an item fits its schema, else one line that says what does not."""
    if isinstance(item, Mapping):
        pairs = [(field, item[field.key]) for field in schema if field.key in item]
        wanted, found = {field.key for field in schema}, set(item)
        optional = {field.key for field in schema if field.optional}
        if found - wanted or wanted - found - optional:
            return f"the item has the keys {sorted(found)}, the schema {sorted(wanted)}"
    elif isinstance(item, tuple):
        if len(item) != len(schema):
            return f"the item has {len(item)} parts, the schema {len(schema)}"
        pairs = list(zip(schema, item, strict=True))
    elif len(schema) == 1:
        pairs = [(schema[0], item)]
    else:
        return f"the item is a {type(item).__name__}, but the schema has {len(schema)} fields"
    return next((fault for field, value in pairs if (fault := field_fault(value, field))), None)


def field_fault(value: Any, field: Field) -> str | None:
    """None where a value fits its field, else one line."""
    if value is None:
        return None if field.optional else f"{field.key} is None, which the schema does not allow"
    if fault := _kind_fault(value, field.kind):
        return f"{field.key} {fault}"
    if field.classes is not None and isinstance(value, int) and not 0 <= value < field.classes:
        return f"{field.key} is {value}, expected a class in [0, {field.classes})"
    shape, dtype = _shape_and_dtype(value, field.kind)
    if field.shape is not None and not _fits(shape, field.shape):
        return f"{field.key} has shape {shape}, expected {field.shape}"
    if field.dtype is not None and dtype is not None and dtype != field.dtype:
        return f"{field.key} has dtype {dtype}, expected {field.dtype}"
    return None


def _kind_fault(value: Any, kind: str) -> str | None:
    if "/" in kind:
        from flambeau.core.registry import TENSOR_TYPES

        expected = TENSOR_TYPES.resolve(kind)
        return None if isinstance(value, expected) else f"is a {type(value).__name__}, expected a {expected.__name__}"
    if kind not in _KINDS:
        return f"has the kind {kind!r} in the schema; known are {', '.join(sorted(_KINDS))} and ids of tensor types"
    return None if _KINDS[kind](value) else f"is a {type(value).__name__}, expected a value of kind {kind!r}"


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_picture(value: Any) -> bool:
    return _is_array(value) or (hasattr(value, "getbands") and hasattr(value, "size"))


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        _is_array(value) and tuple(value.shape) == () and "int" in str(value.dtype)
    )


_KINDS: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "bool": lambda value: isinstance(value, bool),
    "boxes": _is_array,
    "bytes": lambda value: isinstance(value, bytes | bytearray | memoryview),
    "float": lambda value: isinstance(value, float) or (_is_array(value) and "float" in str(value.dtype)),
    "image": _is_picture,
    "int": _is_integer,
    "keypoints": _is_array,
    "label": _is_integer,
    "list": lambda value: isinstance(value, list | tuple),
    "mapping": lambda value: isinstance(value, Mapping),
    "mask": _is_picture,
    "path": lambda value: isinstance(value, str) or hasattr(value, "__fspath__"),
    "tensor": _is_array,
    "text": lambda value: isinstance(value, str),
    "video": _is_array,
    "waveform": _is_array,
}


_DTYPES_OF_MODES = {"1": "bool", "F": "float32", "I": "int32", "I;16": "uint16"}


def _shape_and_dtype(value: Any, kind: str) -> tuple[tuple[int, ...] | None, str | None]:
    if _is_array(value):
        return tuple(value.shape), str(value.dtype).removeprefix("torch.")
    if kind in ("image", "mask"):  # a Pillow image: width before height, bands, and 8 bits in most modes
        width, height = value.size
        return (len(value.getbands()), height, width), {"I": "int32", "F": "float32", "1": "bool"}.get(
            value.mode, "uint8"
        )
    return ((len(value),) if isinstance(value, list | tuple | bytes) else None), None


def _fits(shape: tuple[int, ...] | None, pattern: tuple[int | str, ...]) -> bool:
    """Whether sizes match a pattern, one name standing for one size throughout."""
    if shape is None:
        return False
    if "..." in pattern:
        at = pattern.index("...")
        after = len(pattern) - at - 1
        if len(shape) < len(pattern) - 1:
            return False
        shape = shape[:at] + shape[len(shape) - after :] if after else shape[:at]
        pattern = pattern[:at] + pattern[at + 1 :]
    if len(shape) != len(pattern):
        return False
    named: dict[str, int] = {}
    return all(
        named.setdefault(wanted, size) == size if isinstance(wanted, str) else wanted == size
        for size, wanted in zip(shape, pattern, strict=True)
    )

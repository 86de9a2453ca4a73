"""Typed tensors as a plain tensor and a JSON-able record: what storage on disk keeps of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.core.tensors.info import TensorTypeInfo, is_typed
from flambeau.core.tensors.trees import BY_PATH, class_path
from flambeau.core.tensors.wrapping import make, plain


def to_record(value: Tensor) -> tuple[Tensor, dict[str, Any] | None]:
    """Take a tensor apart for storage, for example in a memory map and a `meta.json`.

    Args:
        value: typed or plain.

    Returns:
        The plain tensor over the same memory, and `{"type": name, "class": "module:qualname", "metadata": {...}}`,
        None for a plain tensor.

    Raises:
        TensorTypeError: a metadata value has no JSON form.
    """
    if not is_typed(value):
        return value, None
    cls: Any = type(value)
    info = TensorTypeInfo.of(cls)
    metadata = {name: info.fields[name].to_json(item) for name, item in info.metadata(value).items()}
    return plain(value), {"type": info.name, "class": class_path(cls), "metadata": metadata}


def from_record(tensor: Tensor, record: dict[str, Any] | None) -> Tensor:
    """Undo `to_record`.

    A class is taken only from those already defined or registered: a record, which may come from anywhere, imports
    nothing that no plugin offers.

    Raises:
        UnknownNameError: neither the class is defined nor the type registered.
        TensorTypeError: the record's fields are not those of the type.
    """
    if record is None:
        return tensor
    cls = class_at(record["class"], record["type"])
    info = TensorTypeInfo.of(cls)
    info.refuse_unknown(cls.__name__, record["metadata"])
    metadata = {name: info.fields[name].from_json(item) for name, item in record["metadata"].items()}
    typed: Tensor = make(tensor, cls, info.complete(cls.__name__, metadata, check=False))
    return typed


def class_at(path: str, name: str | None = None) -> Any:
    """The class of a record: one that is defined, or else one that a plugin registered.

    Args:
        path: see `class_path`.
        name: of the type in the registry, which serves where no class is at the path any more.

    Raises:
        UnknownNameError: neither the class is defined nor the type registered.
    """
    from flambeau.core.registry import TENSOR_TYPES

    if path in BY_PATH:
        return BY_PATH[path]
    matching = [entry.id for entry in TENSOR_TYPES.entries() if entry.target == path and name in (None, entry.name)]
    return TENSOR_TYPES.resolve(matching[0] if matching else name or path)

"""Fields of a tensorclass: made of the annotations of a class body, read and written as attributes, with options."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.base import TensorDictBase
from flambeau.data.tensordict.memmap.layout import TENSORCLASSES

# Names that annotations of tensorclasses may use although their modules do not import them.
TENSORCLASS_NAMES: dict[str, Any] = {"Tensor": Tensor, "torch": torch, "TensorDictBase": TensorDictBase}


OPTIONS = ("autocast", "frozen", "nocast", "shadow", "tensor_only")


@dataclasses.dataclass(frozen=True)
class Options:
    """How a tensorclass treats its fields; see `tensorclass`."""

    autocast: bool = False
    frozen: bool = False
    nocast: bool = False
    shadow: bool = False
    tensor_only: bool = False


class FieldAccess:
    """A field as an attribute: reads and writes the entry of its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self.name!r}")  # type: ignore[union-attr]
        return instance._get_field(self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        if instance._options.frozen:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {self.name!r} of {type(instance).__name__}.")
        instance._set_field(self.name, value)


def make_fields(cls: Any, root: type) -> None:
    """Turn the annotations of a class body into fields.

    Args:
        cls: the class.
        root: `TensorClass`, whose attributes no field hides unless the class shadows.

    Raises:
        AttributeError: a field has the name of a method or property, and the class does not shadow.
        TypeError: `tensor_only`, and a field that is no tensor.
    """
    own = [name for name, kind in vars(cls).get("__annotations__", {}).items() if not _is_class_var(kind)]
    for name in own:
        if not cls._options.shadow and hasattr(root, name):
            raise AttributeError(
                f"field {name!r} of {cls.__name__} would hide an attribute of tensordicts; rename it, or use "
                "shadow=True."
            )
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    cls._field_names = tuple(field.name for field in fields)
    for name in own:
        setattr(cls, name, FieldAccess(name))
    if cls._options.tensor_only:
        check_tensor_only(cls)
    cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]
    TENSORCLASSES[f"{cls.__module__}.{cls.__qualname__}"] = cls
    TENSORCLASS_NAMES[cls.__name__] = cls


def _is_class_var(kind: Any) -> bool:
    text = kind if isinstance(kind, str) else ""
    return typing.get_origin(kind) is ClassVar or kind is ClassVar or text.startswith(("ClassVar", "typing.ClassVar"))


def check_tensor_only(cls: Any) -> None:
    """Raise TypeError where a field of a `tensor_only` class is annotated as something else."""
    for name, kind in cls._annotations().items():
        if name not in cls._field_names:
            continue
        parts = [part for part in typing.get_args(kind) or (kind,) if part is not type(None)]
        if not all(isinstance(part, type) and issubclass(part, (Tensor, TensorCollection)) for part in parts):
            raise TypeError(f"{cls.__name__} is tensor_only, but field {name!r} is annotated {kind!r}.")


def _signature(cls: type) -> inspect.Signature:
    parameters = []
    keyword_only = False
    for field in dataclasses.fields(cls):
        default: Any = inspect.Parameter.empty
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = None
        keyword_only = keyword_only or field.kw_only
        kind = inspect.Parameter.KEYWORD_ONLY if keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=field.type))
    for name in ("batch_size", "device", "names"):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)

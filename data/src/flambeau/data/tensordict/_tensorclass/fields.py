"""Fields of a tensorclass: made of the annotations of a class body, read and written as attributes, with options."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.core.errors import close_names
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.base import TensorDictBase
from flambeau.data.tensordict.memmap.layout import TENSORCLASSES

# Names that annotations of tensorclasses may use although their modules do not import them.
TENSORCLASS_NAMES: dict[str, Any] = {"Tensor": Tensor, "torch": torch, "TensorDictBase": TensorDictBase}


# What a constructor takes besides the fields.
_ARGUMENTS = ("batch_size", "device", "names", "non_blocking", "lock")

OPTIONS = ("autocast", "frozen", "nocast", "shadow", "tensor_only")


@dataclasses.dataclass(frozen=True)
class Options:
    """How a tensorclass treats its fields; see `tensorclass`."""

    autocast: bool = False
    frozen: bool = False
    nocast: bool = False
    shadow: bool = False
    tensor_only: bool = False

    def with_changes(self, **changes: bool | None) -> Options:
        """These options with others; None leaves one as it is.

        Raises:
            TypeError: options that exclude each other, or an unknown one.
        """
        for name in changes:
            if name not in OPTIONS:
                near = close_names(str(name), OPTIONS) or OPTIONS
                raise TypeError(f"{name!r} is no option of a tensorclass; use {', '.join(map(repr, near))}.")
        made = dataclasses.replace(self, **{name: bool(value) for name, value in changes.items() if value is not None})
        if made.autocast + made.nocast + made.tensor_only > 1:
            raise TypeError(
                "autocast converts values to the annotated types, nocast keeps them, and tensor_only takes tensors "
                "alone; choose one of the three."
            )
        return made


class FieldAccess:
    """A field as an attribute: reads and writes the entry of its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self.name!r}")  # type: ignore[union-attr]
        return instance._get_field(self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        instance._set_field(self.name, value)

    def __delete__(self, instance: Any) -> None:
        instance._tensordict.del_(self.name)


def make_fields(cls: Any, root: type) -> None:
    """Turn the annotations of a class body into fields.

    Args:
        cls: the class.
        root: `TensorClass`, whose attributes no field hides unless the class shadows.

    Raises:
        AttributeError: a field has the name of a method or property, and the class does not shadow.
        TypeError: `tensor_only`, and a field that is no tensor; a frozen class that derives from one that is not, or
            the other way round.
    """
    own = [name for name, kind in vars(cls).get("__annotations__", {}).items() if not _is_class_var(kind)]
    for name in own:
        # Upstream: `data` may be a field of any class, although it is a property of tensordicts.
        if not cls._options.shadow and name != "data" and hasattr(root, name):
            raise AttributeError(
                f"field {name!r} of {cls.__name__} would hide an attribute of tensordicts; rename it, or use "
                "shadow=True."
            )
        if name not in vars(cls) and hasattr(root, name):
            setattr(cls, name, dataclasses.field())  # or the hidden method would count as the field's default
    dataclasses.dataclass(init=False, repr=False, eq=False, frozen=cls._options.frozen)(cls)
    fields = dataclasses.fields(cls)
    cls._field_names = tuple(field.name for field in fields)
    # Kept apart, since torch.compile cannot look into the fields of a dataclass.
    cls._field_defaults = tuple((field.name, field.default, field.default_factory) for field in fields)
    cls.__expected_keys__ = frozenset(cls._field_names)
    cls._shadowed_arguments = tuple(name for name in _ARGUMENTS if name in cls._field_names)
    for name in own:
        setattr(cls, name, FieldAccess(name))
    if cls._options.tensor_only:
        check_tensor_only(cls)
    cls.__signature__ = _signature(cls)
    TENSORCLASSES[f"{cls.__module__}.{cls.__qualname__}"] = cls
    TENSORCLASS_NAMES[cls.__name__] = cls


def remake_fields(cls: Any, root: type) -> None:
    """Make the fields of a class once more, after its options changed."""
    for name, field in vars(cls)["__dataclass_fields__"].items():
        if isinstance(vars(cls).get(name), FieldAccess):
            setattr(cls, name, field)  # its default, which the attribute hides
    make_fields(cls, root)


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


def _signature(cls: Any) -> inspect.Signature:
    parameters = []
    keyword_only = False
    field: dataclasses.Field[Any]
    for field in dataclasses.fields(cls):
        default: Any = inspect.Parameter.empty
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = None
        keyword_only = keyword_only or bool(field.kw_only)
        kind = inspect.Parameter.KEYWORD_ONLY if keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=field.type))
    for name in _ARGUMENTS[:3]:
        if name in cls._field_names:
            continue
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)

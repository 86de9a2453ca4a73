"""Annotations of a class body as fields of a tensorclass."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any, ClassVar

from torch import Tensor

from flambeau.data.tensordict._tensorclass.base import TENSORCLASS_NAMES, FieldAccess, TensorClass
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.memmap.layout import TENSORCLASSES


def make_fields(cls: type[TensorClass]) -> None:
    """Turn the annotations of a class body into fields.

    Raises:
        AttributeError: a field has the name of a method or property, and the class does not shadow.
        TypeError: `tensor_only`, and a field that is no tensor.
    """
    own = [name for name, kind in vars(cls).get("__annotations__", {}).items() if not _is_class_var(kind)]
    for name in own:
        if not cls._options.shadow and hasattr(TensorClass, name):
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


def check_tensor_only(cls: type[TensorClass]) -> None:
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

"""The decorator `tensorclass`, and tensorclasses made of dataclasses."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, TypeVar

import torch

from flambeau.data.tensordict._tensorclass.base import TensorClass, TensorClassMeta
from flambeau.data.tensordict._tensorclass.fields import OPTIONS, Options, remake_fields
from flambeau.data.tensordict.memmap.layout import TENSORCLASSES

T = TypeVar("T")


def tensorclass(
    cls: type[T] | None = None,
    /,
    *,
    autocast: bool = False,
    frozen: bool = False,
    nocast: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
) -> Any:
    """Class decorator: make a tensorclass of a class with annotated fields.

    Args:
        cls: the class; methods, properties and class variables are kept.
        autocast: convert values to the fields' types: lists to tensors, dicts to tensordicts and tensorclasses; a value
            of a plain type stays one.
        frozen: fields cannot be assigned after construction, and instances are locked.
        nocast: numbers stay Python numbers; otherwise they become tensors.
        shadow: allow fields named like methods of tensordicts.
        tensor_only: every field is a tensor, which is checked once, here.

    Raises:
        AttributeError: a field is named like an attribute of tensordicts, without `shadow`.
        TypeError: two of `autocast`, `nocast` and `tensor_only`.

    Example:
        >>> @tensorclass
        ... class Pair:
        ...     x: torch.Tensor
        ...     y: torch.Tensor
        >>> (Pair(torch.ones(2), torch.ones(2), batch_size=[2]) + 1).x
        tensor([2., 2.])
    """
    options = Options().with_changes(
        autocast=autocast, frozen=frozen, nocast=nocast, shadow=shadow, tensor_only=tensor_only
    )

    def decorate(body: type[T]) -> Any:
        if isinstance(body, TensorClassMeta):  # by its base class
            return _with_options(body, options)
        return _with_base(body, options)

    return decorate if cls is None else decorate(cls)


def _with_options(cls: Any, options: Options) -> type:
    """A class that derives from a tensorclass, with further options."""
    cls._options = cls._options.with_changes(**{name: True for name in OPTIONS if getattr(options, name)})
    remake_fields(cls, TensorClass)
    return cls


def _with_base(body: type, options: Options) -> type:
    """The class once more, as a subclass of `TensorClass`."""
    namespace = {
        name: value for name, value in vars(body).items() if name not in ("__dict__", "__weakref__", "__slots__")
    }
    namespace["_options"] = options
    bases = tuple(base for base in body.__bases__ if base is not object)
    made = TensorClassMeta(body.__name__, (*bases, TensorClass), namespace)
    made.__qualname__ = body.__qualname__
    TENSORCLASSES.pop(f"{made.__module__}.{body.__name__}", None)
    TENSORCLASSES[f"{made.__module__}.{made.__qualname__}"] = made
    _point_super_at(body, made)
    return made


def _point_super_at(old: type, new: type) -> None:
    """`super()` and `__class__` in methods refer to a cell that holds the class of the body."""
    for value in vars(new).values():
        function = value
        if isinstance(function, (classmethod, staticmethod)):
            function = function.__func__
        if isinstance(function, property):
            function = function.fget
        if isinstance(function, types.FunctionType):
            for cell in function.__closure__ or ():
                try:
                    if cell.cell_contents is old:
                        cell.cell_contents = new
                except ValueError:  # empty
                    continue


def from_dataclass(
    obj: Any,
    *,
    dest_cls: type | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: torch.Size | None = None,
    frozen: bool = False,
    autocast: bool = False,
    nocast: bool = False,
    inplace: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
    device: torch.device | None = None,
) -> Any:
    """A tensorclass for a dataclass, or an instance of one for an instance of a dataclass.

    Args:
        obj: a dataclass or an instance.
        dest_cls: an existing tensorclass for the instance.
        auto_batch_size: find the longest common batch size.
        batch_dims: at most so many batch dimensions are found.
        batch_size: of the instance.
        frozen: see `tensorclass`, as the other options.
        autocast: see `tensorclass`.
        nocast: see `tensorclass`.
        inplace: with a dataclass: no longer supported, since the original class stays what it is.
        shadow: see `tensorclass`.
        tensor_only: see `tensorclass`.
        device: of the instance.

    Raises:
        TypeError: `obj` is no dataclass.
    """
    if not dataclasses.is_dataclass(obj):
        raise TypeError(f"expected a dataclass or an instance of one, got {type(obj).__name__}.")
    options = {"frozen": frozen, "autocast": autocast, "nocast": nocast, "shadow": shadow, "tensor_only": tensor_only}
    if isinstance(obj, type):
        return _class_of(obj, options)
    target = dest_cls or _class_of(type(obj), options)
    values = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}
    made = target(**values, batch_size=batch_size or torch.Size([]), device=device)
    if auto_batch_size:
        made.auto_batch_size_(batch_dims=batch_dims)
    return made


def _class_of(source: Any, options: dict[str, bool]) -> type:
    fields = [(field.name, field.type, field) for field in dataclasses.fields(source)]
    namespace: dict[str, Any] = {"__annotations__": {name: kind for name, kind, _ in fields}}
    for name, _, field in fields:
        if field.default is not dataclasses.MISSING:
            namespace[name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            namespace[name] = dataclasses.field(default_factory=field.default_factory)
    for name, value in vars(source).items():
        if isinstance(value, (types.FunctionType, property, classmethod, staticmethod)) and not name.startswith("__"):
            namespace[name] = value
    namespace["__module__"], namespace["__qualname__"] = source.__module__, f"{source.__qualname__}_tc"
    namespace["_options"] = Options().with_changes(**options)
    return TensorClassMeta(f"{source.__name__}_tc", (TensorClass,), namespace)

"""Modules from one tensorclass to another."""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from torch import nn

from flambeau.data.tensordict._tensorcollection import is_tensorclass
from flambeau.data.tensordict.nn._dispatch import dispatch
from flambeau.data.tensordict.nn._module_base import TensorDictModuleBase

__all__ = ["TensorClassModuleBase", "TensorClassModuleWrapper"]

InputClass = TypeVar("InputClass")
OutputClass = TypeVar("OutputClass")


class TensorClassModuleBase(nn.Module, ABC, Generic[InputClass, OutputClass]):
    """A module from one tensorclass, or tensor, to another: `class Policy(TensorClassModuleBase[Obs, Action])`."""

    input_class: Any = None
    output_class: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in getattr(cls, "__orig_bases__", ()):
            if typing.get_origin(base) is TensorClassModuleBase:
                cls.input_class, cls.output_class = typing.get_args(base)

    @abstractmethod
    def forward(self, x: InputClass) -> OutputClass:
        """Compute the output."""

    def __call__(self, x: InputClass) -> OutputClass:
        """Run `forward` with its hooks."""
        return super().__call__(x)

    def as_td_module(self) -> TensorClassModuleWrapper:
        """This module, reading and writing the fields in a tensordict.

        Raises:
            ValueError: input or output is no tensorclass.
        """
        return TensorClassModuleWrapper(self)


class TensorClassModuleWrapper(TensorDictModuleBase):
    """Reads the fields of the input class from a tensordict, and writes those of the output class.

    Args:
        module: a module between tensorclasses.

    Raises:
        ValueError: input or output is no tensorclass.
    """

    def __init__(self, module: TensorClassModuleBase[Any, Any]) -> None:
        super().__init__()
        for role, kind in (("input", module.input_class), ("output", module.output_class)):
            if not is_tensorclass(kind):
                raise ValueError(
                    f"the {role} of {type(module).__name__} is {kind!r}, no tensorclass; declare both as in "
                    "`class M(TensorClassModuleBase[Input, Output])`."
                )
        self.tc_module = module
        self.in_keys, self.out_keys = _fields(module.input_class), _fields(module.output_class)

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output's fields."""
        given = self.tc_module.input_class.from_tensordict(tensordict.select(*self.in_keys))
        return tensordict.update(self.tc_module(given, *args, **kwargs).to_tensordict())


def _fields(kind: Any, before: tuple[str, ...] = ()) -> list[Any]:
    """The keys of a tensorclass's fields; those of tensorclasses inside are nested."""
    hints = typing.get_type_hints(kind)
    keys: list[Any] = []
    for name in kind.fields() if callable(getattr(kind, "fields", None)) else hints:
        name = getattr(name, "name", name)
        path = (*before, name)
        inner = hints.get(name)
        keys += _fields(inner, path) if is_tensorclass(inner) else [path if before else name]
    return keys

"""Properties of a class, not of its instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["classproperty"]

_Value = TypeVar("_Value")


class classproperty(Generic[_Value]):
    """What a function of the class returns, asked for like an attribute of the class or of its instances."""

    def __init__(self, getter: Callable[[Any], _Value]) -> None:
        self._getter = getter
        self.__doc__ = getter.__doc__

    def __get__(self, instance: object, owner: type) -> _Value:
        return self._getter(owner)

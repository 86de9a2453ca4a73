"""Storage of objects by whole numbers."""

from __future__ import annotations

import abc
from typing import Generic, TypeVar

from torch import Tensor, nn

__all__ = ["ObjectPool"]

T = TypeVar("T")


class ObjectPool(abc.ABC, nn.Module, Generic[T]):
    """Something that keeps `pool_size` objects, which are read and written many at a time."""

    @abc.abstractmethod
    def lookup(self, ids: Tensor) -> T:
        """The objects of (n,) numbers."""

    @abc.abstractmethod
    def update(self, ids: Tensor, values: T) -> None:
        """Write the objects of (n,) numbers; where one stands several times, its last object stays."""

    @property
    @abc.abstractmethod
    def pool_size(self) -> int:
        """How many there are."""

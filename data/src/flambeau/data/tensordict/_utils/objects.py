"""Kinds of objects: buffers, named tuples, dicts that make what they lack; and seeds."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch._C._functorch import is_batchedtensor as is_batchedtensor

T = TypeVar("T", bound="Any")


class KeyDependentDefaultDict(collections.defaultdict[Any, Any]):
    """A dict that makes the value of a missing key by calling a function with the key."""

    def __init__(self, fun: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fun = fun

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self.fun(key)
        return value


class Buffer(nn.Buffer):
    """A tensor that a module registers as buffer when it is set as attribute."""


class BufferLegacy(Buffer):
    """A buffer, by its older name."""


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is an instance of a namedtuple class."""
    return isinstance(obj, tuple) and is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class comes of `collections.namedtuple` or `typing.NamedTuple`."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def int_generator(seed: int) -> int:
    """An integer in [0, 2**63) drawn with this seed; the global generator stays as it is."""
    generator = torch.Generator().manual_seed(seed)
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))

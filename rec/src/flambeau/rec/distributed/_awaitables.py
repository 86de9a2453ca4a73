"""Results that are under way: waited for by a call, or by the first use of them."""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

__all__ = [
    "Awaitable",
    "DeviceToHostTensorAwaitable",
    "GenericMeta",
    "GetItemLazyAwaitable",
    "LazyAwaitable",
    "LazyGetItemMixin",
    "LazyNoWait",
    "NoWait",
]

W = TypeVar("W")
KT = TypeVar("KT")
VT = TypeVar("VT")
ParentW = TypeVar("ParentW")


class Awaitable(abc.ABC, Generic[W]):
    """A result that may not be there yet."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[W], W]] = []

    @abc.abstractmethod
    def _wait_impl(self) -> W:
        """Wait for the result."""

    def wait(self) -> W:
        """Wait for the result, let each of `callbacks` change it, and return it."""
        with torch.profiler.record_function(f"## {type(self).__name__} wait() ##"):
            result = self._wait_impl()
        for callback in self.callbacks:
            result = callback(result)
        return result

    @property
    def callbacks(self) -> list[Callable[[W], W]]:
        """What is done to the result, in order, once it is there."""
        return self._callbacks


class NoWait(Awaitable[W]):
    """A result that is there already.

    Args:
        obj: the result.
    """

    def __init__(self, obj: W) -> None:
        super().__init__()
        self._obj = obj

    def _wait_impl(self) -> W:
        return self._obj


class GenericMeta(type):
    """The metaclass of generic classes, which is `type` since Python 3.7."""


class _LazyAwaitableMeta(GenericMeta, abc.ABCMeta, fx.ProxyableClassMeta):  # type: ignore[misc, name-defined]
    """Abstract classes whose construction is a node of an fx graph where an argument is a proxy."""


class LazyAwaitable(Awaitable[W], metaclass=_LazyAwaitableMeta):
    """A result that is waited for when it is first used: as an argument of a torch function, by an attribute of it, by
    an operator, or by `len`, `iter`, `str` and indexing.

    Other functions, `isinstance` among them, see the awaitable and not its result.
    """

    def __init__(self) -> None:
        super().__init__()
        self._result: W | None = None

    @staticmethod
    def _wait_async(obj: Any) -> Any:
        """The result of an awaitable, waited for once; anything else is given back as it is."""
        if not isinstance(obj, LazyAwaitable):
            return obj
        if obj._result is None:
            obj._result = obj.wait()
        return obj._result

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = pytree.tree_map(
            LazyAwaitable._wait_async, (args, kwargs or {}), is_leaf=lambda one: isinstance(one, LazyAwaitable)
        )
        return func(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_result" or (name.startswith("__") and name.endswith("__")):
            # While it is constructed, copied or unpickled there is nothing to wait for.
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        return getattr(LazyAwaitable._wait_async(self), name)


def _forwarded(name: str) -> Callable[..., Any]:
    def method(*args: Any) -> Any:
        waited = [LazyAwaitable._wait_async(one) for one in args]
        return getattr(operator, name)(*waited)

    method.__name__ = f"__{name.strip('_')}__"
    return method


def _reflected(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        return getattr(operator, name)(LazyAwaitable._wait_async(other), LazyAwaitable._wait_async(self))

    method.__name__ = f"__r{name.strip('_')}__"
    return method


_BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")
for _name in (*_BINARY, "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "invert", "abs", "getitem", "setitem"):
    setattr(LazyAwaitable, f"__{_name.strip('_')}__", _forwarded(_name))
for _name in _BINARY:
    setattr(LazyAwaitable, f"__r{_name.strip('_')}__", _reflected(_name))
for _name, _builtin in {"len": len, "iter": iter, "str": str, "bool": bool, "int": int, "float": float}.items():
    setattr(LazyAwaitable, f"__{_name}__", lambda self, function=_builtin: function(LazyAwaitable._wait_async(self)))
setattr(LazyAwaitable, "__contains__", lambda self, one: one in LazyAwaitable._wait_async(self))  # noqa: B010
setattr(LazyAwaitable, "__hash__", lambda self: id(self))  # noqa: B010


class LazyNoWait(LazyAwaitable[W]):
    """A result that is there already, where one is expected that waits when it is used.

    Args:
        obj: the result.
    """

    def __init__(self, obj: W) -> None:
        super().__init__()
        self._obj = obj

    def _wait_impl(self) -> W:
        return self._obj


class GetItemLazyAwaitable(LazyAwaitable[W], Generic[W, ParentW, KT]):
    """An entry of a result that is waited for when the entry is first used.

    Args:
        parent: the awaitable of the whole.
        key: which entry.
    """

    def __init__(self, parent: LazyAwaitable[ParentW], key: KT) -> None:
        super().__init__()
        self._parent = parent
        self._key = key

    def _wait_impl(self) -> W:
        entry: W = LazyAwaitable._wait_async(self._parent)[self._key]
        return entry


class LazyGetItemMixin(Generic[KT, VT]):
    """Makes indexing an awaitable give an awaitable of the entry."""

    def __getitem__(self, key: KT) -> Any:
        return GetItemLazyAwaitable(self, key)  # type: ignore[arg-type]


class DeviceToHostTensorAwaitable(LazyAwaitable[Tensor]):
    """A tensor on its way from an accelerator to pinned memory of the host.

    Args:
        tensor_on_device: any tensor; one of the host is given back as it is.
    """

    def __init__(self, tensor_on_device: Tensor) -> None:
        super().__init__()
        if tensor_on_device.device.type == "cpu":
            self._tensor, self._event = tensor_on_device, None
            return
        self._tensor = torch.empty_like(tensor_on_device, device="cpu", pin_memory=True)
        self._tensor.copy_(tensor_on_device, non_blocking=True)
        self._event = torch.Event(device=tensor_on_device.device)
        self._event.record()

    def _wait_impl(self) -> Tensor:
        if self._event is not None:
            self._event.synchronize()
        return self._tensor

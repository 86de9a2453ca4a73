"""The kernels of a functional: which implementation serves which type, and how types go off and on around it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from sys import getrefcount
from typing import Any

import torch
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from flambeau.core.errors import DuplicateNameError, TensorTypeError
from flambeau.core.tensors.info import CLASSES, Declared, info_of, is_typed
from flambeau.core.tensors.modes import CHECKS
from flambeau.core.tensors.propagation import wrap_result
from flambeau.core.tensors.wrapping import Carriers, carried, make

Call = Callable[..., Any]

lock = threading.RLock()


class Kernel:
    """One implementation, as it was registered."""

    def __init__(self, function: Call, *, wrap: bool, arguments: tuple[str, ...]) -> None:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.function = function
        self.wrap = wrap
        self.arguments = arguments  # of the functional, after the first
        # What it can be asked to take from the metadata; an argument of the functional is not among it.
        self.takes = tuple(parameter.name for parameter in parameters if parameter.name not in arguments)
        self.positional = frozenset(parameter.name for parameter in parameters if parameter.kind is not _KEYWORD_ONLY)

    @property
    def path(self) -> str:
        """`"module:name"`."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    def is_again(self, other: Kernel) -> bool:
        """Whether it is the same implementation, perhaps of a module that was loaded again."""
        return self.function is other.function or (self.path == other.path and "<" not in self.path)

    def serve(self, cls: type[Declared], bare: Call | None) -> Call:
        """The callable that takes the type off, runs the implementation and puts the type on again.

        Args:
            cls: the exact class of the tensors it will be called with.
            bare: the functional's implementation for plain tensors, which is what another kernel calls.
        """
        info, function = info_of(cls), self.function
        names = info.names
        known = frozenset(names)
        asked = tuple(name for name in names if name in self.takes)
        by_name = any(name in self.positional for name in asked)
        arguments = self.arguments

        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if bare is not None and not _types_are_on():
                return bare(tensor, *args, **kwargs)
            if by_name:
                # Metadata among the positional parameters: their order is not the functional's.
                kwargs.update(zip(arguments, args, strict=False))
                args = ()
            for name in asked:
                kwargs[name] = getattr(tensor, name)
            with DisableTorchFunctionSubclass():
                result = function(carried(tensor) if Carriers.exist else tensor, *args, **kwargs)
            # A new tensor that nobody else refers to becomes typed where it is, as torch's lazy parameters do when
            # they are filled; a typed view of it would cost as much as the rest of the dispatch together.
            if type(result) is Tensor and not _compiling() and getrefcount(result) <= 2 and not CHECKS.active:
                result.__class__ = cls
                for name in names:
                    setattr(result, name, getattr(tensor, name))
                return result
            if type(result) is tuple and not _compiling() and not CHECKS.active and _is_changed(result, known):
                bare_result, changes = result
                result = None  # the tuple is gone, and with it its reference
                if getrefcount(bare_result) <= 2:
                    bare_result.__class__ = cls
                    for name in names:
                        setattr(bare_result, name, changes[name] if name in changes else getattr(tensor, name))
                    return bare_result
                result = bare_result, changes
            return _typed(result, cls, info.metadata(tensor))

        return call


class Kernels:
    """The kernels of one functional, and for each type that was met the callable that serves it."""

    def __init__(self, functional: Call, *, fallback: bool) -> None:
        self.name = functional.__name__
        self.module = functional.__module__
        self.arguments = tuple(inspect.signature(functional).parameters)[1:]
        self.fallback = fallback
        self.bare: Call | None = None  # for plain tensors
        self.registered: dict[type | str, Kernel] = {}  # str: "module:Name" of a class
        self.found: dict[type, Call] = {}

    def add(self, cls: type | str, function: Call, *, wrap: bool) -> None:
        """Register a kernel for a class, or for the class of an address.

        Raises:
            DuplicateNameError: the class has another one. The same kernel again, as when its module is reloaded, is
                taken in place of the old.
        """
        kernel = Kernel(function, wrap=wrap, arguments=self.arguments)
        with lock:
            known = self.registered.get(cls)
            if known is not None and not kernel.is_again(known):
                raise DuplicateNameError(
                    f"{self.name}: {_called(cls)} already has the kernel {known.path}; {kernel.path} cannot take its "
                    f"place. Derive a class from {_called(cls)} and register the kernel for that."
                )
            self.registered[cls] = kernel
            if cls is Tensor:
                self.bare = function
            self.found.clear()

    def find(self, cls: type) -> Call:
        """The callable that serves a class: its own kernel, the nearest parent's, or that of plain tensors.

        Raises:
            TensorTypeError: there is none; names the types there are, and how to add one.
        """
        with lock:
            if cls not in self.found:
                self.found[cls] = self._search(cls)
            return self.found[cls]

    def _search(self, cls: type) -> Call:
        for parent in cls.__mro__:
            kernel = self.registered.get(parent) or self.registered.get(f"{parent.__module__}:{parent.__qualname__}")
            if kernel is None:
                continue
            if not issubclass(cls, Declared):
                return kernel.function
            if parent is not Tensor:
                return kernel.serve(cls, self.bare) if kernel.wrap else kernel.function
            if self.fallback:
                return _without_type(kernel.function)
        raise self._unsupported(cls)

    def trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find and call in one, in steps that Dynamo can follow: for types that were never met outside of a graph."""
        cls: Any = type(args[0])
        if not issubclass(cls, Declared):
            if self.bare is None or not issubclass(cls, Tensor):
                raise self._unsupported(cls)
            return self.bare(*args, **kwargs)
        for parent in CLASSES[cls].parents:
            kernel = self.registered.get(parent)
            if kernel is None:
                continue
            if parent is not Tensor:
                return self._trace_typed(kernel, cls, args, kwargs)
            if self.fallback:
                with DisableTorchFunctionSubclass():
                    return kernel.function(*args, **kwargs)
        raise self._unsupported(cls)

    def _trace_typed(self, kernel: Kernel, cls: type[Declared], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not kernel.wrap:
            return kernel.function(*args, **kwargs)
        if self.bare is not None and not _types_are_on():
            return self.bare(*args, **kwargs)
        tensor, info = args[0], info_of(cls)
        asked = [name for name in info.names if name in kernel.takes]
        if any(name in kernel.positional for name in asked):
            kwargs.update(zip(self.arguments, args[1:], strict=False))
            args = (tensor,)
        for name in asked:
            kwargs[name] = getattr(tensor, name)
        with DisableTorchFunctionSubclass():
            result = kernel.function(*args, **kwargs)
        return _typed(result, cls, info.metadata(tensor))

    def _unsupported(self, cls: type) -> TensorTypeError:
        names = ", ".join(sorted(map(_called, self.registered))) or "none"
        return TensorTypeError(
            f"{self.name} has no kernel for {cls.__name__}; it supports: {names}. "
            f"To add one: @register_kernel({self.name}, {cls.__name__})."
        )


def _is_changed(result: tuple[Any, ...], known: frozenset[str]) -> bool:
    """Whether a kernel returned (plain tensor, metadata that differs)."""
    return len(result) == 2 and type(result[0]) is Tensor and type(result[1]) is dict and result[1].keys() <= known


def _typed(result: Any, cls: Any, metadata: dict[str, Any]) -> Any:
    """Put the type on what a kernel returned."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping):
        result, changes = result
        info_of(cls).refuse_unknown(cls.__name__, changes)
        metadata |= changes
        if is_typed(result):
            return make(result, cls, metadata)  # the input itself, with other metadata: leave the input alone
    return wrap_result(result, cls, metadata)


def _without_type(function: Call) -> Call:
    """Run with the type switched off; the result is plain: nothing says that the metadata still holds."""

    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunctionSubclass():
            return function(carried(tensor) if Carriers.exist else tensor, *args, **kwargs)

    return call


def _called(cls: type | str) -> str:
    return cls if isinstance(cls, str) else cls.__name__


_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
_types_are_on = torch._C._is_torch_function_enabled  # False inside of a kernel
_compiling = torch.compiler.is_dynamo_compiling

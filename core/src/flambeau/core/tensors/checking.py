"""Checks of typed arguments at a function's door."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.core.errors import MetadataError, TensorTypeError
from flambeau.core.tensors.info import Declared, TensorTypeInfo

Function = TypeVar("Function", bound=Callable[..., Any])


def checked(function: Function) -> Function:
    """Check the parameters annotated with a tensor type, and the result: class, shape and dtype, at every call.

    Sizes that two declarations call by different names are not compared.

    Raises:
        TensorTypeError: at the call, an argument is not of the annotated type.
        MetadataError: at the call, its shape or dtype does not fit the type's declaration.
    """
    signature = inspect.signature(function)
    hints = typing.get_type_hints(function)
    expected = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Declared)}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name in expected:
                _check(f"{function.__name__}: {name}", value, expected[name])
        result = function(*args, **kwargs)
        if "return" in expected:
            _check(f"{function.__name__}: result", result, expected["return"])
        return result

    return typing.cast("Function", call)


def _check(where: str, value: Any, cls: Any) -> None:
    if not isinstance(value, cls):
        raise TensorTypeError(f"{where} is of type {type(value).__name__}, expected {cls.__name__}.")
    problem = TensorTypeInfo.of(cls).layout.problem(value)
    if problem is not None:
        raise MetadataError(f"{where}: {problem}.")

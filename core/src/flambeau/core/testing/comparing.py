"""Nested values: walking them, and comparing them as a person would."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.core.testing.results import CheckFailed


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested tuples, lists, mappings and dataclasses, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif _is_record(value):
        yield from tensors(_parts(value))


def mapped(function: Callable[[Tensor], Any], value: Any) -> Any:
    """The same nesting with `function` applied to every tensor."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: mapped(function, item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(function, item) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(mapped(function, item) for item in value)
    if _is_record(value):
        return dataclasses.replace(value, **{key: mapped(function, item) for key, item in _parts(value).items()})
    return value


def difference(
    actual: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0, where: str = "result"
) -> str | None:
    """None where two nested values agree, else one line that says where and how they differ.

    Tensors agree when shape and dtype are equal and values are within the tolerances, NaN equal to NaN. Pictures and
    arrays are compared through NumPy's array interface, other objects by `==`, or by their attributes where they
    define no equality.
    """
    if isinstance(actual, Tensor) and isinstance(expected, Tensor):
        return _tensor_difference(actual, expected, rtol, atol, where)
    if type(actual) is not type(expected):
        return f"{where} is a {type(actual).__name__}, expected a {type(expected).__name__}"
    if isinstance(actual, Mapping):
        if list(actual) != list(expected):
            return f"{where} has the keys {list(actual)}, expected {list(expected)}"
        pairs = [(f"{where}[{key!r}]", actual[key], expected[key]) for key in actual]
    elif _is_record(actual):
        return difference(_parts(actual), _parts(expected), rtol=rtol, atol=atol, where=where)
    elif isinstance(actual, tuple | list):
        if len(actual) != len(expected):
            return f"{where} has {len(actual)} parts, expected {len(expected)}"
        pairs = [(f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(actual, expected, strict=True))]
    else:
        return _plain_difference(actual, expected, rtol, atol, where)
    found = (difference(a, b, rtol=rtol, atol=atol, where=label) for label, a, b in pairs)
    return next((fault for fault in found if fault), None)


def require_equal(
    actual: Any, expected: Any, what: str, *, rtol: float = 0.0, atol: float = 0.0, where: str = "result"
) -> None:
    """Fail with `what` and the first difference."""
    if fault := difference(actual, expected, rtol=rtol, atol=atol, where=where):
        raise CheckFailed(f"{what}: {fault}.")


def _tensor_difference(actual: Tensor, expected: Tensor, rtol: float, atol: float, where: str) -> str | None:
    if actual.shape != expected.shape:
        return f"{where} has shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f"{where} has dtype {actual.dtype}, expected {expected.dtype}"
    left, right = (value.detach().as_subclass(Tensor).to("cpu") for value in (actual, expected))
    if torch.allclose(left, right, rtol=rtol, atol=atol, equal_nan=True):
        return None
    wrong = ~torch.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    index = tuple(int(i) for i in wrong.nonzero()[0])
    count = int(wrong.sum())
    return f"{where}{list(index)} is {left[index].item()!r}, expected {right[index].item()!r} ({count} values differ)"


def _plain_difference(actual: Any, expected: Any, rtol: float, atol: float, where: str) -> str | None:
    if isinstance(actual, float):
        same = math.isclose(actual, expected, rel_tol=rtol, abs_tol=atol) or (
            math.isnan(actual) and math.isnan(expected)
        )
        return None if same else f"{where} is {actual!r}, expected {expected!r}"
    if hasattr(actual, "__array_interface__"):
        import numpy

        left, right = numpy.asarray(actual), numpy.asarray(expected)
        if left.dtype.kind in "biufc":
            return difference(
                torch.from_numpy(left.copy()), torch.from_numpy(right.copy()), rtol=rtol, atol=atol, where=where
            )
        return None if numpy.array_equal(left, right) else f"{where} differs"
    equality: object = type(actual).__eq__
    # Members of enumerations are single objects, and refer to themselves.
    if equality is object.__eq__ and hasattr(actual, "__dict__") and not isinstance(actual, enum.Enum):
        return difference(vars(actual), vars(expected), rtol=rtol, atol=atol, where=where)
    return None if bool(actual == expected) else f"{where} is {actual!r}, expected {expected!r}"


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _parts(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}

"""Metadata fields of a tensor type: what a value may be, its default, and how it travels in JSON."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch

from flambeau.core.errors import MetadataError, TensorTypeError


class _Missing(enum.Enum):
    MISSING = "no default"


MISSING: Final = _Missing.MISSING


class PerSample(tuple[Any, ...]):
    """One metadata value per sample, in a batch of a field that is declared with `batch="list"`."""

    __slots__ = ()


@dataclass(frozen=True)
class Field:
    """One metadata field.

    Args:
        type: a class, a union, `Literal[...]`, `tuple[...]` or another generic alias; `object` accepts anything.
            An int is accepted for `float`; a bool is not accepted for a number.
        default: the value when none is given; without it the field is required.
        validator: called with the value; returns False, or raises ValueError, to refuse it.
        batch: what becomes of the samples' values when they are stacked: `"agree"`, all must be equal;
            `"list"`, they are kept side by side as `PerSample`.
        encode: value -> JSON-able value, where the built-in encoding does not know the type.
        decode: the inverse of `encode`.
    """

    type: Any = object
    default: Any = MISSING
    validator: Callable[[Any], object] | None = None
    batch: Literal["agree", "list"] = "agree"
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, declaration: Any) -> Field:
        """A field from what a declaration may say: a `Field`, its arguments as a mapping, or just the type."""
        if isinstance(declaration, Field):
            return declaration
        if isinstance(declaration, Mapping):
            return cls(**declaration)
        return cls(type=declaration)

    def check(self, owner: str, name: str, value: Any) -> None:
        """Refuse a value that does not fit.

        Raises:
            MetadataError: wrong type, or refused by the validator.
        """
        if not _fits(self.type, value):
            found = type(value).__name__
            raise MetadataError(f"{owner}: {name}={value!r} is of type {found}, expected {_type_name(self.type)}.")
        if self.validator is None:
            return
        try:
            verdict = self.validator(value)
        except ValueError as error:
            raise MetadataError(f"{owner}: {name}={value!r} was refused: {error}") from error
        if verdict is False:
            rule = (self.validator.__doc__ or self.validator.__name__).strip()
            raise MetadataError(f"{owner}: {name}={value!r} was refused by its validator ({rule}).")

    def to_json(self, value: Any) -> Any:
        """The value as JSON-able data; per-sample values as `{"per_sample": [...]}`.

        Raises:
            TensorTypeError: JSON has no form for it and the field declares no `encode`.
        """
        if isinstance(value, PerSample):
            return {"per_sample": [self.to_json(item) for item in value]}
        return _to_json(value) if self.encode is None else self.encode(value)

    def from_json(self, value: Any) -> Any:
        """The inverse of `to_json`."""
        if isinstance(value, dict) and value.keys() == {"per_sample"}:
            return PerSample(self.from_json(item) for item in value["per_sample"])
        return _from_json(self.type, value) if self.decode is None else self.decode(value)


def _fits(expected: Any, value: Any) -> bool:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if expected is Any or expected is object:
        return True
    if expected is None:
        return value is None
    if origin is typing.Union or origin is types.UnionType:
        return any(_fits(argument, value) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and _fits_items(arguments, value)
    if expected in (int, float) and isinstance(value, bool):
        return False
    if expected is float:
        return isinstance(value, (float, int))
    return isinstance(value, origin or expected)


def _fits_items(arguments: tuple[Any, ...], value: tuple[Any, ...]) -> bool:
    if len(arguments) == 2 and arguments[1] is ...:
        return all(_fits(arguments[0], item) for item in value)
    return len(arguments) == len(value) and all(map(_fits, arguments, value))


def _type_name(expected: Any) -> str:
    return expected.__name__ if isinstance(expected, type) and not typing.get_args(expected) else str(expected)


def _to_json(value: Any) -> Any:
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _to_json(item) for key, item in value.items()}
    raise TensorTypeError(
        f"Metadata of type {type(value).__name__} ({value!r}) has no JSON form; "
        "declare `encode` and `decode` on its Field, or use numbers, strings, enums, lists and tuples."
    )


def _from_json(expected: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if isinstance(expected, type) and issubclass(expected, enum.Enum):
        return expected[value]
    if expected is torch.dtype:
        return getattr(torch, value)
    if origin is typing.Union or origin is types.UnionType:
        return _from_json_union(arguments, value)
    if (origin or expected) is tuple:
        kinds = [arguments[0] if arguments[1:] == (...,) else kind for kind in arguments] or [object]
        kinds += kinds[-1:] * (len(value) - len(kinds))
        return tuple(map(_from_json, kinds, value))
    return value


def _from_json_union(arguments: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None
    for argument in arguments:
        try:
            candidate = _from_json(argument, value)
        except (KeyError, TypeError, AttributeError):
            continue
        if _fits(argument, candidate):
            return candidate
    return value

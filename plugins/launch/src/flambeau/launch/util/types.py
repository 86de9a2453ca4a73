"""Values of command lines as the types that signatures ask for."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar, Union, get_args, get_origin

from flambeau.launch.errors import ComponentArgumentError

__all__ = [
    "decode",
    "decode_from_string",
    "decode_optional",
    "get_argparse_param_type",
    "is_bool",
    "is_primitive",
    "none_throws",
    "to_dict",
    "to_list",
]

T = TypeVar("T")


def to_list(arg: str) -> list[str]:
    """The words between commas, without the blanks around them."""
    return [word.strip() for word in arg.split(",")] if arg.strip() else []


def to_dict(arg: str) -> dict[str, str]:
    """Pairs `key=value` between commas or semicolons; a value may hold both, as long as no `=` follows.

    Raises:
        ComponentArgumentError: (a ValueError) something is no pair, or has no value.

    Example:
        >>> to_dict("shape=2,3;name=a")
        {'shape': '2,3', 'name': 'a'}
    """
    if not arg.strip():
        return {}
    key, separator, rest = arg.partition("=")
    if not separator or not rest:
        raise ComponentArgumentError(f"{arg!r} holds no pair; expected KEY=VALUE[,KEY=VALUE...].")
    pieces = rest.split("=")
    found: dict[str, str] = {}
    for piece in pieces[:-1]:
        # The next key stands behind the last separator before its "=".
        at = max(piece.rfind(","), piece.rfind(";"))
        if at < 0:
            raise ComponentArgumentError(
                f"{piece!r} of {arg!r} is a value and the next key; separate them by ',' or ';'."
            )
        found[key.strip()], key = piece[:at].strip(), piece[at + 1 :]
    found[key.strip()] = pieces[-1].strip()
    return found


def decode(encoded_value: Any, annotation: Any) -> Any:
    """A value of a command line as its annotation says; what is no text stays as it is."""
    if not isinstance(encoded_value, str):
        return encoded_value
    kind = decode_optional(annotation)
    if kind in (str, int, float):
        return encoded_value if annotation is kind else _number(encoded_value, kind)
    if is_bool(kind):
        return encoded_value.lower() == "true"
    return decode_from_string(encoded_value, annotation)


def decode_from_string(encoded_value: str, annotation: Any) -> dict[Any, Any] | list[Any] | None:
    """A list or dictionary that is written as text; None for no text.

    Args:
        encoded_value: `a,b` for lists, `key=value,key=value` for dictionaries.
        annotation: `List[T]` or `Dict[K, V]`, or one that may be None; T, K and V are str, int, float or bool.

    Raises:
        ComponentArgumentError: (a ValueError) it is neither, or an element is not of its type.
    """
    if not encoded_value:
        return None
    kind = decode_optional(annotation)
    origin, parameters = get_origin(kind) or kind, get_args(kind)
    if origin is list:
        (element,) = parameters or (str,)
        return [_number(word, element) for word in to_list(encoded_value)]
    if origin is dict:
        key, value = parameters or (str, str)
        return {_number(k, key): _number(v, value) for k, v in to_dict(encoded_value).items()}
    raise ComponentArgumentError(f"{encoded_value!r} cannot be read as {annotation}; expected a list or a dictionary.")


def _number(word: str, kind: Any) -> Any:
    if is_bool(kind):
        return word.lower() == "true"
    try:
        return kind(word)
    except (TypeError, ValueError):
        name = getattr(kind, "__name__", kind)
        raise ComponentArgumentError(f"{word!r} is not of the type {name}.") from None


def is_bool(param_type: Any) -> bool:
    """Whether it is the type of truth values."""
    return param_type is bool


def is_primitive(param_type: Any) -> bool:
    """Whether a command line can hold it as one word: str, int or float."""
    return param_type in (str, int, float)


def decode_optional(param_type: Any) -> Any:
    """T of `Optional[T]` and `T | None`; other types as they are."""
    if get_origin(param_type) not in (Union, types.UnionType):
        return param_type
    inner = [arg for arg in get_args(param_type) if arg is not type(None)]
    return inner[0] if len(inner) == 1 and len(get_args(param_type)) == 2 else param_type


def get_argparse_param_type(parameter: inspect.Parameter) -> Callable[[str], object]:
    """What argparse makes of a parameter's word: its own type where it is a plain one, else text."""
    kind: Callable[[str], object] = parameter.annotation if is_primitive(parameter.annotation) else str
    return kind


def none_throws(optional: T | None, message: str = "Unexpected `None`") -> T:
    """The value, which must not be None.

    Raises:
        AssertionError: it is None.
    """
    if optional is None:
        raise AssertionError(message)
    return optional

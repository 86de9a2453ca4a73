"""Finding a column's type: from Python values, and from the annotations of functions and classes."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing as ty
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from flambeau.data.frame import _types as dt
from flambeau.data.frame._promotion import common_dtype, is_any, typeof_np_dtype
from flambeau.data.frame.errors import FrameTypeError

__all__ = [
    "PREFIX_LENGTH",
    "dtype_from_batch_pytype",
    "dtype_of_type",
    "infer_dtype_from_prefix",
    "infer_dtype_from_value",
    "infer_dype_from_callable_hint",
]

PREFIX_LENGTH = 5
_EXACT: dict[type, dt.DType] = {
    type(None): dt.Void(),
    bool: dt.boolean,
    int: dt.int64,
    float: dt.float32,
    str: dt.string,
}


def infer_dtype_from_value(value: ty.Any) -> dt.DType:
    """The type of one Python or NumPy value.

    Raises:
        TypeError: there is no column type for it.
    """
    return infer_dtype_from_prefix([value])


def infer_dtype_from_prefix(prefix: Sequence[ty.Any]) -> dt.DType:
    """The narrowest type that holds all values; `Any` for none at all.

    Raises:
        TypeError: a value has no column type.
        ValueError: two values have no type in common.
    """
    kinds = set(map(type, prefix))
    found: dt.DType = dt.Any()
    for kind in sorted(kinds, key=lambda one: one.__name__):
        mine = _EXACT.get(kind) or _nested(kind, (value for value in prefix if type(value) is kind))
        both = common_dtype(found, mine) if not is_any(found) else mine
        if both is None:
            raise ValueError(f"Cannot infer type of values that are {found} and {mine}; give `dtype`.")
        found = both
    return found


def _nested(kind: type, values: Iterable[ty.Any]) -> dt.DType:
    import numpy as np

    if issubclass(kind, np.generic):
        return typeof_np_dtype(np.dtype(kind))
    if issubclass(kind, np.ndarray):
        return dt.List(typeof_np_dtype(next(iter(values)).dtype))
    if issubclass(kind, tuple):
        rows = list(values)
        if len({len(row) for row in rows}) > 1:
            raise ValueError("Cannot infer type of tuples of different lengths; give `dtype`, or use lists.")
        items = [infer_dtype_from_prefix(column) for column in zip(*rows, strict=True)]
        if names := getattr(kind, "_fields", None):
            return dt.Struct([dt.Field(name, item) for name, item in zip(names, items, strict=True)])
        return dt.Tuple(items)
    if issubclass(kind, list):
        return dt.List(infer_dtype_from_prefix(list(chain.from_iterable(values))))
    if issubclass(kind, dict):
        rows = list(values)
        keys = infer_dtype_from_prefix(list(chain.from_iterable(rows)))
        return dt.Map(keys, infer_dtype_from_prefix(list(chain.from_iterable(row.values() for row in rows))))
    for base, dtype in _EXACT.items():
        if issubclass(kind, base):
            return dtype
    raise FrameTypeError(
        f"values of type {kind.__name__} have no column type; expected numbers, booleans, strings, None, and lists, "
        "tuples, dictionaries of them."
    )


def dtype_of_type(typ: ty.Any) -> dt.DType:
    """The column type of a Python annotation.

    Args:
        typ: int, float (float32), str, bool, list[...], dict[...], tuple[...], X | None, a named tuple or dataclass
            with annotations, or a column type itself.

    Raises:
        TypeError: there is no column type for it.
    """
    if isinstance(typ, dt.DType):
        return typ
    origin, arguments = ty.get_origin(typ), ty.get_args(typ)
    if origin in (ty.Union, types.UnionType):
        kept = [one for one in arguments if one is not type(None)]
        if len(kept) == 1 and len(arguments) == 2:
            return dtype_of_type(kept[0]).with_null()
    elif origin is list and len(arguments) == 1:
        return dt.List(dtype_of_type(arguments[0]))
    elif origin is dict and len(arguments) == 2:
        return dt.Map(dtype_of_type(arguments[0]), dtype_of_type(arguments[1]))
    elif origin is tuple:
        return dt.Tuple([dtype_of_type(one) for one in arguments])
    elif inspect.isclass(typ) and issubclass(typ, tuple) and hasattr(typ, "_fields"):
        hints = ty.get_type_hints(typ)
        if set(typ._fields) <= hints.keys():
            return dt.Struct([dt.Field(name, dtype_of_type(hints[name])) for name in typ._fields])
    elif dataclasses.is_dataclass(typ):
        hints = ty.get_type_hints(typ)
        return dt.Struct([dt.Field(one.name, dtype_of_type(hints[one.name])) for one in dataclasses.fields(typ)])
    elif typ in _EXACT and typ is not type(None):
        return _EXACT[typ]
    raise FrameTypeError(f"Can't infer dtype from {typ}; give `dtype` instead.")


def infer_dype_from_callable_hint(func: Callable[..., ty.Any]) -> tuple[dt.DType | None, ty.Any]:
    """The column type and the annotation of what a function returns; (None, None) where it says nothing."""
    hint = _returns(func)
    return (None, None) if hint is None else (dtype_of_type(hint), hint)


def dtype_from_batch_pytype(typ: ty.Any) -> dt.DType:
    """The column type of a function's result that is a list of rows.

    Raises:
        TypeError: the annotation is no list; columns do not say what they hold.
    """
    if ty.get_origin(typ) is list and len(ty.get_args(typ)) == 1:
        return dtype_of_type(ty.get_args(typ)[0])
    raise FrameTypeError(f"a batch function returns {typ}, which does not tell the type of a row; give `dtype`.")


def batch_result(func: Callable[..., ty.Any]) -> dt.DType | None:
    """What a batch function's annotation says of its rows, None where it says nothing usable."""
    hint = _returns(func)
    return None if hint is None or (inspect.isclass(hint) and hint is not list) else dtype_from_batch_pytype(hint)


def _returns(func: Callable[..., ty.Any]) -> ty.Any:
    """The annotation of what a callable returns; None for none, and for builtins without one."""
    if inspect.isclass(func):
        return None
    described = func if inspect.isroutine(func) else type(func).__call__
    if inspect.isbuiltin(described) or not hasattr(described, "__annotations__"):
        return None
    return ty.get_type_hints(described).get("return")

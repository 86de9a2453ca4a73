"""What operators write into a plan, and which type their result has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._plan import Apply, Constant, Term
from flambeau.data.frame.errors import FrameTypeError, FrameValueError

_DIVISIONS = ("truediv", "floordiv", "mod")
_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
_INTEGERS = (dt.int8, dt.int16, dt.int32, dt.int64)


def constant(value: Any, partner: dt.DType) -> Term:
    """One value for all rows, typed by its partner."""
    if value is None:
        return Constant(None, partner.with_null())
    if isinstance(value, np.generic):
        return Constant(value.item(), dt.typeof_np_dtype(value.dtype))
    if type(value) is int and dt.is_boolean_or_numerical(partner):
        return Constant(value, _whole_type(value, partner))
    if type(value) is float and dt.is_floating(partner):
        return Constant(value, partner.with_null(False))
    return Constant(value, dt.infer_dtype_from_value(value))


def _whole_type(value: int, partner: dt.DType) -> dt.DType:
    if dt.is_floating(partner):
        return partner.with_null(False)
    for one in _INTEGERS if dt.is_integer(partner) else _INTEGERS[-1:]:
        bits = 8 * _width(one) - 1
        if -(1 << bits) <= value < 1 << bits and _width(one) >= _width(partner):
            return one
    raise FrameValueError(f"{value} does not fit into int64; use a float.")


def _width(dtype: dt.DType) -> int:
    return {"b": 1, "c": 1, "s": 2, "i": 4, "l": 8}[dtype.typecode]


def arithmetic(name: str, left: Term, right: Term) -> Term:
    """`a + b` and the like.

    Raises:
        TypeError: for operands that are no numbers (text adds to text).
        ZeroDivisionError: a whole number divided by a constant zero.
        ValueError: a whole number to a constant negative power.
    """
    l, r = left.dtype, right.dtype  # noqa: E741 - the types on either side
    nullable = l.nullable or r.nullable
    if name == "add" and dt.is_string(l) and dt.is_string(r):
        return Apply("add", (left, right), dt.String(nullable))
    _require(name, l, r, dt.is_boolean_or_numerical)
    dtype = dt.promote(l, r)
    if name == "truediv" and not dt.is_floating(dtype):
        dtype = dt.Float32(nullable)
    elif dt.is_boolean(dtype) and name not in ("add", "mul"):
        raise FrameTypeError(f"boolean {_SYMBOLS[name]} boolean is not defined; cast to a number, or use &, | and ^.")
    if isinstance(right, Constant) and dt.is_integer(dtype) and right.value is not None:
        if name in _DIVISIONS and right.value == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        if name == "pow" and right.value < 0:
            raise FrameValueError("integers to negative integer powers are not allowed; cast the base to a float type.")
    if name in ("floordiv", "mod") and isinstance(right, Constant):
        return Apply(name, (left, right), dtype, safe=True)
    return Apply(name, (left, right), dtype)


def comparison(name: str, left: Term, right: Term) -> Term:
    """`a == b` and the like.

    Raises:
        TypeError: for types that have none in common.
    """
    common = dt.common_dtype(left.dtype, right.dtype)
    if common is None:
        raise FrameTypeError(f"{left.dtype} {_SYMBOLS[name]} {right.dtype} is not defined; cast one of them.")
    nullable = left.dtype.nullable or right.dtype.nullable
    return Apply("compare", (left, right), dt.Boolean(nullable), by=name, common=common)


def logic(name: str, left: Term, right: Term) -> Term:
    """`a & b` and the like: missing where either is.

    Raises:
        TypeError: for operands that are neither booleans nor whole numbers.
    """
    _require(name, left.dtype, right.dtype, lambda one: dt.is_boolean(one) or dt.is_integer(one))
    return Apply("logic", (left, right), dt.promote(left.dtype, right.dtype), by=name)


def _require(name: str, l: dt.DType, r: dt.DType, test: Callable[[dt.DType], bool]) -> None:  # noqa: E741
    if not (test(l) and test(r)):
        raise FrameTypeError(f"{l} {_SYMBOLS[name]} {r} is not defined for columns of these types; cast them first.")

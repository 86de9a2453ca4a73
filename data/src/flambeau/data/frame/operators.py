"""Operators between columns, and what type their result has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._inference import infer_dtype_from_value
from flambeau.data.frame._plan import Apply, Constant, Term
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.execution import align

if TYPE_CHECKING:
    from flambeau.data.frame.column import Column

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


def operand(beside: Column, value: Any) -> Term:
    """A column, a list or one value as an expression over the rows of a column.

    A number of Python takes the type of its partner where it fits into it, as with tensors: int32 + 1 is int32.
    """
    from flambeau.data.frame.column import Column
    from flambeau.data.frame.construction import column

    if isinstance(value, list) and not isinstance(beside.dtype, dt.List | dt.Map):
        value = column(value)
    if isinstance(value, Column):
        return align(beside._rows, value._rows, value._term)
    return constant(value, beside.dtype)


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
    return Constant(value, infer_dtype_from_value(value))


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


def choose(cond: Column, left: Any, right: Any) -> Column:
    """What `making.if_else` says."""
    from flambeau.data.frame.construction import column, make

    if not dt.is_boolean(cond.dtype):
        raise FrameTypeError(f"condition must be a boolean vector, got {cond.dtype}; compare it with something.")
    left, right = (column(one) if isinstance(one, list) else one for one in (left, right))
    terms = [_branch(cond, left, right), _branch(cond, right, left)]
    common = dt.common_dtype(terms[0].dtype, terms[1].dtype)
    if common is None or dt.is_void(common):
        raise FrameTypeError(f"then and else branches must have compatible types, got {left} and {right}.")
    dtype = common.with_null(common.nullable or cond.dtype.nullable)
    return make(cond._rows, Apply("if_else", (cond._term, *terms), dtype))


def _branch(cond: Column, value: Any, other: Any) -> Term:
    from flambeau.data.frame.column import Column

    if isinstance(value, Column):
        return align(cond._rows, value._rows, value._term)
    return constant(value, other.dtype if isinstance(other, Column) else dt.Void())


class Operators:
    """The operators of a column; missing values make missing results.

    Whole numbers: `//` and `%` round down and take the divisor's sign, and raise ZeroDivisionError for zero; `/` gives
    float32 (float64 where an operand is). Sums that leave a type's range wrap around. Floats follow IEEE 754.
    """

    def _binary(self, kind: Callable[[str, Term, Term], Term], name: str, other: Any, swap: bool) -> Any:
        raise NotImplementedError  # columns and frames have their own

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Any:
        return self._binary(arithmetic, "add", other, False)

    def __radd__(self, other: Any) -> Any:
        return self._binary(arithmetic, "add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._binary(arithmetic, "sub", other, False)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(arithmetic, "sub", other, True)

    def __mul__(self, other: Any) -> Any:
        return self._binary(arithmetic, "mul", other, False)

    def __rmul__(self, other: Any) -> Any:
        return self._binary(arithmetic, "mul", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary(arithmetic, "truediv", other, False)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(arithmetic, "truediv", other, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary(arithmetic, "floordiv", other, False)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary(arithmetic, "floordiv", other, True)

    def __mod__(self, other: Any) -> Any:
        return self._binary(arithmetic, "mod", other, False)

    def __rmod__(self, other: Any) -> Any:
        return self._binary(arithmetic, "mod", other, True)

    def __pow__(self, other: Any) -> Any:
        return self._binary(arithmetic, "pow", other, False)

    def __rpow__(self, other: Any) -> Any:
        return self._binary(arithmetic, "pow", other, True)

    def __and__(self, other: Any) -> Any:
        return self._binary(logic, "and", other, False)

    def __rand__(self, other: Any) -> Any:
        return self._binary(logic, "and", other, True)

    def __or__(self, other: Any) -> Any:
        return self._binary(logic, "or", other, False)

    def __ror__(self, other: Any) -> Any:
        return self._binary(logic, "or", other, True)

    def __xor__(self, other: Any) -> Any:
        return self._binary(logic, "xor", other, False)

    def __rxor__(self, other: Any) -> Any:
        return self._binary(logic, "xor", other, True)

    def __eq__(self, other: object) -> Any:
        return self._binary(comparison, "eq", other, False)

    def __ne__(self, other: object) -> Any:
        return self._binary(comparison, "ne", other, False)

    def __lt__(self, other: Any) -> Any:
        return self._binary(comparison, "lt", other, False)

    def __le__(self, other: Any) -> Any:
        return self._binary(comparison, "le", other, False)

    def __gt__(self, other: Any) -> Any:
        return self._binary(comparison, "gt", other, False)

    def __ge__(self, other: Any) -> Any:
        return self._binary(comparison, "ge", other, False)

"""Operators between columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._plan import Apply, Term
from flambeau.data.frame.arithmetic import arithmetic, comparison, constant, logic
from flambeau.data.frame.column_base import ColumnBase
from flambeau.data.frame.column_classes import column_from, make
from flambeau.data.frame.errors import FrameTypeError
from flambeau.data.frame.execution import align
from flambeau.data.frame.expression import Expression


def operand(beside: ColumnBase, value: Any) -> Term:
    """A column, a list or one value as an expression over the rows of a column.

    A number of Python takes the type of its partner where it fits into it, as with tensors: int32 + 1 is int32.
    """
    if isinstance(value, list) and not isinstance(beside.dtype, dt.List | dt.Map):
        value = column_from(value)
    if isinstance(value, ColumnBase):
        return align(beside._rows, value._rows, value._term)
    return constant(value, beside.dtype)


def choose(cond: ColumnBase, left: Any, right: Any) -> Any:
    """What `frame.if_else` says."""
    if not dt.is_boolean(cond.dtype):
        raise FrameTypeError(f"condition must be a boolean vector, got {cond.dtype}; compare it with something.")
    left, right = (column_from(one) if isinstance(one, list) else one for one in (left, right))
    terms = [_branch(cond, left, right), _branch(cond, right, left)]
    common = dt.common_dtype(terms[0].dtype, terms[1].dtype)
    if common is None or dt.is_void(common):
        raise FrameTypeError(f"then and else branches must have compatible types, got {left} and {right}.")
    dtype = common.with_null(common.nullable or cond.dtype.nullable)
    return make(cond._rows, Apply("if_else", (cond._term, *terms), dtype))


def _branch(cond: ColumnBase, value: Any, other: Any) -> Term:
    if isinstance(value, ColumnBase):
        return align(cond._rows, value._rows, value._term)
    return constant(value, other.dtype if isinstance(other, ColumnBase) else dt.Void())


class Operators(ColumnBase):
    """The operators of a column; missing values make missing results.

    Whole numbers: `//` and `%` round down and take the divisor's sign, and raise ZeroDivisionError for zero; `/` gives
    float32 (float64 where an operand is). Sums that leave a type's range wrap around. Floats follow IEEE 754.
    """

    def _binary(self, kind: Callable[[str, Term, Term], Term], name: str, other: Any, swap: bool) -> Any:
        if isinstance(other, Expression) or (isinstance(other, ColumnBase) and isinstance(other.dtype, dt.Struct)):
            return NotImplemented  # a frame takes it, column by column
        mine, theirs = self._term, operand(self, other)
        return self._made(self._rows, kind(name, theirs, mine) if swap else kind(name, mine, theirs))

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

"""Questions about types: of which kind one is, which holds the values of two, and what NumPy calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.data.frame._types import (
    DType,
    Field,
    List,
    Map,
    String,
    Struct,
    Tuple,
    boolean,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
)
from flambeau.data.frame.errors import FrameTypeError

if TYPE_CHECKING:
    import numpy as np


def is_void(t: DType) -> bool:
    """The type of None."""
    return t.typecode == "n"


def is_any(t: DType) -> bool:
    """Nothing known."""
    return t.typecode == "?"


def is_boolean(t: DType) -> bool:
    """True or false."""
    return t.typecode == "b"


def is_integer(t: DType) -> bool:
    """A whole number."""
    return t.typecode in "csil"


is_signed_integer = is_integer


def is_int8(t: DType) -> bool:
    """Whole, 8 bits."""
    return t.typecode == "c"


def is_int16(t: DType) -> bool:
    """Whole, 16 bits."""
    return t.typecode == "s"


def is_int32(t: DType) -> bool:
    """Whole, 32 bits."""
    return t.typecode == "i"


def is_int64(t: DType) -> bool:
    """Whole, 64 bits."""
    return t.typecode == "l"


def is_floating(t: DType) -> bool:
    """A floating-point number."""
    return t.typecode in "fg"


def is_float32(t: DType) -> bool:
    """Floating, single precision."""
    return t.typecode == "f"


def is_float64(t: DType) -> bool:
    """Floating, double precision."""
    return t.typecode == "g"


def is_numerical(t: DType) -> bool:
    """A number, not a boolean."""
    return is_integer(t) or is_floating(t)


def is_boolean_or_numerical(t: DType) -> bool:
    """A number or a boolean."""
    return is_boolean(t) or is_numerical(t)


def is_string(t: DType) -> bool:
    """Text."""
    return t.typecode == "u"


def is_list(t: DType) -> bool:
    """Rows of lists."""
    return t.typecode == "+l"


def is_map(t: DType) -> bool:
    """Rows of key-value pairs."""
    return t.typecode == "+m"


def is_struct(t: DType) -> bool:
    """Rows of records with names: a frame."""
    return t.typecode == "+s"


def is_tuple(t: DType) -> bool:
    """Rows of records without names."""
    return t.typecode == "+t"


def is_primitive(t: DType) -> bool:
    """Not nested."""
    return not t.typecode.startswith("+")


def contains_tuple(t: DType) -> bool:
    """Whether records without names occur anywhere in a type."""
    if isinstance(t, List):
        return contains_tuple(t.item_dtype)
    if isinstance(t, Map):
        return contains_tuple(t.key_dtype) or contains_tuple(t.item_dtype)
    if isinstance(t, Struct):
        return any(contains_tuple(one.dtype) for one in t.fields)
    return is_tuple(t)


def get_underlying_dtype(dtype: DType) -> DType:
    """A type without its nullability."""
    return dtype.with_null(False)


def get_nullable_dtype(dtype: DType) -> DType:
    """A type that takes None."""
    return dtype.with_null()


_WIDENING = ("b", "c", "s", "i", "l", "f", "g")
_NUMBERS: dict[str, DType] = {one.typecode: one for one in (boolean, int8, int16, int32, int64, float32, float64)}


def promote(l: DType, r: DType) -> DType:  # noqa: E741 - upstream's parameter names
    """The type that holds numbers of both types: the later of boolean, int8 ... int64, float32, float64.

    Whole numbers and float32 make float32, as in torch.
    """
    wider = max(l.typecode, r.typecode, key=_WIDENING.index)
    return _NUMBERS[wider].with_null(l.nullable or r.nullable)


def common_dtype(l: DType, r: DType) -> DType | None:  # noqa: E741 - upstream's parameter names
    """The type that holds values of both types, None where there is none."""
    nullable = l.nullable or r.nullable
    if is_void(l) or is_void(r):
        return (r if is_void(l) else l).with_null()
    if is_any(l) or is_any(r):
        return r if is_any(l) else l
    if is_boolean_or_numerical(l) and is_boolean_or_numerical(r):
        return promote(l, r)
    if isinstance(l, List) and isinstance(r, List):
        item = common_dtype(l.item_dtype, r.item_dtype)
        fixed = l.fixed_size if l.fixed_size == r.fixed_size else -1
        return item and List(item, nullable, fixed)
    if isinstance(l, Map) and isinstance(r, Map):
        key, item = common_dtype(l.key_dtype, r.key_dtype), common_dtype(l.item_dtype, r.item_dtype)
        return Map(key, item, nullable) if key and item else None
    if isinstance(l, Tuple) and isinstance(r, Tuple) and len(l.fields) == len(r.fields):
        items = [common_dtype(one, other) for one, other in zip(l.fields, r.fields, strict=True)]
        return None if None in items else Tuple([one for one in items if one], nullable)
    if isinstance(l, Struct) and isinstance(r, Struct) and [f.name for f in l.fields] == [f.name for f in r.fields]:
        both = [common_dtype(one.dtype, other.dtype) for one, other in zip(l.fields, r.fields, strict=True)]
        if None in both:
            return None
        return Struct([Field(one.name, t) for one, t in zip(l.fields, both, strict=True) if t], nullable)
    return l.with_null(nullable) if l.with_null() == r.with_null() else None


def cast_as(dtype: DType) -> type:
    """The Python type that makes a value of a primitive type."""
    if is_string(dtype):
        return str
    if is_integer(dtype):
        return int
    if is_boolean(dtype):
        return bool
    if is_floating(dtype):
        return float
    raise FrameTypeError(f"cast to {dtype} is not supported; expected a number, boolean or string.")


def np_typeof_dtype(t: DType) -> np.dtype[Any] | type:
    """The NumPy type of a primitive column's values; strings are objects."""
    import numpy as np

    if is_string(t):
        return object
    if not is_boolean_or_numerical(t):
        raise FrameTypeError(f"{t} has no NumPy type; expected a number, boolean or string.")
    return np.dtype("bool" if is_boolean(t) else t.name)


def typeof_np_dtype(t: np.dtype[Any]) -> DType:
    """The column type of a NumPy type; object arrays hold strings that may be missing."""
    import numpy as np

    t = np.dtype(t)
    if t.kind in "UO":
        return String(nullable=t.kind == "O")
    name = "boolean" if t.kind == "b" else t.name
    found = next((one for one in _NUMBERS.values() if one.name == name), None)
    if found is None:
        raise FrameTypeError(f"NumPy's {t} has no column type; convert to one of {[*_NAMES]}.")
    return found


_NAMES = tuple(one.name for one in _NUMBERS.values())

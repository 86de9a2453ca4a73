"""Types of columns: what a value is, and whether it may be missing.

A type is immutable and compares by structure. Every type but `Void` and `Any` is non-nullable unless it says otherwise:
`int64` refuses None, `Int64(nullable=True)` takes it. A frame's type is a `Struct` of named fields.

==========================================  ====================================================================
boolean int8 int16 int32 int64              numbers; sums and promotion follow the order of this line and the next
float32 float64                             Python's float is float32, as in torch
string                                      UTF-8
List(item, fixed_size=-1)                   `fixed_size` items in each row, any number where it is -1
Map(key, item)                              rows of key-value pairs, in order
Struct([Field(name, dtype), ...])           a frame, or a column of records
Tuple, Any, Void                            only while types are inferred: records without names, nothing known, None
==========================================  ====================================================================
"""

from __future__ import annotations

import functools
import re
import typing as ty
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flambeau.data.frame.errors import FrameTypeError

if ty.TYPE_CHECKING:
    import numpy as np

ScalarTypes = int | float | bool | str
MetaData = Mapping[str, str]


@dataclass(frozen=True)
class DType:
    """The type of a column.

    Attributes:
        name: as printed, for example "int64".
        typecode: one letter, or "+" and a letter for nested types.
        nullable: whether values may be missing.
    """

    name: ty.ClassVar[str] = ""
    typecode: ty.ClassVar[str] = ""
    default: ty.ClassVar[ty.Any] = None

    nullable: bool = False

    def __str__(self) -> str:
        return f"{type(self).__name__}(nullable=True)" if self.nullable else self.name

    @property
    def py_type(self) -> ty.Any:
        """The Python type of a value that is not missing."""
        return type(self.default_value())

    def constructor(self, nullable: bool) -> DType:
        """This type, nullable or not."""
        return replace(self, nullable=nullable)

    def with_null(self, nullable: bool = True) -> DType:
        """This type, nullable or not."""
        return self if self.nullable == nullable else self.constructor(nullable)

    def default_value(self) -> ty.Any:
        """A value of this type: zero, the empty string, an empty list."""
        return type(self).default


@dataclass(frozen=True)
class Void(DType):
    """The type of None, before anything else is known."""

    name: ty.ClassVar[str] = "void"
    typecode: ty.ClassVar[str] = "n"
    nullable: bool = True


@dataclass(frozen=True)
class Any(DType):
    """The item type of an empty list: nothing known."""

    name: ty.ClassVar[str] = "any"
    typecode: ty.ClassVar[str] = "?"
    nullable: bool = True


@dataclass(frozen=True)
class Numeric(DType):
    """A number, whole or floating."""


@dataclass(frozen=True)
class Boolean(DType):
    """True or false."""

    name: ty.ClassVar[str] = "boolean"
    typecode: ty.ClassVar[str] = "b"
    default: ty.ClassVar[bool] = False


@dataclass(frozen=True)
class Int8(Numeric):
    """-128 to 127."""

    name: ty.ClassVar[str] = "int8"
    typecode: ty.ClassVar[str] = "c"
    default: ty.ClassVar[int] = 0


@dataclass(frozen=True)
class Int16(Numeric):
    """-2**15 to 2**15 - 1."""

    name: ty.ClassVar[str] = "int16"
    typecode: ty.ClassVar[str] = "s"
    default: ty.ClassVar[int] = 0


@dataclass(frozen=True)
class Int32(Numeric):
    """-2**31 to 2**31 - 1."""

    name: ty.ClassVar[str] = "int32"
    typecode: ty.ClassVar[str] = "i"
    default: ty.ClassVar[int] = 0


@dataclass(frozen=True)
class Int64(Numeric):
    """-2**63 to 2**63 - 1."""

    name: ty.ClassVar[str] = "int64"
    typecode: ty.ClassVar[str] = "l"
    default: ty.ClassVar[int] = 0


@dataclass(frozen=True)
class Float32(Numeric):
    """Single precision, IEEE 754."""

    name: ty.ClassVar[str] = "float32"
    typecode: ty.ClassVar[str] = "f"
    default: ty.ClassVar[float] = 0.0


@dataclass(frozen=True)
class Float64(Numeric):
    """Double precision, IEEE 754."""

    name: ty.ClassVar[str] = "float64"
    typecode: ty.ClassVar[str] = "g"
    default: ty.ClassVar[float] = 0.0


@dataclass(frozen=True)
class String(DType):
    """Text, UTF-8."""

    name: ty.ClassVar[str] = "string"
    typecode: ty.ClassVar[str] = "u"
    default: ty.ClassVar[str] = ""


@dataclass(frozen=True)
class Map(DType):
    """Key-value pairs, in order; keys are never missing."""

    name: ty.ClassVar[str] = "Map"
    typecode: ty.ClassVar[str] = "+m"

    key_dtype: DType = field(default_factory=lambda: string)
    item_dtype: DType = field(default_factory=lambda: int64)
    nullable: bool = False
    keys_sorted: bool = False

    def __init__(self, key_dtype: DType, item_dtype: DType, nullable: bool = False, keys_sorted: bool = False) -> None:
        _set(self, key_dtype=key_dtype, item_dtype=item_dtype, nullable=nullable, keys_sorted=keys_sorted)

    def __str__(self) -> str:
        return f"Map({self.key_dtype}, {self.item_dtype}{', nullable=True' if self.nullable else ''})"

    @property
    def py_type(self) -> ty.Any:
        """The Python type of a value that is not missing."""
        return dict[self.key_dtype.py_type, self.item_dtype.py_type]

    def default_value(self) -> dict[ty.Any, ty.Any]:
        """A value of this type."""
        return {}


@dataclass(frozen=True)
class List(DType):
    """Rows that are lists of one item type; all of `fixed_size` items where that is not -1."""

    name: ty.ClassVar[str] = "List"
    typecode: ty.ClassVar[str] = "+l"

    item_dtype: DType = field(default_factory=lambda: int64)
    nullable: bool = False
    fixed_size: int = -1

    def __init__(self, item_dtype: DType, nullable: bool = False, fixed_size: int = -1) -> None:
        _set(self, item_dtype=item_dtype, nullable=nullable, fixed_size=fixed_size)

    def __str__(self) -> str:
        fixed = f", fixed_size={self.fixed_size}" if self.fixed_size >= 0 else ""
        return f"List({self.item_dtype}{', nullable=True' if self.nullable else ''}{fixed})"

    @property
    def py_type(self) -> ty.Any:
        """The Python type of a value that is not missing."""
        return list[self.item_dtype.py_type]

    def default_value(self) -> list[ty.Any]:
        """A value of this type."""
        return []


@dataclass(frozen=True)
class Field:
    """One named column of a `Struct`."""

    name: str
    dtype: DType
    metadata: MetaData | None = None

    def __str__(self) -> str:
        meta = f", meta={dict(self.metadata)}" if self.metadata is not None else ""
        return f"Field('{self.name}', {self.dtype}{meta})"

    def __hash__(self) -> int:
        return hash((self.name, self.dtype))


@dataclass(frozen=True)
class Struct(DType):
    """Records of named fields: a frame is a column of this type.

    Raises:
        TypeError: nullable, with a field that is not: a missing record has no value for it.
    """

    name: ty.ClassVar[str] = "Struct"
    typecode: ty.ClassVar[str] = "+s"

    fields: list[Field] = field(default_factory=list)
    nullable: bool = False
    is_dataframe: bool = False
    metadata: MetaData | None = None

    def __init__(
        self,
        fields: ty.Iterable[Field],
        nullable: bool = False,
        is_dataframe: bool = False,
        metadata: MetaData | None = None,
    ) -> None:
        fields = list(fields)
        for one in fields if nullable else ():
            if not one.dtype.nullable:
                raise FrameTypeError(
                    f"nullable structs require each field (like {one.name}) to be nullable as well; write "
                    f"Field({one.name!r}, {type(one.dtype).__name__}(nullable=True))."
                )
        _set(self, fields=fields, nullable=nullable, is_dataframe=is_dataframe, metadata=metadata)

    def __hash__(self) -> int:
        return hash((tuple(self.fields), self.nullable))

    def __str__(self) -> str:
        fields = ", ".join(str(one) for one in self.fields)
        return f"Struct([{fields}]{', nullable=True' if self.nullable else ''})"

    def __getstate__(self) -> dict[str, ty.Any]:
        return {key: value for key, value in vars(self).items() if key != "_py_type"}

    @property
    def py_type(self) -> ty.Any:
        """The named tuple that rows are given as."""
        if "_py_type" not in vars(self):
            names = [_identifier(one.name, place) for place, one in enumerate(self.fields)]
            _set(self, _py_type=_row_type(tuple(names)))
        return vars(self)["_py_type"]

    def with_null(self, nullable: bool = True) -> Struct:
        """This type, nullable or not; a nullable one has nullable fields."""
        if not nullable:
            return Struct(self.fields, False, self.is_dataframe, self.metadata)
        fields = [Field(one.name, one.dtype.with_null(), one.metadata) for one in self.fields]
        return Struct(fields, True, self.is_dataframe, self.metadata)

    def get(self, name: str) -> DType:
        """The type of a field.

        Raises:
            KeyError: there is none of this name.
        """
        if (place := self.get_index(name)) is None:
            raise KeyError(f"{name} not among fields {[one.name for one in self.fields]}")
        return self.fields[place].dtype

    def get_index(self, name: str) -> int | None:
        """The place of a field, None where there is none of this name."""
        return next((place for place, one in enumerate(self.fields) if one.name == name), None)

    def default_value(self) -> tuple[ty.Any, ...]:
        """A value of this type."""
        return tuple(one.dtype.default_value() for one in self.fields)


@dataclass(frozen=True)
class Tuple(DType):
    """Records without names: what a Python tuple is inferred as."""

    name: ty.ClassVar[str] = "Tuple"
    typecode: ty.ClassVar[str] = "+t"

    fields: list[DType] = field(default_factory=list)
    nullable: bool = False

    def __init__(self, fields: ty.Iterable[DType], nullable: bool = False) -> None:
        _set(self, fields=list(fields), nullable=nullable)

    def __hash__(self) -> int:
        return hash((tuple(self.fields), self.nullable))

    @property
    def py_type(self) -> ty.Any:
        """The Python type of a value that is not missing."""
        return tuple

    def default_value(self) -> tuple[ty.Any, ...]:
        """A value of this type."""
        return tuple(one.default_value() for one in self.fields)


def _set(frozen: ty.Any, **values: ty.Any) -> None:
    for key, value in values.items():
        object.__setattr__(frozen, key, value)


def _identifier(name: str, place: int) -> str:
    """A field's name as an attribute of a named tuple."""
    if not name:
        return f"f_{place}"
    name = re.sub("[^a-zA-Z0-9_]", "_", name)
    return f"f_{name}" if name[0].isdigit() or name[0] == "_" else name


@functools.lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> ty.Any:
    """The named tuple of rows with these fields: one class, so that rows pickled elsewhere are of it here."""
    import collections

    made: ty.Any = collections.namedtuple("Row", names, rename=True)  # type: ignore[misc]  # known at run time only
    made.__reduce__ = lambda row: (_row, (names, tuple(row)))
    return made


def _row(names: tuple[str, ...], values: tuple[ty.Any, ...]) -> ty.Any:
    return _row_type(names)(*values)


boolean = Boolean()
int8 = Int8()
int16 = Int16()
int32 = Int32()
int64 = Int64()
float32 = Float32()
float64 = Float64()
string = String()


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


def np_typeof_dtype(t: DType) -> np.dtype[ty.Any] | type:
    """The NumPy type of a primitive column's values; strings are objects."""
    import numpy as np

    if is_string(t):
        return object
    if not is_boolean_or_numerical(t):
        raise FrameTypeError(f"{t} has no NumPy type; expected a number, boolean or string.")
    return np.dtype("bool" if is_boolean(t) else t.name)


def typeof_np_dtype(t: np.dtype[ty.Any]) -> DType:
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


def __getattr__(name: str) -> ty.Any:
    # Inference needs `inspect` and `typing` machinery that a listing of types does not.
    from flambeau.data.frame import _inference

    if name in _inference.__all__:
        return getattr(_inference, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

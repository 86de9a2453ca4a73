"""The classes of column types; `dtypes` says what they are for and gathers all that is known about types."""

from __future__ import annotations

import functools
import re
import types
import typing as ty
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flambeau.data.frame.errors import FrameTypeError

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

    key_dtype: DType = field(default_factory=String)
    item_dtype: DType = field(default_factory=Int64)
    nullable: bool = False
    keys_sorted: bool = False

    def __init__(self, key_dtype: DType, item_dtype: DType, nullable: bool = False, keys_sorted: bool = False) -> None:
        _set(self, key_dtype=key_dtype, item_dtype=item_dtype, nullable=nullable, keys_sorted=keys_sorted)

    def __str__(self) -> str:
        return f"Map({self.key_dtype}, {self.item_dtype}{', nullable=True' if self.nullable else ''})"

    @property
    def py_type(self) -> ty.Any:
        """The Python type of a value that is not missing."""
        return types.GenericAlias(dict, (self.key_dtype.py_type, self.item_dtype.py_type))

    def default_value(self) -> dict[ty.Any, ty.Any]:
        """A value of this type."""
        return {}


@dataclass(frozen=True)
class List(DType):
    """Rows that are lists of one item type; all of `fixed_size` items where that is not -1."""

    name: ty.ClassVar[str] = "List"
    typecode: ty.ClassVar[str] = "+l"

    item_dtype: DType = field(default_factory=Int64)
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
        return types.GenericAlias(list, (self.item_dtype.py_type,))

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
    return type("Row", (made,), {"__slots__": (), "__reduce__": lambda row: (_row, (names, tuple(row)))})


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

"""What a column is made of: rows, and an expression over them. All that columns can do is built on this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._plan import ONE, Apply, Rows, Term
from flambeau.data.frame.column_classes import make
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.execution import aggregate, compute, compute_one, count, in_memory
from flambeau.data.frame.python_values import to_python


class ColumnBase:
    """Rows, and the term of a column over them; frames have several, and say otherwise below."""

    def __init__(self, rows: Rows, term: Term) -> None:
        self._rows = rows
        self._term = term

    @classmethod
    def _of_term(cls, rows: Rows, term: Term) -> Self:
        """A column of this class from an expression of its type."""
        return cls(rows, term)

    @property
    def dtype(self) -> dt.DType:
        """Type of the values."""
        return self._term.dtype

    @property
    def is_nullable(self) -> bool:
        """Whether values may be missing."""
        return self.dtype.nullable

    def __len__(self) -> int:
        return count(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_pylist())

    def to_pylist(self) -> list[Any]:
        """Values as Python has them: lists, dictionaries, named tuples, None for missing ones."""
        return to_python(self._series(), self.dtype)

    def cast(self, dtype: dt.DType) -> Any:
        """The same values in another type.

        Raises:
            TypeError: there is no way from one type to the other.
            ValueError: on computing, a value that does not fit; None where the new type is not nullable.
        """
        if dtype == self.dtype:
            return self
        nested = not (dt.is_primitive(self.dtype) and dt.is_primitive(dtype))
        if nested and dt.common_dtype(self.dtype, dtype) is None:
            raise FrameTypeError(f"{self.dtype} cannot be cast to {dtype}; take the parts out and cast those.")
        made = self._apply("cast", dtype.with_null(self.is_nullable), of=self.dtype)
        return made._without_null(dtype) if self.is_nullable and not dtype.nullable else made

    def _without_null(self, dtype: dt.DType) -> Any:
        """The same values under a type that takes no missing ones: checked now in memory, else when computed."""
        if in_memory(self._rows):
            if missing := int(aggregate(self._rows, self._term, "null_count")):
                raise FrameValueError(f"{missing} values are missing, and {dtype} is not nullable; fill_null first.")
            return self._apply("as_is", dtype)
        return self._apply("without_null", dtype)

    def _columns(self) -> dict[str, Term]:
        return {ONE: self._term}

    def _over(self, rows: Rows) -> Any:
        """The same column over rows that were derived from `_columns`."""
        return self._made(rows, rows.references()[ONE])

    def _on_rows(self, rows: Rows) -> Any:
        """The same expression over other rows of the same columns."""
        return self._made(rows, self._term)

    def _made(self, rows: Rows, term: Term) -> Any:
        return make(rows, term)

    def _series(self) -> pl.Series:
        return compute_one(self._rows, self._term)

    def _values(self) -> pl.DataFrame:
        """All columns, computed together."""
        return compute(self._rows, self._columns())

    def _apply(self, operation: str, dtype: dt.DType, *, rowwise: bool = True, **options: Any) -> Any:
        """An operation on this column alone."""
        return self._made(self._rows, Apply(operation, (self._term,), dtype, rowwise=rowwise, **options))

    def _arguments(self, columns: Sequence[str] | None) -> list[Term]:
        """The columns that a user's function gets."""
        if columns is not None:
            raise FrameTypeError("columns are for frames: a column has one value in a row.")
        return [self._term]

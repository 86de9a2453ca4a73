"""Columns of text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._plan import Apply
from flambeau.data.frame.column import Column
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.operators import operand


class StringColumn(Column):
    """A column of text; what can be done with it is in `.str`."""

    @cached_property
    def str(self) -> StringMethods:
        """What can be done with text."""
        return StringMethods(self)


class StringMethods:
    """Functions of text, row by row; missing stays missing.

    Lengths and places count characters. Patterns have the syntax of RE2: no look-around, no back-references.
    """

    def __init__(self, parent: StringColumn) -> None:
        self._parent = parent

    def _apply(self, operation: str, dtype: Callable[[bool], dt.DType], **options: Any) -> Any:
        return self._parent._apply(operation, dtype(self._parent.is_nullable), **options)

    def length(self) -> Any:
        """Characters, int64."""
        return self._apply("str_length", dt.Int64)

    def slice(self, start: int | None = None, stop: int | None = None) -> Any:
        """Characters from start to stop, as in Python."""
        return self._apply("str_slice", dt.String, start=start, stop=stop)

    def split(self, pat: str | None = None, n: int = -1) -> Any:
        """Parts between separators, as lists.

        Args:
            pat: the separator; white space of any length where it is None.
            n: the most cuts made, from the left; all where it is -1.

        Raises:
            ValueError: an empty separator.
        """
        if pat == "":
            raise FrameTypeError("split needs a separator that is not empty, or None for white space.")
        return self._apply("str_split", lambda nullable: dt.List(dt.string, nullable), pat=pat, n=n)

    def strip(self) -> Any:
        """Without white space at both ends."""
        return self._apply("str_strip", dt.String)

    def isalpha(self) -> Any:
        """Whether all characters are letters, and there is one; as Python's `str.isalpha`."""
        return self._apply("str_is", dt.Boolean, what="isalpha")

    def isnumeric(self) -> Any:
        """As Python's `str.isnumeric`."""
        return self._apply("str_is", dt.Boolean, what="isnumeric")

    def isalnum(self) -> Any:
        """As Python's `str.isalnum`."""
        return self._apply("str_is", dt.Boolean, what="isalnum")

    def isdigit(self) -> Any:
        """As Python's `str.isdigit`."""
        return self._apply("str_is", dt.Boolean, what="isdigit")

    def isdecimal(self) -> Any:
        """As Python's `str.isdecimal`."""
        return self._apply("str_is", dt.Boolean, what="isdecimal")

    def isspace(self) -> Any:
        """As Python's `str.isspace`."""
        return self._apply("str_is", dt.Boolean, what="isspace")

    def islower(self) -> Any:
        """As Python's `str.islower`."""
        return self._apply("str_is", dt.Boolean, what="islower")

    def isupper(self) -> Any:
        """As Python's `str.isupper`."""
        return self._apply("str_is", dt.Boolean, what="isupper")

    def istitle(self) -> Any:
        """As Python's `str.istitle`."""
        return self._apply("str_is", dt.Boolean, what="istitle")

    def lower(self) -> Any:
        """In lower case."""
        return self._apply("str_lower", dt.String)

    def upper(self) -> Any:
        """In upper case."""
        return self._apply("str_upper", dt.String)

    def startswith(self, pat: str) -> Any:
        """Whether it begins with a text."""
        return self._apply("str_startswith", dt.Boolean, pat=pat)

    def endswith(self, pat: str) -> Any:
        """Whether it ends with a text."""
        return self._apply("str_endswith", dt.Boolean, pat=pat)

    def count(self, pat: str) -> Any:
        """How often a pattern occurs, without overlap; int64."""
        return self._apply("str_count", dt.Int64, pat=pat)

    def find(self, sub: str) -> Any:
        """The place of the first occurrence of a text, -1 for none; int64."""
        return self._apply("str_find", dt.Int64, sub=sub)

    def replace(self, pat: str, repl: str, regex: bool = True) -> Any:
        """All occurrences replaced.

        Args:
            pat: a pattern, or a text where `regex` is false.
            repl: what comes instead; `$1` or `${name}` stands for a group of the pattern.
            regex: whether `pat` is a pattern.
        """
        return self._apply("str_replace", dt.String, pat=pat, repl=repl, regex=regex)

    def match(self, pat: str) -> Any:
        """Whether a pattern matches from the beginning, as `re.match`."""
        return self._apply("str_match", dt.Boolean, pat=pat)

    def contains(self, pat: str, regex: bool = True) -> Any:
        """Whether a pattern, or a text where `regex` is false, occurs."""
        return self._apply("str_contains", dt.Boolean, pat=pat, regex=regex)

    def findall(self, pat: str) -> Any:
        """All that a pattern matches, whole (groups do not matter), as lists."""
        return self._apply("str_findall", lambda nullable: dt.List(dt.string, nullable), pat=pat)

    def to_integer(self, base: int = 10) -> Any:
        """The whole numbers that texts of digits stand for, int64; raises on computing where one is none.

        Args:
            base: of the digits, 2 to 36; 16 for hexadecimal ids.
        """
        if not 2 <= base <= 36:
            raise FrameValueError(f"to_integer: base is {base}, expected 2 to 36.")
        return self._apply("str_to_integer", dt.Int64, base=base)

    def cat(self, col: StringColumn | str) -> Any:
        """Joined with another column's text, row by row."""
        parent = self._parent
        other = operand(parent, col)
        if not dt.is_string(other.dtype):
            raise FrameTypeError(f"cat joins text with text, got {other.dtype}; cast it first.")
        dtype = dt.String(parent.is_nullable or other.dtype.nullable)
        return parent._made(parent._rows, Apply("add", (parent._term, other), dtype))

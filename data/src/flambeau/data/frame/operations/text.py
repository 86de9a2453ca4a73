"""Text. Positions and lengths count characters, not bytes. Patterns are those of Rust's `regex`, RE2's syntax."""

from __future__ import annotations

from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.batches import batch
from flambeau.data.frame.operations.registry import operation

# What Python's `str.split` and `str.isspace` hold for white space beyond the pattern's `\s`.
_SPACE = r"\s\x1c-\x1f"
_ASCII: dict[str, str] = {
    "isalpha": "^[A-Za-z]+$",
    "isnumeric": "^[0-9]+$",
    "isdigit": "^[0-9]+$",
    "isdecimal": "^[0-9]+$",
    "isalnum": "^[0-9A-Za-z]+$",
    "isspace": r"^[\t-\r\x1c-\x1f ]+$",
    "islower": "^[^A-Z]*[a-z][^A-Z]*$",
    "isupper": "^[^a-z]*[A-Z][^a-z]*$",
}


@operation
def str_length(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """Characters."""
    return a.str.len_chars().cast(pl.Int64)


@operation
def str_slice(dtype: dt.DType, a: pl.Expr, *, start: int | None, stop: int | None) -> pl.Expr:
    """Characters from start to stop, as in Python."""
    size = a.str.len_chars().cast(pl.Int64)
    first, last = _bound(size, start or 0), size if stop is None else _bound(size, stop)
    return a.str.slice(first, pl.max_horizontal(last - first, pl.lit(0, pl.Int64)))


def _bound(size: pl.Expr, place: int) -> pl.Expr:
    """A place counted from the end where negative, within the text."""
    if place >= 0:
        return pl.min_horizontal(size, pl.lit(place, pl.Int64))
    return pl.max_horizontal(size + place, pl.lit(0, pl.Int64))


@operation
def str_split(dtype: dt.DType, a: pl.Expr, *, pat: str | None, n: int) -> pl.Expr:
    """Parts between separators, or between white space; at most n cuts where n is not -1."""
    if n >= 0:
        return batch([a], _Split(pat, n), physical(dtype))
    return a.str.extract_all(f"[^{_SPACE}]+") if pat is None else a.str.split(pat)


class _Split:
    def __init__(self, pat: str | None, n: int) -> None:
        self.pat, self.n = pat, n

    def __call__(self, a: pl.Series) -> pl.Series:
        parts = [None if one is None else one.split(self.pat, self.n) for one in a.to_list()]
        return pl.Series(parts, dtype=pl.List(pl.String))


@operation
def str_strip(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """Without white space at both ends."""
    return a.str.replace_all(f"^[{_SPACE}]+|[{_SPACE}]+$", "")


@operation
def str_is(dtype: dt.DType, a: pl.Expr, *, what: str) -> pl.Expr:
    """Python's `str.isalpha` and the like."""
    return batch([a], _Is(what), pl.Boolean)


class _Is:
    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, a: pl.Series) -> pl.Series:
        # Only Python has Python's Unicode tables; ASCII, which most text is, goes by pattern.
        if (pattern := _ASCII.get(self.what)) and not a.str.contains(r"[^\x00-\x7F]").any():
            return a.str.contains(f"(?s){pattern[:-1]}\\z")
        test = getattr(str, self.what)
        return pl.Series([None if one is None else test(one) for one in a.to_list()], dtype=pl.Boolean)


@operation
def str_lower(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """In lower case."""
    return a.str.to_lowercase()


@operation
def str_upper(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """In upper case."""
    return a.str.to_uppercase()


@operation
def str_startswith(dtype: dt.DType, a: pl.Expr, *, pat: str) -> pl.Expr:
    """Whether it begins so."""
    return a.str.starts_with(pat)


@operation
def str_endswith(dtype: dt.DType, a: pl.Expr, *, pat: str) -> pl.Expr:
    """Whether it ends so."""
    return a.str.ends_with(pat)


@operation
def str_count(dtype: dt.DType, a: pl.Expr, *, pat: str) -> pl.Expr:
    """How often a pattern occurs, without overlap."""
    return a.str.count_matches(pat).cast(pl.Int64)


@operation
def str_find(dtype: dt.DType, a: pl.Expr, *, sub: str) -> pl.Expr:
    """The character at which a text begins within another, -1 where it does not occur."""
    before = a.str.splitn(sub, 2).struct.field("field_0").str.len_chars().cast(pl.Int64) if sub else pl.lit(0, pl.Int64)
    return pl.when(a.str.contains(sub, literal=True)).then(before).when(a.is_not_null()).then(pl.lit(-1, pl.Int64))


@operation
def str_replace(dtype: dt.DType, a: pl.Expr, *, pat: str, repl: str, regex: bool) -> pl.Expr:
    """Each occurrence of a pattern or text replaced; `$1` in the replacement is a pattern's group."""
    return a.str.replace_all(pat, repl, literal=not regex)


@operation
def str_match(dtype: dt.DType, a: pl.Expr, *, pat: str) -> pl.Expr:
    """Whether a pattern matches from the beginning, as `re.match`."""
    return a.str.contains(rf"\A(?:{pat})")


@operation
def str_contains(dtype: dt.DType, a: pl.Expr, *, pat: str, regex: bool) -> pl.Expr:
    """Whether a pattern or text occurs."""
    return a.str.contains(pat, literal=not regex)


@operation
def str_findall(dtype: dt.DType, a: pl.Expr, *, pat: str) -> pl.Expr:
    """All that a pattern matches, whole, without overlap."""
    return a.str.extract_all(pat)


@operation
def str_to_integer(dtype: dt.DType, a: pl.Expr, *, base: int) -> pl.Expr:
    """The number that a text's digits are."""
    return a.str.to_integer(base=base, dtype=pl.Int64)


@operation
def per_unique(dtype: dt.DType, a: pl.Expr, *, function: Any) -> pl.Expr:
    """A function of a text, called once for each text that occurs."""
    return batch([a], _PerUnique(function, physical(dtype)), physical(dtype))


class _PerUnique:
    def __init__(self, function: Any, returns: Any) -> None:
        self.function, self.returns = function, returns

    def __call__(self, a: pl.Series) -> pl.Series:
        known: dict[Any, Any] = {None: None}
        values = a.to_list()
        for one in values:
            if one not in known:
                known[one] = self.function(one)
        return pl.Series([known[one] for one in values], dtype=self.returns)

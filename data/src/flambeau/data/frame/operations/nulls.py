"""Missing values in operations."""

from __future__ import annotations

from flambeau.data.frame._engine import pl


def strict(result: pl.Expr, *operands: pl.Expr) -> pl.Expr:
    """Missing where any operand is.

    Polars' logical operators answer `True | None` with True, as SQL does; columns propagate missing values instead.
    """
    known = operands[0].is_not_null()
    for one in operands[1:]:
        known &= one.is_not_null()
    return pl.when(known).then(result)

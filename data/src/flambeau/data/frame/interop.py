"""Into frames from Python, Arrow, pandas and Polars, under upstream's module path."""

from __future__ import annotations

from flambeau.data.frame.construction import from_arrow, from_pandas, from_polars, from_pysequence

from_pylist = from_pysequence

__all__ = ["from_arrow", "from_pandas", "from_polars", "from_pylist", "from_pysequence"]

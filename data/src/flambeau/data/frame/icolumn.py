"""Columns, under upstream's module path."""

from __future__ import annotations

from flambeau.data.frame.column import Column
from flambeau.data.frame.construction import column, concat, if_else

__all__ = ["Column", "column", "concat", "if_else"]

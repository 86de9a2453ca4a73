"""Columns of numbers, under upstream's module path."""

from __future__ import annotations

from flambeau.data.frame.numerical_column import NumericalColumn

__all__ = ["NumericalColumn"]

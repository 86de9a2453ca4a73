"""Columns of text, under upstream's module path."""

from __future__ import annotations

from flambeau.data.frame.string_column import StringColumn, StringMethods

__all__ = ["StringColumn", "StringMethods"]

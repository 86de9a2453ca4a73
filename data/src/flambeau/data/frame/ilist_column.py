"""Columns of lists, under upstream's module path."""

from __future__ import annotations

from flambeau.data.frame.list_column import ListColumn, ListMethods

__all__ = ["ListColumn", "ListMethods"]

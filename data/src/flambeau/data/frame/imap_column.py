"""Columns of maps, under upstream's module path."""

from __future__ import annotations

from flambeau.data.frame.map_column import MapColumn, MapMethods

__all__ = ["MapColumn", "MapMethods"]

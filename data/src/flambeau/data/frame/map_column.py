"""Columns of maps."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame.column import Column


class MapColumn(Column):
    """A column of maps; what can be done with it is in `.maps`."""

    @cached_property
    def maps(self) -> MapMethods:
        """What can be done with maps."""
        return MapMethods(self)


class MapMethods:
    """Functions of maps, row by row; missing maps stay missing."""

    def __init__(self, parent: MapColumn) -> None:
        self._parent = parent
        assert isinstance(parent.dtype, dt.Map)  # what makes a column this one
        self._dtype = parent.dtype

    def keys(self) -> Any:
        """The keys of each map as a list, in order."""
        return self._parent._apply("map_keys", dt.List(self._dtype.key_dtype, self._dtype.nullable))

    def values(self) -> Any:
        """The values of each map as a list, in order."""
        return self._parent._apply("map_values", dt.List(self._dtype.item_dtype, self._dtype.nullable))

    def get(self, i: Any, fill_value: Any = None) -> Any:
        """The value of a key, and `fill_value` for maps that do not have it."""
        item = self._dtype.item_dtype
        nullable = self._dtype.nullable or item.nullable or fill_value is None
        return self._parent._apply("map_get", item.with_null(nullable), key=i, fill_value=fill_value, of=self._dtype)

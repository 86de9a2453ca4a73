"""Out of columns: to Python, NumPy, Arrow, pandas, Polars, tensors, DuckDB, and to a cluster."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._plan import Table
from flambeau.data.frame.batches import values_of
from flambeau.data.frame.column_base import ColumnBase
from flambeau.data.frame.errors import FrameTypeError, missing
from flambeau.data.frame.export import arrow_array


class Interchange(ColumnBase):
    """What columns and frames share about leaving."""

    def to_python(self) -> list[Any]:
        """The same as `to_pylist`."""
        return self.to_pylist()

    def to_polars(self) -> pl.Series:
        """The series of Polars that holds the column, without a copy. Maps are lists of records there."""
        return self._series()

    def to_arrow(self) -> Any:
        """An Arrow array that shares the column's memory; of large strings and large lists."""
        return arrow_array(self._series(), self.dtype)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """The column for any library that takes Arrow arrays; none is copied."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """A NumPy array.

        Returns:
            (rows,). Numbers that cannot be missing share the column's memory, and may not be written to. Nullable
            numbers come as a masked array of the same type, not as floats. Booleans are copied; anything else is an
            array of objects.
        """
        series = self._series()
        if dt.is_boolean_or_numerical(self.dtype):
            values = values_of(series)
            return np.ma.MaskedArray(values, series.is_null().to_numpy()) if self.dtype.nullable else values
        made = np.empty(len(series), object)
        for place, value in enumerate(self.to_pylist()):
            made[place] = value
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.to_numpy()
        if isinstance(values, np.ma.MaskedArray) and values.mask.any():
            raise FrameTypeError("a column with missing values is no plain array; fill_null first, or use to_numpy().")
        return np.array(values, dtype=dtype, copy=bool(copy) or None)

    def to_pandas(self) -> Any:
        """A pandas series (a frame for frames), over Arrow memory: whole numbers stay whole where some are missing.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas = pandas_module()
        return pandas.Series(self.to_arrow(), dtype=pandas.ArrowDtype(self.to_arrow().type))

    def to_tensor(self, conversion: Any = None) -> Any:
        """Tensors.

        Args:
            conversion: a function from the column to tensors, such as those of `frame.pytorch`; for frames also a
                dictionary of them by column. By default see `pytorch.DefaultTensorConversion`.

        Returns:
            Numbers as a tensor that shares the column's memory (clone it before changing it in place);
            `WithPresence` where the type is nullable, `PackedList` and `PackedMap` for lists and maps, named tuples
            for records, a list of str for text.
        """
        from flambeau.data.frame.pytorch.tensors import DefaultTensorConversion

        return (conversion or DefaultTensorConversion())(self)

    to_torch = to_tensor

    def collect(self) -> Any:
        """The same rows, computed and in memory, with nothing left of the plan."""
        fields = self._columns()
        dtype = dt.Struct([dt.Field(name, one.dtype) for name, one in fields.items()])
        return self._over(Table(self._values(), dtype))

    def to_duckdb(self, connection: Any, name: str) -> Any:
        """Make the column or frame known to a DuckDB connection under a name, through an Arrow stream.

        Returns:
            The connection's relation; columns of memory are not copied.
        """
        table = self.to_arrow()
        if not isinstance(table, pa.Table):
            table = pa.table({name: table})
        connection.register(name, table)
        return connection.table(name)

    def to_ray(self, ray: Any = None, *, blocks: int | None = None) -> Any:
        """A Ray dataset of these rows: what the plan says is done on the cluster, a block of rows at a time.

        Args:
            ray: the `ray` module; imported where it is not given.
            blocks: into how many parts rows that are in memory are cut; as many as the cluster has cores by default.

        Raises:
            ImportError: Ray is not installed.
        """
        # Loaded when a cluster is used: most programs use none.
        from flambeau.data.frame.distributed import to_dataset

        return to_dataset(self._rows, self._columns(), ray, blocks)

    def scale(self, ray: Any = None, *, blocks: int | None = None) -> Any:
        """The same column or frame, computed on a cluster from here on: a program goes on unchanged.

        Args:
            ray: the `ray` module (imported where it is not given), or a Ray dataset that takes the place of the rows
                at the beginning of the plan.
            blocks: see `to_ray`.

        Raises:
            ImportError: Ray is not installed.
        """
        from flambeau.data.frame.distributed import scaled

        return self._on_rows(scaled(self._rows, self._columns(), ray, blocks))


def pandas_module() -> Any:
    """The pandas package.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError as error:
        raise missing("pandas", "pandas") from error

"""Data frames of flambeau.data.frame out of rows and of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import DFIterDataPipe, IterDataPipe, functional_datapipe


class _FrameOf:
    """Makes one frame of a list of rows."""

    def __init__(
        self, dtype: Any, dtype_generator: Callable[[], Any] | None, columns: list[str] | None, device: str
    ) -> None:
        self.dtype = dtype
        self.dtype_generator = dtype_generator
        self.columns = columns
        self.device = device

    def __call__(self, rows: Any) -> Any:
        from flambeau.data.frame.construction import dataframe

        dtype = self.dtype_generator() if self.dtype_generator is not None else self.dtype
        return dataframe(list(rows), dtype=dtype, columns=self.columns, device=self.device)


@functional_datapipe("dataframe")
class DataFrameMakerIterDataPipe(IterDataPipe[Any]):
    """Data frames out of rows (functional name: `dataframe`). Calling it builds a pipe of batches and one of frames.

    Args:
        source_dp: source of rows, tuples or dicts as `flambeau.data.frame.dataframe` takes them.
        dataframe_size: rows of a frame; the last one may have fewer.
        dtype: `flambeau.data.frame.dtypes.Struct` of the columns; found from the data when None.
        dtype_generator: makes `dtype` in the process that needs it, where it cannot be pickled.
        columns: names of the columns.
        device: of the frames.
    """

    # Upstream: calling the class gives the last pipe of what it built.
    def __new__(
        cls,
        source_dp: IterDataPipe[Any],
        dataframe_size: int = 1000,
        dtype: Any = None,
        dtype_generator: Callable[[], Any] | None = None,
        columns: list[str] | None = None,
        device: str = "",
    ) -> Any:
        """Build the pipes that the class stands for."""
        return source_dp.batch(dataframe_size).map(_FrameOf(dtype, dtype_generator, columns, device))

    def __init__(
        self,
        source_dp: IterDataPipe[Any],
        dataframe_size: int = 1000,
        dtype: Any = None,
        dtype_generator: Callable[[], Any] | None = None,
        columns: list[str] | None = None,
        device: str = "",
    ) -> None:
        """Never called: `__new__` gives another class's object."""


@functional_datapipe("load_parquet_as_df")
class ParquetDFLoaderIterDataPipe(Expanding[Any], DFIterDataPipe[Any]):
    """Data frames out of Parquet files, one for each row group (functional name: `load_parquet_as_df`).

    Args:
        source_dp: source of paths.
        dtype: type of the frames; the file's when None.
        columns: columns to read; all when None.
        device: of the frames.
        use_threads: decode columns in threads.

    Raises:
        ModuleNotFoundError: while iterating, when pyarrow is not installed.
    """

    def __init__(
        self,
        source_dp: IterDataPipe[str],
        dtype: Any = None,
        columns: list[str] | None = None,
        device: str = "",
        use_threads: bool = False,
    ) -> None:
        self.source_datapipe: IterDataPipe[str] = source_dp
        self.dtype = dtype
        self.columns = columns
        self.device = device
        self.use_threads = use_threads

    def _expand(self, item: str) -> Iterator[Any]:
        try:
            from pyarrow import parquet
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("Parquet is read with pyarrow: pip install 'flambeau-data[frame]'") from error
        from flambeau.data.frame.construction import from_arrow

        with parquet.ParquetFile(item) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, columns=self.columns, use_threads=self.use_threads)
                yield from_arrow(table, self.dtype, device=self.device)

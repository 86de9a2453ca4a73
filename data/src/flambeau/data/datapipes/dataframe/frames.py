"""The few things pipes do with a data frame, for pandas and polars, and for frames of flambeau.data.frame."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any


def _library(value: Any) -> str:
    module = type(value).__module__
    return "flambeau" if module.startswith("flambeau.data.frame") else module.partition(".")[0]


def is_frame(value: Any) -> bool:
    """Whether a value is a data frame."""
    return _library(value) in ("pandas", "polars", "flambeau") and type(value).__name__ == "DataFrame"


def is_column(value: Any) -> bool:
    """Whether a value is a column of a data frame."""
    return _library(value) in ("pandas", "polars", "flambeau") and not is_frame(value) and hasattr(value, "__len__")


def create_frame(rows: Sequence[Any], columns: Sequence[str] | None = None) -> Any:
    """A polars frame of rows.

    Raises:
        ModuleNotFoundError: polars is not installed.
    """
    try:
        import polars
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("frames are made with polars: pip install 'flambeau-data[frame]'") from error
    return polars.DataFrame([list(row) for row in rows], schema=list(columns) if columns else None, orient="row")


def row_tuples(frame: Any) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples."""
    if hasattr(frame, "iter_rows"):
        return iter(frame.iter_rows())
    if hasattr(frame, "itertuples"):
        return iter(frame.itertuples(index=False, name=None))
    return map(tuple, frame)


def take_rows(frame: Any, numbers: Sequence[int]) -> Any:
    """A frame of some of the rows, in the given order."""
    if hasattr(frame, "iloc"):
        return frame.iloc[list(numbers)]
    return frame[list(numbers)]


def select_rows(frame: Any, mask: Any) -> Any:
    """A frame of the rows where a column of bools is true."""
    if hasattr(frame, "iloc"):
        return frame[mask]
    if _library(frame) == "polars":
        return frame.filter(mask)
    return take_rows(frame, [number for number, kept in enumerate(mask) if kept])


def concat_frames(frames: Sequence[Any]) -> Any:
    """The rows of several frames with the same columns as one frame."""
    if len(frames) == 1:
        return frames[0]
    kind = _library(frames[0])
    if kind == "polars":
        import polars

        return polars.concat(frames)
    if kind == "pandas":
        import pandas

        return pandas.concat(frames, ignore_index=True)
    if hasattr(frames[0], "append"):
        return functools.reduce(lambda whole, part: whole.append(part), frames)
    return functools.reduce(operator.add, frames)


def with_column(frame: Any, name: str, values: Any) -> Any:
    """A copy of a frame with a column added or replaced."""
    if _library(frame) == "polars":
        import polars

        column = values.alias(name) if isinstance(values, polars.Series) else polars.lit(values).alias(name)
        return frame.with_columns(column)
    copied = frame.copy()
    copied[name] = values
    return copied

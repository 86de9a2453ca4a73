"""Pipelines of frames that are written like operations on one frame.

`pipe["c"] = pipe["a"] + pipe["b"]` on a traced pipe reads nothing: the operation is recorded, and applied to every
frame when the pipe is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.data.datapipes.dataframe.frames import with_column
from flambeau.data.datapipes.datapipe import DataChunk, DFIterDataPipe, IterDataPipe, functional_datapipe


class Expression:
    """A value that is computed from each frame: a column, a result of columns, an attribute or a call of one.

    Args:
        function: gets the values of the arguments.
        *arguments: expressions, or values.
        **keywords: of a call.
    """

    def __init__(self, function: Callable[..., Any] | None, *arguments: Any, **keywords: Any) -> None:
        self._function = function
        self._arguments = arguments
        self._keywords = keywords

    def evaluate(self, frame: Any) -> Any:
        """The value for one frame."""
        if self._function is None:
            return frame
        arguments = [_value(argument, frame) for argument in self._arguments]
        return self._function(*arguments, **{name: _value(value, frame) for name, value in self._keywords.items()})

    def __getitem__(self, key: Any) -> Expression:
        return Expression(operator.getitem, self, key)

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        return Expression(getattr, self, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Expression:
        """A call of the value."""
        return Expression(_called, self, *arguments, **keywords)


def _called(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return function(*arguments, **keywords)


def _value(argument: Any, frame: Any) -> Any:
    return argument.evaluate(frame) if isinstance(argument, Expression) else argument


def _forward(function: Callable[..., Any]) -> Callable[[Expression, Any], Expression]:
    return lambda self, other: Expression(function, self, other)


def _backward(function: Callable[..., Any]) -> Callable[[Expression, Any], Expression]:
    return lambda self, other: Expression(function, other, self)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Expression, f"__{_name}__", _forward(getattr(operator, _name)))
    setattr(Expression, f"__r{_name}__", _backward(getattr(operator, _name)))
for _name in ("and_", "or_", "lt", "le", "gt", "ge"):
    setattr(Expression, f"__{_name.strip('_')}__", _forward(getattr(operator, _name)))


@functional_datapipe("trace_as_dataframe")
class DataFrameTracer(DFIterDataPipe[Any]):
    """A pipe of frames that can be used like one frame (functional name: `trace_as_dataframe`).

    `pipe["a"]` is an `Expression`, `pipe["a"] = expression` adds a column to every frame that follows, and `batch`,
    `shuffle` and `filter` work on rows.

    Args:
        source_datapipe: source of frames.
        schema_df: a frame with the columns, empty or not; lets unknown columns fail at once.
    """

    state_fields = ()

    def __init__(self, source_datapipe: IterDataPipe[Any], schema_df: Any = None) -> None:
        self.source_datapipe = source_datapipe
        self.schema_df = schema_df
        self.operations: list[tuple[str, Any]] = []

    def __getitem__(self, key: Any) -> Expression:
        if self.schema_df is not None and key not in self.columns:
            raise KeyError(f"no column {key!r}; there are {self.columns}.")
        return Expression(operator.getitem, Expression(None), key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.operations.append((key, value))

    @property
    def columns(self) -> list[str]:
        """Names of the columns, those that were added included.

        Raises:
            RuntimeError: no schema was given.
        """
        if self.schema_df is None:
            raise RuntimeError("the columns are not known before a frame is read; give trace_as_dataframe a schema_df.")
        known = list(self.schema_df.columns)
        return known + [key for key, _ in dict(self.operations).items() if key not in known]

    def __iter__(self) -> Iterator[Any]:
        for frame in self.source_datapipe:
            for key, value in self.operations:
                frame = with_column(frame, key, _value(value, frame))
            yield frame

    def as_datapipe(self) -> _Applied:
        """The pipe of frames without the operators of one."""
        return _Applied(self)

    def _rows(self) -> Any:
        rows: Any = self.as_datapipe()._dataframes_per_row()
        return rows.as_datapipe()

    def raw_iterator(self) -> Iterator[Any]:
        """The frames."""
        yield from self.as_datapipe()

    def batch(
        self, batch_size: int = 10, drop_last: bool = False, wrapper_class: Callable[..., Any] = DataChunk
    ) -> Any:
        """Batches of one frame each, of `batch_size` rows."""
        frames = self._rows()._dataframes_concat(batch_size).as_datapipe()
        if drop_last:
            frames = frames.filter(_HasRows(batch_size))
        return frames.batch(1, wrapper_class=wrapper_class)

    def groupby(self, group_key_fn: Callable[[Any], Any], **options: Any) -> Any:
        """Groups of single-row frames by a key; options as for `groupby` of any pipe."""
        return self._rows().groupby(group_key_fn, **options)

    def shuffle(self, *args: Any, **kwargs: Any) -> Any:
        """The rows of all frames in random order."""
        return self.as_datapipe()._dataframes_shuffle(*args, **kwargs)

    def filter(self, filter_fn: Callable[[Any], bool]) -> Any:  # type: ignore[override]
        """The rows for which a function says True."""
        return self.as_datapipe()._dataframes_filter(filter_fn)


class _HasRows:
    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, frame: Any) -> bool:
        return len(frame) == self.count


class _Applied(IterDataPipe[Any]):
    """Frames of a traced pipe, for pipes that are not traced themselves."""

    state_fields = ()

    def __init__(self, source_datapipe: DataFrameTracer) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        yield from self.source_datapipe

    def __getitem__(self, key: Any) -> Expression:
        return self.source_datapipe[key]

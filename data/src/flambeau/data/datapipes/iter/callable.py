"""Pipes that call a function on samples."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from torch.utils.data import default_collate

from flambeau.data.datapipes._columns import (
    argument_getter,
    check_function,
    check_output,
    check_positional,
    column_applier,
)
from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[T_co]):
    """Applies a function to every sample, or to columns of it (functional name: `map`).

    Args:
        datapipe: source.
        fn: the function.
        input_col: None: `fn(sample)`; a key or index: `fn(sample[input_col])`; a list of them: one argument each.
            Fields of a named tuple also by name.
        output_col: None: the result takes the place of the sample or of the first input column, and further input
            columns are dropped; -1: it is appended; a key or index: it goes there. Samples keep their type; a list or
            dict is copied, not changed.

    Raises:
        ValueError: `output_col` without `input_col`, or `fn` cannot be called with so many arguments.

    Example:
        >>> from flambeau.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([(1, 2), (3, 4)]).map(lambda a, b: a + b, input_col=[0, 1], output_col=-1))
        [(1, 2, 3), (3, 4, 7)]
    """

    state_fields = ()

    def __init__(
        self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        check_function(fn)
        self.datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        self.output_col = check_output(input_col, output_col)
        check_positional(fn, input_col)

    def __iter__(self) -> Iterator[T_co]:
        return map(column_applier(self.fn, self.input_col, self.output_col), self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe[T_co]):
    """Makes one sample of tensors of every batch (functional name: `collate`).

    Args:
        datapipe: source of batches: lists of samples, or data frames.
        conversion: a function of the batch; or a dict from column to function for batches of frames or of dicts, whose
            other columns are collated as by default. torch's `default_collate` when left out.
        collate_fn: the same as `conversion`, under the name `DataLoader` gives it.

    Raises:
        ValueError: both were given.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] | dict[Any, Callable[..., Any]] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        if collate_fn is not None and conversion is not default_collate:
            raise ValueError("collate takes `conversion` or `collate_fn`, which mean the same; give one of them.")
        chosen = collate_fn or (conversion if conversion is not None else default_collate)
        super().__init__(datapipe, _ByColumn(chosen) if isinstance(chosen, Mapping) else chosen)


class _ByColumn:
    """Collates a batch of frames or dicts column by column into a named tuple."""

    def __init__(self, conversion: Mapping[Any, Callable[..., Any]]) -> None:
        wrong = [name for name, function in conversion.items() if not callable(function)]
        if wrong:
            raise ValueError(f"collate needs a function for each column; {wrong} have none.")
        self.conversion = dict(conversion)

    def __call__(self, batch: Any) -> Any:
        columns = _columns_of(batch)
        unknown = [name for name in self.conversion if name not in columns]
        if unknown:
            raise ValueError(f"collate: no columns {unknown}; the batch has {list(columns)}.")
        values = [self.conversion.get(name, _default)(column) for name, column in columns.items()]
        return namedtuple("CollateResult", [str(name) for name in columns], rename=True)(*values)


def _columns_of(batch: Any) -> dict[Any, Any]:
    if isinstance(batch, Sequence) and len(batch) == 1 and hasattr(batch[0], "columns"):
        batch = batch[0]
    if hasattr(batch, "columns"):
        return {name: batch[name] for name in batch.columns}
    if isinstance(batch, Mapping):
        return dict(batch)
    return {name: [sample[name] for sample in batch] for name in batch[0]}


def _default(column: Any) -> Any:
    if hasattr(column, "to_tensor"):
        return column.to_tensor()
    return default_collate(list(column))


@functional_datapipe("flatmap")
class FlatMapperIterDataPipe(Expanding[T_co]):
    """Applies a function that gives several samples, and yields them one by one (functional name: `flatmap`).

    Args:
        datapipe: source.
        fn: from a sample to an iterable of samples; the sample itself is the iterable when None. A string counts as one
            sample only if `fn` puts it into a list.
        input_col: as for `map`.
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], fn: Callable[..., Any] | None = None, input_col: Any = None
    ) -> None:
        self.datapipe = datapipe
        self.source_datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        if fn is not None:
            check_function(fn)
            check_positional(fn, input_col)

    def _expand(self, item: Any) -> Iterable[T_co]:
        arguments = argument_getter(self.input_col)(item)
        if self.fn is None:
            return arguments
        return self.fn(*arguments) if isinstance(self.input_col, (list, tuple)) else self.fn(arguments)

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} has no length: how many samples the function gives is not known.")


@functional_datapipe("map_batches")
class BatchMapperIterDataPipe(Expanding[T_co]):
    """Applies a function to batches and yields its results one by one (functional name: `map_batches`).

    Args:
        datapipe: source of single samples.
        fn: from a list of samples (of their columns, with `input_col`) to an iterable of results, of any length.
        batch_size: samples the function gets at once; the last batch may be smaller.
        input_col: a column, whose values `fn` gets as a list; or a list of columns, each as a list of its own.
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], batch_size: int, input_col: Any = None
    ) -> None:
        check_function(fn)
        check_positional(fn, input_col)
        self.datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        self.batch_size = batch_size
        self.source_datapipe = datapipe.batch(batch_size)

    def _expand(self, item: Any) -> Iterable[T_co]:
        batch = list(item)
        if self.input_col is None:
            return self.fn(batch)
        columns = [argument_getter(self.input_col)(sample) for sample in batch]
        if isinstance(self.input_col, (list, tuple)):
            return self.fn(*(list(values) for values in zip(*columns, strict=True)))
        return self.fn(columns)

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} has no length: how many results the function gives is not known.")

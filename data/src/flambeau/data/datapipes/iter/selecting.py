"""Pipes that leave samples, or parts of samples, out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

from flambeau.data.datapipes._columns import argument_getter, check_function, check_positional
from flambeau.data.datapipes.dataframe.frames import is_column, is_frame, select_rows
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[T_co]):
    """Keeps the samples for which a function says True (functional name: `filter`).

    Args:
        datapipe: source.
        filter_fn: gives a bool; or, for a sample that is a data frame, a column of bools, which keeps those rows.
        input_col: the columns the function gets, as for `map`; the whole sample is kept or left out.

    Raises:
        ValueError: while iterating, for a result that is neither.
    """

    state_fields = ()

    def __init__(self, datapipe: IterDataPipe[T_co], filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        check_function(filter_fn)
        check_positional(filter_fn, input_col)
        self.datapipe = datapipe
        self.filter_fn = filter_fn
        self.input_col = input_col

    def __iter__(self) -> Iterator[T_co]:
        get, several = argument_getter(self.input_col), isinstance(self.input_col, (list, tuple))
        for sample in self.datapipe:
            found = self.filter_fn(*get(sample)) if several else self.filter_fn(get(sample))
            if found is True:
                yield sample
            elif found is not False:
                kept, sample = self._kept(sample, found)
                if kept:
                    yield sample

    def _kept(self, sample: Any, found: Any) -> tuple[bool, Any]:
        if is_frame(sample) and is_column(found):
            rows = select_rows(sample, found)
            return len(rows) > 0, rows
        if type(found).__module__ == "numpy" and type(found).__name__ in ("bool", "bool_"):
            return bool(found), sample
        raise ValueError(f"filter: the function has to give a bool, it gave {found!r} ({type(found).__name__}).")


@functional_datapipe("header")
class HeaderIterDataPipe(IterDataPipe[T_co]):
    """Yields the first samples only (functional name: `header`).

    Args:
        source_datapipe: source.
        limit: how many; None for all.
    """

    state_fields = ("_count",)

    def __init__(self, source_datapipe: IterDataPipe[T_co], limit: int | None = 10) -> None:
        self.source_datapipe = source_datapipe
        self.limit = limit

    def reset(self) -> None:
        """Go back to the beginning."""
        self._count = 0

    def __iter__(self) -> Iterator[T_co]:
        if self.limit is not None and self._count >= self.limit:
            return
        for sample in self.source_datapipe:
            self._count += 1
            yield sample
            if self.limit is not None and self._count >= self.limit:
                return

    def __len__(self) -> int:
        length = len(self.source_datapipe)  # type: ignore[arg-type]
        return length if self.limit is None else min(self.limit, length)


class _PartsOfSamples(IterDataPipe[Any]):
    """Base: one sample out for each one in, of the same kind of container."""

    state_fields = ()
    datapipe: IterDataPipe[Any]

    def _change(self, sample: Any) -> Any:
        raise NotImplementedError(f"{type(self).__qualname__} has to define _change.")

    def __iter__(self) -> Iterator[Any]:
        return map(self._change, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _container(sample: Any, verb: str) -> type:
    for kind in (tuple, list, dict):
        if isinstance(sample, kind):
            return kind
    raise TypeError(f"{verb} works on tuples, lists and dicts; got {type(sample).__name__}.")


@functional_datapipe("drop")
class DropperIterDataPipe(_PartsOfSamples):
    """Leaves columns out of samples (functional name: `drop`).

    Args:
        datapipe: source of tuples, lists or dicts.
        indices: index or key, or a list of them.

    Raises:
        IndexError, KeyError: while iterating, for a column that a sample does not have.
    """

    def __init__(self, datapipe: IterDataPipe[Any], indices: Hashable | list[Hashable]) -> None:
        self.datapipe = datapipe
        self.indices = _listed(indices)

    def _change(self, sample: Any) -> Any:
        kind = _container(sample, "drop")
        if kind is dict:
            absent = [key for key in self.indices if key not in sample]
            if absent:
                raise KeyError(f"drop: no columns {absent}; the sample has {list(sample)}.")
            return {key: value for key, value in sample.items() if key not in self.indices}
        dropped = {range(len(sample))[index] for index in self.indices}
        return kind(value for number, value in enumerate(sample) if number not in dropped)


@functional_datapipe("slice")
class SliceIterDataPipe(_PartsOfSamples):
    """Keeps some columns of samples (functional name: `slice`).

    Args:
        datapipe: source of tuples, lists or dicts.
        index: the first index of a slice (of tuples and lists only), or a list of indices or keys to keep.
        stop: end of the slice, exclusive; None for all that follow.
        step: step of the slice.
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], index: int | list[Hashable], stop: int | None = None, step: int | None = None
    ) -> None:
        if isinstance(index, list) and (stop is not None or step is not None):
            raise ValueError(f"slice takes a list of columns, or index, stop and step; got {index}, {stop} and {step}.")
        self.datapipe = datapipe
        self.index = index
        self.stop = stop
        self.step = step

    def _change(self, sample: Any) -> Any:
        kind = _container(sample, "slice")
        if isinstance(self.index, list):
            absent = [key for key in self.index if not _has(sample, key)]
            if absent:
                raise KeyError(f"slice: no columns {absent} in {sample!r}.")
            if kind is dict:
                return {key: sample[key] for key in self.index}
            return kind(sample[index] for index in self.index)
        if kind is dict:
            raise TypeError("slice: dicts have no order to cut by; give a list of keys.")
        return kind(sample[slice(self.index, self.stop, self.step)])


def _has(sample: Any, key: Any) -> bool:
    return key in sample if isinstance(sample, dict) else -len(sample) <= key < len(sample)


@functional_datapipe("flatten")
class FlattenIterDataPipe(_PartsOfSamples):
    """Puts the values of nested columns into the sample itself, one level deep (functional name: `flatten`).

    Args:
        datapipe: source of tuples, lists or dicts.
        indices: index or key, or a list of them; all columns when None. A column that is no container stays as it is.

    Raises:
        KeyError, IndexError: while iterating, for a column that a sample does not have.
        ValueError: two values would have the same key.
    """

    def __init__(self, datapipe: IterDataPipe[Any], indices: Hashable | list[Hashable] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = None if indices is None else _listed(indices)

    def _change(self, sample: Any) -> Any:
        kind = _container(sample, "flatten")
        if kind is dict:
            return self._flat_dict(sample)
        chosen = None if self.indices is None else {range(len(sample))[index] for index in self.indices}
        values: list[Any] = []
        for number, value in enumerate(sample):
            if (chosen is None or number in chosen) and isinstance(value, (list, tuple)):
                values += value
            else:
                values.append(value)
        return kind(values)

    def _flat_dict(self, sample: dict[Any, Any]) -> dict[Any, Any]:
        chosen = list(sample) if self.indices is None else self.indices
        absent = [key for key in chosen if key not in sample]
        if absent:
            raise KeyError(f"flatten: no columns {absent}; the sample has {list(sample)}.")
        flat: dict[Any, Any] = {}
        for key, value in sample.items():
            for name, item in value.items() if key in chosen and isinstance(value, dict) else [(key, value)]:
                if name in flat:
                    raise ValueError(f"flatten: two values would have the key {name!r}; rename one of them before.")
                flat[name] = item
        return flat

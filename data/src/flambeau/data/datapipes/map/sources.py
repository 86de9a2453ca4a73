"""Where pipes of keys begin: sequences, dicts, and iterable pipes of pairs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes._graph import is_pipe
from flambeau.data.datapipes.datapipe import IterDataPipe, MapDataPipe

T_co = TypeVar("T_co", covariant=True)


class SequenceWrapperMapDataPipe(MapDataPipe[T_co]):
    """Makes a pipe of anything with `[]`.

    Args:
        sequence: the entries: a list, a dict, a data set.
        deepcopy: read from a copy. Where it cannot be copied the original is read, with a warning.

    Example:
        >>> SequenceWrapperMapDataPipe(["a", "b"])[1]
        'b'
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy and not isinstance(sequence, (range, str, bytes)):
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    f"{type(sequence).__name__} cannot be copied: the pipe reads the original. Pass "
                    "deepcopy=False to say "
                    "that this is meant.",
                    stacklevel=2,
                )

    @property
    def _graph_attributes(self) -> tuple[str, ...]:
        return ("sequence",) if is_pipe(self.sequence) else ()  # data is not looked through for pipes

    def __getitem__(self, index: Any) -> T_co:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


class IterToMapConverterMapDataPipe(MapDataPipe[Any]):
    """Reads an iterable pipe of pairs into a dict; `IterDataPipe.to_map_datapipe()` builds it.

    It is read when the first entry, or the length, is asked for. Of pairs with the same key the last one stays, with a
    warning.

    Args:
        datapipe: source, of `(key, value)` where there is no function.
        key_value_fn: from a sample to `(key, value)`.
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], key_value_fn: Callable[[Any], tuple[Any, Any]] | None = None
    ) -> None:
        if not isinstance(datapipe, IterDataPipe):
            raise TypeError(f"expected an IterDataPipe, got {type(datapipe).__name__}.")
        if key_value_fn is not None:
            check_function(key_value_fn)
        self.datapipe = datapipe
        self.key_value_fn = key_value_fn
        self._entries: dict[Any, Any] | None = None

    def _read(self) -> dict[Any, Any]:
        if self._entries is None:
            entries: dict[Any, Any] = {}
            for sample in self.datapipe:
                pair = sample if self.key_value_fn is None else self.key_value_fn(sample)
                try:
                    key, value = pair
                except (TypeError, ValueError) as error:
                    raise TypeError(f"to_map_datapipe needs pairs of key and value, got {pair!r}.") from error
                if key in entries:
                    warnings.warn(f"two samples have the key {key!r}; the last one stays.", stacklevel=3)
                entries[key] = value
            self._entries = entries
        return self._entries

    def __getitem__(self, index: Any) -> Any:
        try:
            return self._read()[index]
        except KeyError:
            raise IndexError(f"no sample has the key {index!r}; there are {len(self._read())} keys.") from None

    def __len__(self) -> int:
        return len(self._read())


IterDataPipe.register_datapipe_as_function("to_map_datapipe", IterToMapConverterMapDataPipe)

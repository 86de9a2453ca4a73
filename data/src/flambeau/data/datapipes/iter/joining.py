"""Pipes that bring samples of two pipes together by a key."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.data.datapipes._columns import check_function, check_positional
from flambeau.data.datapipes.datapipe import IterDataPipe, MapDataPipe, functional_datapipe


@functional_datapipe("zip_with_iter")
class IterKeyZipperIterDataPipe(IterDataPipe[Any]):
    """Pairs every sample with the one of another pipe that has the same key (functional name: `zip_with_iter`).

    The other pipe is read until the key appears; what it gave before waits in a buffer.

    Args:
        source_datapipe: source; its order is the order of the result.
        ref_datapipe: the other pipe.
        key_fn: from a sample of the source to its key.
        ref_key_fn: the same for the other pipe; `key_fn` when None.
        keep_key: yield `(key, merged)`.
        buffer_size: samples of the other pipe that wait at most; beyond it the oldest is dropped, with a warning at the
            first time. None for no limit.
        merge_fn: `merge_fn(sample, other)` makes the result; by default the tuple of both.

    Raises:
        ValueError: while iterating, when two waiting samples of the other pipe have the same key.
        BufferError: while iterating, when the other pipe ends and the key is not among those that wait.
    """

    state_fields = ("_waiting", "_warned")

    def __init__(
        self,
        source_datapipe: IterDataPipe[Any],
        ref_datapipe: IterDataPipe[Any],
        key_fn: Callable[[Any], Any],
        ref_key_fn: Callable[[Any], Any] | None = None,
        keep_key: bool = False,
        buffer_size: int = 10000,
        merge_fn: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        if not isinstance(ref_datapipe, IterDataPipe):
            raise TypeError(f"ref_datapipe has to be an IterDataPipe, got {type(ref_datapipe).__name__}.")
        if buffer_size is not None and buffer_size <= 0:
            raise ValueError(f"buffer_size has to be > 0, or None for no limit; got {buffer_size}.")
        for function in (key_fn, ref_key_fn, merge_fn):
            if function is not None:
                check_function(function)
        if merge_fn is not None:
            check_positional(merge_fn, [0, 1])
        self.source_datapipe = source_datapipe
        self.ref_datapipe = ref_datapipe
        self.key_fn = key_fn
        self.ref_key_fn = key_fn if ref_key_fn is None else ref_key_fn
        self.keep_key = keep_key
        self.buffer_size = buffer_size
        self.merge_fn = merge_fn

    def reset(self) -> None:
        """Go back to the beginning."""
        self._waiting: dict[Any, Any] = {}
        self._warned = False

    def get_state(self) -> dict[str, Any]:
        """The waiting samples as pairs, oldest first."""
        return {"_waiting": [[key, sample] for key, sample in self._waiting.items()], "_warned": self._warned}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over the waiting samples."""
        self._waiting = dict(map(tuple, state["_waiting"]))
        self._warned = state["_warned"]

    def __iter__(self) -> Iterator[Any]:
        others = iter(self.ref_datapipe)
        for sample in self.source_datapipe:
            key = self.key_fn(sample)
            self._read_until(key, others)
            other = self._waiting.pop(key)
            merged = (sample, other) if self.merge_fn is None else self.merge_fn(sample, other)
            yield (key, merged) if self.keep_key else merged

    def _read_until(self, key: Any, others: Iterator[Any]) -> None:
        while key not in self._waiting:
            try:
                other = next(others)
            except StopIteration:
                raise BufferError(
                    f"zip_with_iter: no sample of the other pipe has the key {key!r}; it is missing "
                    "there, or was dropped "
                    f"because more than buffer_size={self.buffer_size} samples waited."
                ) from None
            other_key = self.ref_key_fn(other)
            if other_key in self._waiting:
                raise ValueError(f"zip_with_iter: two samples of the other pipe have the key {other_key!r}.")
            if self.buffer_size is not None and len(self._waiting) >= self.buffer_size:
                self._drop_oldest()
            self._waiting[other_key] = other

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"zip_with_iter: buffer_size={self.buffer_size} samples wait already; the oldest ones are "
                "dropped from now on, "
                f"the first has the key {oldest!r}. Raise buffer_size when they will be needed.",
                stacklevel=2,
            )

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("zip_with_map")
class MapKeyZipperIterDataPipe(IterDataPipe[Any]):
    """Pairs every sample with the entry of a map pipe under its key (functional name: `zip_with_map`).

    Args:
        source_iterdatapipe: source.
        map_datapipe: the entries.
        key_fn: from a sample to the key.
        merge_fn: `merge_fn(sample, entry)` makes the result; by default the tuple of both.
        keep_key: yield `(key, merged)`.

    Raises:
        KeyError: while iterating, when there is no entry; the message names the sample.
    """

    state_fields = ()

    def __init__(
        self,
        source_iterdatapipe: IterDataPipe[Any],
        map_datapipe: MapDataPipe[Any],
        key_fn: Callable[[Any], Any],
        merge_fn: Callable[[Any, Any], Any] | None = None,
        keep_key: bool = False,
    ) -> None:
        if not isinstance(map_datapipe, MapDataPipe):
            raise TypeError(f"map_datapipe has to be a MapDataPipe, got {type(map_datapipe).__name__}.")
        check_function(key_fn)
        if merge_fn is not None:
            check_function(merge_fn)
            check_positional(merge_fn, [0, 1])
        self.source_iterdatapipe = source_iterdatapipe
        self.map_datapipe = map_datapipe
        self.key_fn = key_fn
        self.merge_fn = merge_fn
        self.keep_key = keep_key

    def __iter__(self) -> Iterator[Any]:
        for sample in self.source_iterdatapipe:
            key = self.key_fn(sample)
            try:
                entry = self.map_datapipe[key]
            except (KeyError, IndexError) as error:
                raise KeyError(f"zip_with_map: no entry for the key {key!r} of the sample {sample!r}.") from error
            merged = (sample, entry) if self.merge_fn is None else self.merge_fn(sample, entry)
            yield (key, merged) if self.keep_key else merged

    def __len__(self) -> int:
        return len(self.source_iterdatapipe)  # type: ignore[arg-type]

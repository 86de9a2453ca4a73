"""One live iterator for each pipe: what happens when one begins, and what each step checks.

`IterDataPipe.__init_subclass__` wraps every `__iter__` with `guarded`. A new iterator makes the older one invalid,
calls `reset()`, or, after `load_state_dict()`, goes on where the state says.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.data.datapipes._graph import sources
from flambeau.data.datapipes._state import apply
from flambeau.data.datapipes.utils.streams import discard

_clock = itertools.count(1)


def guarded(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Wrap an `__iter__` so that its pipe has one valid iterator at a time, counts samples and can be resumed."""

    @functools.wraps(function)
    def __iter__(self: Any) -> Iterator[Any]:
        if type(self).__iter__ is not __iter__:
            return function(self)  # through super(): the subclass's own iterator is the one that is guarded
        skip = begin(self)
        return _watch(self, self._live, function, skip)

    __iter__.__wrapped_iter__ = True  # type: ignore[attr-defined]
    return __iter__


def begin(pipe: Any) -> int:
    """Start a new pass: returns how many samples the new iterator has to leave out."""
    if pipe._saved is not None:
        saved, pipe._saved = pipe._saved, None
        apply(pipe, saved)
    pipe._live = object()
    pipe._begun = next(_clock)
    if pipe._resuming:
        pipe._resuming = False
        return int(pipe._skip)
    if pipe._touched:
        # What a state put into sources that nobody has read since belongs to the pass that ends here.
        pipe._touched = False
        for source in sources(pipe):
            source._resuming, source._skip = False, 0
            source._touched = True
    pipe._yielded = pipe._skip = 0
    pipe.reset()
    return 0


def _watch(pipe: Any, token: object, function: Callable[..., Iterator[Any]], skip: int) -> Iterator[Any]:
    if pipe._live is not token:
        raise RuntimeError(_invalid(pipe))
    items = function(pipe)
    try:
        for item in _steps(pipe, items):
            if skip:
                skip -= 1
                discard(item)
                continue
            pipe._skip = 0
            pipe._yielded += 1
            yield item
            if pipe._live is not token:
                raise RuntimeError(_invalid(pipe))
    except Exception as error:  # passed on; only told where it came from
        if not getattr(error, "__notes__", None):
            error.add_note(f"raised while reading {pipe!r}")
        raise


def _steps(pipe: Any, items: Any) -> Iterator[Any]:
    if items is not pipe:
        return iter(items)
    return iter(_Steps(pipe))


class _Steps:
    """Iterator over a pipe whose `__iter__` returns itself and which has a `__next__`."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Any:
        return type(self._pipe).__next__(self._pipe)


def _invalid(pipe: Any) -> str:
    return (
        f"this iterator of {pipe!r} is invalid: another one was made since, and a pipe has one iterator at a time, for "
        "its buffers are shared. Keep reading from the newest one, or `fork` the pipe."
    )

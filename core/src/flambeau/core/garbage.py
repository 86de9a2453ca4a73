"""Pauses of Python's garbage collector where very many objects are made that all stay."""

from __future__ import annotations

import gc

__all__ = ["collection_paused"]


class collection_paused:  # it reads as a verb where it is used
    """No cycles are looked for meanwhile: the collector would go through what was just made, and all of torch, in vain.

    It concerns all threads, so nothing that may wait belongs inside. A collector that is off already stays off.

    Example:
        >>> with collection_paused():
        ...     rows = [[] for _ in range(100_000)]
    """

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._was_on:
            gc.enable()

"""Pauses of Python's garbage collector where very many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collection_paused"]


@contextmanager
def collection_paused() -> Iterator[None]:
    """No cycles are looked for meanwhile: the collector would go through what was just made, and all of torch, in vain.

    It concerns all threads, so nothing that may wait belongs inside. A collector that is off already stays off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

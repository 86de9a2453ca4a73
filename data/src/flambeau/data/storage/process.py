"""What belongs to one process and must be made anew after a fork: the engine, and the threads that ask it."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flambeau.data.storage.engine import Engine
    from flambeau.data.storage.relay import RelayEngine

    AnyEngine = Engine | RelayEngine

MOST_REQUESTS = 16


class _Process:
    """The engine and the threads of this process."""

    def __init__(self, forked: bool) -> None:
        self.forked = forked
        self.lock = threading.Lock()
        self.engine: AnyEngine | None = None
        self.threads: ThreadPoolExecutor | None = None


_process = _Process(forked=False)


def engine() -> AnyEngine:
    """The engine to make requests with, in this process."""
    with _process.lock:
        if _process.engine is None:
            if _process.forked:
                from flambeau.data.storage.relay import RelayEngine

                _process.engine = RelayEngine()
            else:
                from flambeau.data.storage.engine import Engine

                _process.engine = Engine()
        return _process.engine


def threads() -> ThreadPoolExecutor:
    """The threads in which parts of objects are fetched ahead."""
    with _process.lock:
        if _process.threads is None:
            _process.threads = ThreadPoolExecutor(MOST_REQUESTS, thread_name_prefix="flambeau-storage")
        return _process.threads


def _after_fork() -> None:
    global _process
    # Whoever imported obstore may have used it, and then its runtime is of no use here; see `relay`.
    _process = _Process(forked=_process.forked or "obstore" in sys.modules)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

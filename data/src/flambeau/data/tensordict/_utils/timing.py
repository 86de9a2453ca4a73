"""The time that blocks of code take, added up by name."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar


class timeit:
    """Adds up the time that blocks or functions take, by name: a context manager and a decorator.

    Args:
        name: under which the time is counted.
    """

    _times: ClassVar[dict[str, list[float]]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function."""

        @functools.wraps(fn)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with timeit(self.name):
                return fn(*args, **kwargs)

        return timed

    def __enter__(self) -> timeit:
        self._start = time.perf_counter()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self._times.setdefault(self.name, []).append(time.perf_counter() - self._start)

    @staticmethod
    def print(prefix: str | None = None) -> str:
        """Log, and return, a line per name: mean milliseconds and the sum in seconds."""
        import logging

        lines = [
            f"{prefix or ''}{name} took {1e3 * sum(times) / len(times):.6f} msec (total = {sum(times):.6f} sec)"
            for name, times in sorted(timeit._times.items(), key=lambda item: -sum(item[1]))
        ]
        text = "\n".join(lines)
        logging.getLogger("flambeau.data.tensordict").info(text)
        return text

    @staticmethod
    def erase() -> None:
        """Forget all times."""
        timeit._times.clear()

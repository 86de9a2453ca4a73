"""Messages that are made only when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ARG_SIZE_LIMIT", "LazyStr"]

ARG_SIZE_LIMIT = 800000
"""Characters of an argument that a log keeps."""


class LazyStr:
    """A text that is made when it is first asked for, as by a log whose level is on.

    Args:
        fn: makes the text.

    Example:
        >>> import logging
        >>> logging.getLogger(__name__).debug("%s", LazyStr(lambda: "what takes long to find out"))
    """

    def __init__(self, fn: Callable[[], str]) -> None:
        self._fn = fn

    def __str__(self) -> str:
        return self._fn()

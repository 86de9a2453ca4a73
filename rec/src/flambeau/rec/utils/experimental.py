"""Functions and classes that may change yet, and say so when they are first used."""

from __future__ import annotations

import functools
import warnings
from typing import Any, TypeVar, cast

from flambeau.rec.errors import OptionError

__all__ = ["experimental"]

_Made = TypeVar("_Made")


def experimental(obj: _Made, feature: str | None = None, since: str | None = None) -> _Made:
    """Warn once, at the first call, that something may change or go without notice.

    Args:
        obj: a function, or a class, which is changed.
        feature: what to call it; its name where not given.
        since: the version that has it.

    Returns:
        The function wrapped, or the class itself.

    Raises:
        OptionError: it is neither.
    """
    if not callable(obj):
        raise OptionError(f"obj is a {type(obj).__name__}, expected a function or a class.")
    name = feature or getattr(obj, "__name__", type(obj).__name__)
    text = (
        f"{f'[since {since}] ' if since else ''}`{name}` is experimental: "
        "a later version may change it or leave it out."
    )
    told = False

    def tell() -> None:
        nonlocal told
        if not told:
            told = True
            warnings.warn(text, UserWarning, stacklevel=3)

    if isinstance(obj, type):
        made: Any = obj
        begin = made.__init__

        @functools.wraps(begin)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            tell()
            begin(self, *args, **kwargs)

        made.__init__ = init
        return obj

    @functools.wraps(obj)
    def call(*args: Any, **kwargs: Any) -> Any:
        tell()
        return obj(*args, **kwargs)

    return cast(_Made, call)

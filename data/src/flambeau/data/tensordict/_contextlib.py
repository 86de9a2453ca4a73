"""Context managers that decorate functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def context_decorator(ctx: Any, func: F) -> F:
    """A function that runs within a context manager.

    Args:
        ctx: a context manager, entered for every call; or a function without arguments that makes one.
        func: the function.
    """
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx

    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return within  # type: ignore[return-value]

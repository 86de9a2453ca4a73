"""What a method returned, kept as long as its tensordict is locked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def cache(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what a method of a tensordict returns for its arguments, as long as the tensordict is locked."""

    @functools.wraps(fun)
    def cached(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_locked or torch.compiler.is_compiling():
            return fun(self, *args, **kwargs)
        if self._cache is None:
            self._cache = {}
        key = (fun.__name__, args, tuple(sorted(kwargs.items())))
        if key not in self._cache:
            self._cache[key] = fun(self, *args, **kwargs)
        return self._cache[key]

    return cached


def erase_cache(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Drop what `cache` kept whenever a method is called."""

    @functools.wraps(fun)
    def erasing(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._cache = None
        return fun(self, *args, **kwargs)

    return erasing

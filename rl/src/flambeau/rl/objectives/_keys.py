"""Keys of entries before and after a step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def after(key: Any) -> tuple[str, ...]:
    """The key of what an entry is after the step."""
    return ("next", key) if isinstance(key, str) else ("next", *key)


def each_once(*keys: Any) -> list[Any]:
    """Keys, and lists of keys, one after the other and without repetition; None is none."""
    found: dict[Any, None] = {}
    for key in keys:
        if isinstance(key, (str, tuple)):
            found[key] = None
        elif isinstance(key, Iterable):
            found.update(dict.fromkeys(each_once(*key)))
    return list(found)

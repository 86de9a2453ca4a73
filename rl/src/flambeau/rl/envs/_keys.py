"""Nested keys: their depth, their ends, and the groups of those that share a place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NestedKey = str | tuple[str, ...]

RESET = "_reset"


def as_tuple(key: NestedKey) -> tuple[str, ...]:
    """A key as a tuple of its parts."""
    return (key,) if isinstance(key, str) else tuple(key)


def as_key(parts: tuple[str, ...]) -> NestedKey:
    """A key from a tuple of parts: a string where there is one part."""
    return parts[0] if len(parts) == 1 else parts


def with_last(key: NestedKey, last: str) -> NestedKey:
    """A key with another last part."""
    return as_key((*as_tuple(key)[:-1], last))


def by_depth(key: NestedKey) -> tuple[int, str]:
    """What keys are sorted by: depth first, then name."""
    parts = as_tuple(key)
    return len(parts) - 1, ".".join(parts)


def as_list(keys: NestedKey | list[NestedKey] | None) -> list[NestedKey]:
    """One key or several as a list."""
    if keys is None:
        return []
    return [keys] if isinstance(keys, (str, tuple)) else list(keys)


def tree(keys: Iterable[NestedKey]) -> dict[str, Any]:
    """Keys as nested dictionaries, with None at their ends."""
    root: dict[str, Any] = {}
    for key in keys:
        node = root
        *parents, last = as_tuple(key)
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = None
    return root

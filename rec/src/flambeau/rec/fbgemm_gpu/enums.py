"""Enumerations whose members a function tells."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

__all__ = ["create_enums"]


def create_enums(namespace: dict[str, Any], query_op: Callable[[], list[tuple[str, list[tuple[str, int]]]]]) -> None:
    """Define enumerations in a namespace.

    Args:
        namespace: such as `globals()`.
        query_op: gives the names of enumerations, each with its members and their values.
    """
    for name, members in query_op():
        namespace[name] = enum.Enum(name, dict(members))

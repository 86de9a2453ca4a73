"""Command lines for a shell, in which variables can be left for the shell to fill in."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

__all__ = ["join"]


def join(args: Iterable[str]) -> str:
    """Quote words for a POSIX shell and join them; those that are marked as shell text stay as they are.

    A word is marked by an attribute `unquoted` that is true, as `components.dist` marks the address that only the
    scheduler knows.
    """
    return " ".join(str(arg) if getattr(arg, "unquoted", False) else shlex.quote(arg) for arg in args)

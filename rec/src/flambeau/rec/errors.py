"""Errors of arguments, also of the classes that programs written for upstream catch."""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

__all__ = ["OptionError"]


class OptionError(FlambeauError, ValueError, AssertionError):
    """An option that is out of range; an AssertionError as well, which is what upstream raises."""

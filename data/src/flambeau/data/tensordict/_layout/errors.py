"""The error of a value that an entry cannot take."""

from __future__ import annotations

from flambeau.core.errors import FlambeauError


class EntryWriteError(FlambeauError, ValueError, RuntimeError):
    """A value cannot be written into the tensor of an entry.

    Upstream raises ValueError where an entry is set in place, and torch's RuntimeError where several are updated.
    """

"""What writing refuses: into a locked collection, and values that an entry cannot take."""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

LOCKED = (
    "the tensordict is locked: entries cannot be added, removed or replaced, only written in place (set_, update_, "
    "copy_). Unlock it first with `unlock_()`, or work on a `clone()` or `copy()`."
)


class EntryWriteError(FlambeauError, ValueError, RuntimeError):
    """A value cannot be written into the tensor of an entry.

    Upstream raises ValueError where an entry is set in place, and torch's RuntimeError where several are updated.
    """

"""Markers for arguments that were not given, and what `get` does for a missing key."""

from __future__ import annotations

import enum
from typing import Any

from flambeau.data.tensordict._utils_options import Switch


class _NoDefault(enum.IntEnum):
    ZERO = 0


class _BestAttemptInplace:
    """Truthy: write into an existing entry where there is one, else add it."""

    def __bool__(self) -> bool:
        return True


NO_DEFAULT: Any = _NoDefault.ZERO  # Any, for it stands in for arguments of every type
BEST_ATTEMPT_INPLACE = _BestAttemptInplace()

_get_defaults_to_none = Switch("TD_GET_DEFAULTS_TO_NONE", default=True)


def get_defaults_to_none(set_to_none: bool = True) -> bool:
    """Whether `td.get(key)` gives None for a missing key; otherwise it raises KeyError."""
    return _get_defaults_to_none.value


def set_get_defaults_to_none(set_to_none: bool = True) -> None:
    """Choose what `td.get(key)` does for a missing key: give None, or raise KeyError."""
    _get_defaults_to_none.value = bool(set_to_none)

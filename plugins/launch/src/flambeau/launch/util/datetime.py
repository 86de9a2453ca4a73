"""Points in time as clouds count them."""

from __future__ import annotations

import time

__all__ = ["get_past_epoch_time"]


def get_past_epoch_time(days_past: int) -> int:
    """Milliseconds since the epoch of the moment `days_past` days ago."""
    return round((time.time() - days_past * 24 * 60 * 60) * 1000)

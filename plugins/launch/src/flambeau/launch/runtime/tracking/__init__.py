"""Results of programs by keys, for whoever launched them."""

from __future__ import annotations

from flambeau.launch.runtime.tracking.api import FsspecResultTracker, ResultTracker

__all__ = ["FsspecResultTracker", "ResultTracker"]

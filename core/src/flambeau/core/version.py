"""The version of this distribution, and of the interface that plugins are written for."""

from __future__ import annotations

__version__ = "1.0.0"

# (major, minor). A plugin's manifest states the one it was written for.
API_VERSION = (1, 0)

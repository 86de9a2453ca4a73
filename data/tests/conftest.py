"""Settings that all tests of data share."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says more about what else the machine does.
settings.register_profile("data", deadline=None)
settings.load_profile("data")

"""Settings that all tests of rec share."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says more about what else the machine does.
settings.register_profile("rec", deadline=None)
settings.load_profile("rec")

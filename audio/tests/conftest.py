"""Settings that all tests of audio share."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says more about what else the machine does.
settings.register_profile("audio", deadline=None)
settings.load_profile("audio")

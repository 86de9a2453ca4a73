"""Settings that all tests of rl share."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says more about what else the machine does.
settings.register_profile("rl", deadline=None)
settings.load_profile("rl")

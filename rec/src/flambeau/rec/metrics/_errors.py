"""Errors of metrics, also of the classes that programs written for upstream catch."""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

__all__ = ["InputError", "RecMetricException", "SyncError"]


class RecMetricException(FlambeauError):
    """A metric that cannot be computed as it was asked for."""


class InputError(RecMetricException, ValueError, AssertionError, RuntimeError):
    """Predictions, labels, weights or further inputs that are missing, or do not fit together.

    Of all the classes that upstream raises for one or another of these mistakes.
    """


class SyncError(RecMetricException, RuntimeError):
    """A metric that is synchronized, or is not, where the other was expected."""

"""Errors of this package.

::

    FlambeauError
    └── InfluenceError (ValueError, AssertionError)
        ├── BatchError
        ├── CheckpointMismatchError (RuntimeError)
        ├── LossError
        └── StoreError
"""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

__all__ = ["BatchError", "CheckpointMismatchError", "InfluenceError", "LossError", "StoreError"]


class InfluenceError(FlambeauError, ValueError, AssertionError):
    """Arguments that no influence can be computed from; an AssertionError too, which is what captum raises."""


class BatchError(InfluenceError):
    """A batch, or a loader, that does not say which example is which, or has no labels."""


class CheckpointMismatchError(InfluenceError, RuntimeError):
    """A checkpoint that does not fit the model; the message names it and what does not fit."""


class LossError(InfluenceError):
    """A loss function that does not give what a method needs: one number for each example, or for a batch."""


class StoreError(InfluenceError):
    """A folder that does not hold the vectors that were asked for; the message names it."""

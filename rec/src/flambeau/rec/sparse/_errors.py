"""The error of sparse features that do not fit together."""

from __future__ import annotations

from flambeau.data.jagged import JaggedError

__all__ = ["SparseError"]


class SparseError(JaggedError, AssertionError, RuntimeError):
    """Values, lengths, offsets, weights or keys that do not fit together.

    A ValueError; an AssertionError and a RuntimeError as well, which are what programs written for upstream catch.
    """

"""Errors of this package that callers may want to tell from others.

FlambeauError
└── EnvWorkerError (RuntimeError)
"""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

__all__ = ["EnvWorkerError"]


class EnvWorkerError(FlambeauError, RuntimeError):
    """An environment in another process or thread raised, died or does not answer; the message has its traceback."""

"""Errors of this package that callers may want to tell from others.

FlambeauError
├── ChatFormatError (RuntimeError)
├── CollectorWorkerError (RuntimeError)
├── EnvWorkerError (RuntimeError)
├── DatasetFormatError (ValueError)
└── UnsafePickleError (pickle.UnpicklingError)
"""

from __future__ import annotations

import pickle

from flambeau.core.errors import FlambeauError

__all__ = ["ChatFormatError", "CollectorWorkerError", "DatasetFormatError", "EnvWorkerError", "UnsafePickleError"]


class ChatFormatError(FlambeauError, RuntimeError):
    """A text is not in the format of the chat template that it is read by."""


class CollectorWorkerError(FlambeauError, RuntimeError):
    """A process of a collector raised, died or does not answer; the message has its traceback.

    Args:
        message: what happened.
        worker_idx: the number of the process.
    """

    def __init__(self, message: str, worker_idx: int | None = None) -> None:
        super().__init__(message)
        self.worker_idx = worker_idx


class EnvWorkerError(FlambeauError, RuntimeError):
    """An environment in another process or thread raised, died or does not answer; the message has its traceback."""


class DatasetFormatError(FlambeauError, ValueError):
    """A file of a data set is not in the format that its publisher describes."""


class UnsafePickleError(FlambeauError, pickle.UnpicklingError):
    """A pickle that would run code, or build objects other than arrays and plain containers."""

"""What frames raise.

::

    FlambeauError
    └── FrameError
        ├── FrameTypeError (TypeError)
        ├── FrameValueError (ValueError)
        ├── FrameNameError (KeyError)
        ├── ForkedError (RuntimeError)
        └── MissingEngineError (ImportError)

A division of whole numbers by zero raises the built-in ZeroDivisionError; what a user's function raises comes
through unchanged.
"""

from __future__ import annotations

from flambeau.core.errors import FlambeauError


class FrameError(FlambeauError):
    """Root of the errors of frames."""


class FrameTypeError(FrameError, TypeError):
    """An operation that columns of this type do not have, or types that do not fit together."""


class FrameValueError(FrameError, ValueError):
    """A value that a column or an operation refuses: None without nullability, borders out of order, lengths."""


class FrameNameError(FrameError, KeyError):
    """A frame has no column of this name."""


class ForkedError(FrameError, RuntimeError):
    """Frames were to compute in a forked process, where the engine has no threads."""


class MissingEngineError(FrameError, ImportError):
    """A library that frames run on is not installed; the message says which and how to get it."""


def missing(package: str, extra: str) -> MissingEngineError:
    """The error for a library that an extra of flambeau-data brings."""
    return MissingEngineError(
        f"{package} is not installed, which this part of flambeau.data.frame needs. "
        f'Run: pip install "flambeau-data[{extra}]"'
    )

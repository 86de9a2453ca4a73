"""Errors and warnings of this package.

::

    FlambeauError
    ├── CipherError (RuntimeError, ValueError)
    ├── GeneratorError (RuntimeError)
    │   └── UnknownTokenError (ValueError)
    └── UnsupportedCallError (TypeError)

    KeyReuseWarning (UserWarning)
"""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

__all__ = ["CipherError", "GeneratorError", "KeyReuseWarning", "UnknownTokenError", "UnsupportedCallError"]


class CipherError(FlambeauError, RuntimeError, ValueError):
    """A cipher, a mode, or a key that `encrypt` and `decrypt` do not have."""


class GeneratorError(FlambeauError, RuntimeError):
    """A generator that cannot give numbers: its source failed, or giving them would repeat another's."""


class UnknownTokenError(GeneratorError, ValueError):
    """No source of random bytes has this name, or this processor lacks it."""


class UnsupportedCallError(FlambeauError, TypeError):
    """A function of torch that cannot draw from a generator of this package; torch's own would have served instead."""


class KeyReuseWarning(UserWarning):
    """Two messages are encrypted with the same stream, so that their sum is that of the plain texts."""

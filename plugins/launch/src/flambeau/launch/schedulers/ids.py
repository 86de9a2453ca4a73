"""Names for jobs that are unlike any other, and that every scheduler and shell can bear."""

from __future__ import annotations

import re
import secrets

__all__ = [
    "END_CANDIDATES",
    "START_CANDIDATES",
    "get_len_random_id",
    "make_unique",
    "random_id",
    "random_uint64",
    "safe_id",
]

# No vowels, so that no words come out; no 8, which looks like a B.
START_CANDIDATES: str = "bcdfghjklmnpqrstvwxz"
END_CANDIDATES: str = START_CANDIDATES + "012345679"


def make_unique(name: str, string_length: int = 0) -> str:
    """A name with a random ending.

    Args:
        name: what it begins with.
        string_length: characters of the ending; 0 for as many as hold 64 random bits.
    """
    return f"{name}-{get_len_random_id(string_length) if string_length else random_id()}"


def random_uint64() -> int:
    """64 random bits."""
    return secrets.randbits(64)


def random_id() -> str:
    """A random word of at most 14 letters and digits, a letter first."""
    value = random_uint64()
    value, at = divmod(value, len(START_CANDIDATES))
    word = START_CANDIDATES[at]
    while value:
        value, at = divmod(value, len(END_CANDIDATES))
        word += END_CANDIDATES[at]
    return word


def get_len_random_id(string_length: int) -> str:
    """A random word of letters and digits, a letter first.

    Args:
        string_length: its length, > 0.
    """
    rest = "".join(secrets.choice(END_CANDIDATES) for _ in range(string_length - 1))
    return secrets.choice(START_CANDIDATES) + rest


def safe_id(name: str) -> str:
    """A name in which nothing means anything to a shell, a path or an address.

    Letters, digits, `_`, `.` and `-` stay, the last three not at the beginning; everything else becomes `-`.

    Example:
        >>> safe_id("a; rm -rf $HOME")
        'a--rm--rf--HOME'
    """
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name).lstrip("._-") or "app"

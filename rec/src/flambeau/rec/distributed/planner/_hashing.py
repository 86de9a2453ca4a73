"""Numbers by which plans are found again."""

from __future__ import annotations

import hashlib
from typing import Any

__all__ = ["hash_sha256_str", "hash_sha256_to_int"]


def hash_sha256_str(hashable_list: list[Any]) -> str:
    """The SHA-256 of the text of a list, in hexadecimal digits."""
    return hashlib.sha256(str(hashable_list).encode("utf-8")).hexdigest()


def hash_sha256_to_int(hashable_list: list[Any]) -> int:
    """The same as a number of 256 bits."""
    return int(hash_sha256_str(hashable_list), 16)

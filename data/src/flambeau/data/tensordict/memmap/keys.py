"""Keys as file names: percent-encoding of whatever a file system, or a path, would take for something else."""

from __future__ import annotations

import re

# Separators, characters that Windows refuses, control characters, the blank at an end, and the escape itself.
_UNSAFE = re.compile(r'[%/\\:*?"<>|\x00-\x20\x7f]')
_ESCAPED = re.compile(r"((?:%[0-9A-Fa-f]{2})+)")
_EMPTY = "%"


def encode_key(key: str, *, robust: bool = True) -> str:
    """The file name, without suffix, that stands for a key.

    Args:
        key: any string.
        robust: percent-encode; otherwise the key is used as it is, and must be a plain file name.

    Raises:
        ValueError: `robust` is off and the key would leave its folder.

    Example:
        >>> encode_key("c/d"), encode_key("a.b"), encode_key("..")
        ('c%2Fd', 'a.b', '%2E%2E')
    """
    if not robust:
        if key in ("", ".", "..") or "/" in key or "\\" in key or "\0" in key:
            raise ValueError(
                f"key {key!r} cannot be a file name: it is empty or contains a separator. Save with robust_key=True."
            )
        return key
    if key == "":
        return _EMPTY
    if key in (".", ".."):
        return "%2E" * len(key)
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", key)


def decode_key(name: str) -> str:
    """The key that a file name stands for: the inverse of `encode_key`.

    Example:
        >>> decode_key("c%2Fd"), decode_key("%")
        ('c/d', '')
    """
    if name == _EMPTY:
        return ""
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), name)


def candidates(key: str, *, robust: bool = True) -> tuple[str, ...]:
    """The names under which a key may be found, the likeliest first.

    Directories written without robust keys, or before they existed, hold raw names; those that would
    lead out of the directory are never looked at.
    """
    encoded = encode_key(key)
    raw = () if key in ("", ".", "..") or "/" in key or "\\" in key or "\0" in key or key == encoded else (key,)
    return (encoded, *raw) if robust else (*raw, encoded)

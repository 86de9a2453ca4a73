"""JSON for `meta.json`: compact UTF-8 text, and a strict answer to whether a value survives the round trip."""

from __future__ import annotations

import json
import math
from typing import Any

_MOST_INT = 2**63 - 1
_LEAST_INT = -(2**63)


def is_plain(value: Any) -> bool:
    """Whether JSON gives a value back as it was: same types, same content.

    Tuples, keys that are no strings, numbers beyond 64 bits, NaN and infinities, subclasses and lone surrogates
    do not survive.
    """
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is str:
        return value.isascii() or _encodable(value)
    if kind is int:
        return bool(_LEAST_INT <= value <= _MOST_INT)
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(is_plain, value))
    if kind is dict:
        return all(type(key) is str and _encodable(key) and is_plain(item) for key, item in value.items())
    return False


def dumps(value: Any) -> bytes:
    """Compact JSON as UTF-8: byte for byte what a `meta.json` holds."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

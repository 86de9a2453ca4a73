"""Values of a pipe's state as plain data, and back.

Generators of random numbers become lists of numbers; an open stream becomes the recipe that opens it anew. What is
neither, nor to be kept, such as an open file of the user's, raises `Unstorable`: the pipe is then resumed by replay.
"""

from __future__ import annotations

import io
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

from flambeau.data.datapipes.chunk import DataChunk
from flambeau.data.datapipes.utils.streams import StreamWrapper, reopened

_PLAIN = frozenset({int, float, str, bytes, bool, complex, type(None)})


class Unstorable(Exception):
    """A value that cannot be put into a state."""


def freeze(value: Any) -> Any:
    """Plain data for a value; values that hold no stream are kept as they are.

    Raises:
        Unstorable: it is, or holds, a stream without a recipe, or an iterator.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in (list, tuple, DataChunk):
        if set(map(type, value)) <= _PLAIN:
            return value if kind is tuple else kind(value)
        return kind(map(freeze, value))
    if kind is dict:
        return {key: freeze(item) for key, item in value.items()}
    if kind is deque:
        return {"__deque__": [freeze(item) for item in value]}
    if kind is random.Random:
        version, internal, gauss = value.getstate()
        return {"__random__": [version, list(internal), gauss]}
    if isinstance(value, StreamWrapper):
        if value.recipe is None:
            raise Unstorable(repr(value))
        return {"__stream__": freeze(value.recipe)}
    if isinstance(value, (io.IOBase, Iterator)):
        raise Unstorable(repr(value))
    return value


def thaw(value: Any) -> Any:
    """The value that was frozen; streams are opened."""
    kind = type(value)
    if kind in (list, tuple, DataChunk):
        if set(map(type, value)) <= _PLAIN:
            return value if kind is tuple else kind(value)
        return kind(map(thaw, value))
    if kind is not dict:
        return value
    if len(value) == 1:
        if "__deque__" in value:
            return deque(map(thaw, value["__deque__"]))
        if "__random__" in value:
            version, internal, gauss = value["__random__"]
            generator = random.Random()
            generator.setstate((version, tuple(internal), gauss))
            return generator
        if "__stream__" in value:
            return reopened(thaw(value["__stream__"]))
    return {key: thaw(item) for key, item in value.items()}

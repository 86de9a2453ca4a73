"""States sent as what changed since the one before.

A worker describes its state after every batch, and most of a large state (a shuffle buffer, a list of files) stays the
same. An `Encoder` sends the whole once and then patches; a `Decoder` keeps them and puts them together only when it is
asked.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch

_SMALL = 4096  # bytes that are sent whole sooner than compared
_MOST_PATCHES = 64  # kept before they are put together
_PLAIN = (int, float, str, bytes, bool, type(None))


class Encoder:
    """The sending side."""

    def __init__(self) -> None:
        self._raw: bytes | None = None
        self._value: Any = None

    def encode(self, state: Any) -> tuple[str, bytes]:
        """A message: ("same", b""), ("whole", pickle) or ("patch", pickle)."""
        raw = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
        if raw == self._raw:
            return "same", b""
        known, self._raw = self._value if self._raw is not None and len(self._raw) >= _SMALL else None, raw
        if len(raw) < _SMALL:
            return "whole", raw
        self._value = pickle.loads(raw)  # a copy: the state's owner goes on changing its parts
        if known is None:
            return "whole", raw
        patch = pickle.dumps(difference(known, self._value), pickle.HIGHEST_PROTOCOL)
        return ("patch", patch) if 2 * len(patch) < len(raw) else ("whole", raw)


class Decoder:
    """The receiving side."""

    def __init__(self) -> None:
        self._whole = pickle.dumps(None)
        self._patches: list[bytes] = []

    def receive(self, message: tuple[str, bytes]) -> None:
        """Take a message in."""
        kind, content = message
        if kind == "whole":
            self._whole, self._patches = content, []
        elif kind == "patch":
            self._patches.append(content)
            if len(self._patches) > _MOST_PATCHES:
                self._whole, self._patches = pickle.dumps(self.value(), pickle.HIGHEST_PROTOCOL), []

    def value(self) -> Any:
        """The state as of the last message; a copy of its own."""
        value = pickle.loads(self._whole)
        for patch in self._patches:
            value = apply(value, pickle.loads(patch))
        return value


def difference(old: Any, new: Any) -> tuple[Any, ...]:
    """What turns one value of dictionaries, lists and leaves into another: a patch for `apply`."""
    if same(old, new):
        return ("keep",)
    if type(old) is dict and type(new) is dict:
        gone = [key for key in old if key not in new]
        changed = {
            key: difference(old[key], value) if key in old else ("set", value)
            for key, value in new.items()
            if key not in old or not same(old[key], value)
        }
        return "dict", gone, changed
    if type(old) is list and type(new) is list:
        return _list_difference(old, new)
    return "set", new


def apply(value: Any, patch: tuple[Any, ...]) -> Any:
    """Apply a patch; may change `value` in place."""
    kind, *content = patch
    if kind == "keep":
        return value
    if kind == "set":
        return content[0]
    if kind == "dict":
        gone, changed = content
        for key in gone:
            del value[key]
        for key, change in changed.items():
            value[key] = apply(value.get(key), change)
        return value
    if kind == "items":
        for place, change in content[0].items():
            value[place] = apply(value[place], change)
        return value
    start, stop, inserted = content
    value[start:stop] = inserted
    return value


def same(old: Any, new: Any) -> bool:
    """Whether two values are equal in type and content; tensors and arrays included."""
    if type(old) is not type(new):
        return False
    if isinstance(old, _PLAIN):
        return bool(old == new)
    if type(old) is dict:
        return len(old) == len(new) and all(key in new and same(value, new[key]) for key, value in old.items())
    if type(old) in (list, tuple):
        return len(old) == len(new) and all(map(same, old, new))
    if isinstance(old, torch.Tensor):  # its pickle names its storage by a number of the moment
        return old.dtype == new.dtype and old.device == new.device and torch.equal(old, new)
    return pickle.dumps(old) == pickle.dumps(new)


def _list_difference(old: list[Any], new: list[Any]) -> tuple[Any, ...]:
    if len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return "items", {place: difference(a, b) for place, (a, b) in pairs if not same(a, b)}
    shorter = min(len(old), len(new))
    front = 0
    while front < shorter and same(old[front], new[front]):
        front += 1
    back = 0
    while back < shorter - front and same(old[-1 - back], new[-1 - back]):
        back += 1
    return "splice", front, len(old) - back, new[front : len(new) - back]

"""Keys of entries before and after a step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.data.tensordict import TensorDictBase


def after(key: Any) -> tuple[str, ...]:
    """The key of what an entry is after the step."""
    return ("next", key) if isinstance(key, str) else ("next", *key)


def action_of(tensordict: TensorDictBase, key: Any) -> Any:
    """What was done.

    Raises:
        KeyError: it is not there; the message says what is.
    """
    found = tensordict.get(key, None)
    if found is None:
        present = sorted(map(str, tensordict.keys(include_nested=True, leaves_only=True)))
        raise KeyError(f"The action {key!r} is missing, which set_keys(action=...) renames. There are {present}.")
    return found


def each_once(*keys: Any) -> list[Any]:
    """Keys, and lists of keys, one after the other and without repetition; None is none."""
    found: dict[Any, None] = {}
    for key in keys:
        if isinstance(key, (str, tuple)):
            found[key] = None
        elif isinstance(key, Iterable):
            found.update(dict.fromkeys(each_once(*key)))
    return list(found)

"""Nested keys: tuples of strings, flattened, and the views that `keys()` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._tensorcollection import TensorCollection


def _unravel_key_to_tuple(key: Any) -> tuple[str, ...]:
    """The flat tuple of a nested key; empty where `key` is no key, which tells keys from indices."""
    if type(key) is str:
        return (key,)
    if type(key) is not tuple:
        return (str(key),) if isinstance(key, str) else ()
    for part in key:
        if type(part) is not str:
            break
    else:
        return key
    flat: list[str] = []
    for part in key:
        below = _unravel_key_to_tuple(part)
        if not below:
            return ()
        flat.extend(below)
    return tuple(flat)


def unravel_key(key: NestedKey) -> NestedKey:
    """Flatten a nested key; a tuple of one string becomes that string.

    Raises:
        TypeError: something in it is no string.

    Example:
        >>> unravel_key(("a", ("b", ("c",))))
        ('a', 'b', 'c')
    """
    if type(key) is str:
        return key
    flat = _unravel_key_to_tuple(key)
    if not flat:
        raise TypeError(bad_key(key))
    return flat[0] if len(flat) == 1 else flat


def unravel_key_list(keys: Sequence[NestedKey]) -> list[NestedKey]:
    """`unravel_key` of each key of a list or tuple.

    Raises:
        TypeError: it is neither, or something in it is no key.
    """
    if not isinstance(keys, (list, tuple)):
        raise TypeError(f"the keys come in a list or a tuple, but this is a {type(keys).__name__}; did you mean [key]?")
    return [unravel_key(key) for key in keys]


unravel_keys = unravel_key


def key_path(key: Any) -> tuple[str, ...]:
    """The flat tuple of a nested key.

    Raises:
        TypeError: it is no nested key; the message names it and its type.
    """
    flat = _unravel_key_to_tuple(key)
    if not flat:
        raise TypeError(bad_key(key))
    return flat


def bad_key(key: Any) -> str:
    """The sentence for something that is no key."""
    return f"{key!r} of type {type(key).__name__} is no key; keys are strings, or tuples of strings for nested entries."


def is_nested_key(key: Any) -> bool:
    """Whether this is a key: a string, or a tuple of keys that is not empty."""
    return bool(_unravel_key_to_tuple(key))


def is_seq_of_nested_key(seq: Any) -> bool:
    """Whether this is a sequence of nothing but keys."""
    return not isinstance(seq, str) and isinstance(seq, Sequence) and all(is_nested_key(key) for key in seq)


def listing(keys: Iterable[Any]) -> str:
    """At most ten keys for an error message."""
    shown = [repr(key) for key in keys]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "") or "none"


def missing_key(key: Any, keys: Iterable[Any]) -> KeyError:
    """The error for a key that is not there."""
    return KeyError(f"key {key!r} not found; there are {listing(keys)}.")


def walk(
    td: Any,
    include_nested: bool,
    leaves_only: bool,
    is_leaf: Callable[[type], bool] | None,
    sort: bool,
) -> Iterator[tuple[NestedKey, Any]]:
    """The entries of a collection, a nested one before those below it, as `values` and `items` order them."""
    if sort:
        yield from sorted(walk(td, include_nested, leaves_only, is_leaf, False), key=lambda pair: dotted(pair[0]))
        return
    for key, value in td._items():
        is_collection = isinstance(value, TensorCollection)
        leaf = not is_collection if is_leaf is None else is_leaf(type(value))
        if leaf or not leaves_only:
            yield key, value
        if include_nested and is_collection and not (leaf and leaves_only) and not value._is_non_tensor:
            for below, item in value.items(True, leaves_only, is_leaf):
                yield ((key, *below) if type(below) is tuple else (key, below)), item


def walk_keys(
    td: Any,
    include_nested: bool,
    leaves_only: bool,
    is_leaf: Callable[[type], bool] | None,
    sort: bool,
) -> Iterator[NestedKey]:
    """The keys of a collection, those of a nested one before its own, unlike those of `walk`: as upstream has it."""
    if sort:
        yield from sorted(walk_keys(td, include_nested, leaves_only, is_leaf, False), key=dotted)
        return
    for key, value in td._items():
        is_collection = isinstance(value, TensorCollection)
        leaf = not is_collection if is_leaf is None else is_leaf(type(value))
        if include_nested and is_collection and not (leaf and leaves_only) and not value._is_non_tensor:
            for below in value.keys(True, leaves_only, is_leaf):
                yield (key, *below) if type(below) is tuple else (key, below)
        if leaf or not leaves_only:
            yield key


def dotted(key: NestedKey) -> str:
    """A key as one string, which keys are sorted by."""
    return key if isinstance(key, str) else ".".join(_unravel_key_to_tuple(key))


class _TensorDictKeysView(AbstractSet[Any]):
    """The keys of a tensordict: iterable, sized, with set operations; follows later changes."""

    __slots__ = ("include_nested", "is_leaf", "leaves_only", "sort", "tensordict")

    def __init__(
        self,
        tensordict: Any,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        sort: bool = False,
    ) -> None:
        self.tensordict = tensordict
        self.include_nested = include_nested
        self.leaves_only = leaves_only
        self.is_leaf = is_leaf
        self.sort = sort

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> set[Any]:
        return set(keys)

    def __iter__(self) -> Iterator[NestedKey]:
        if not (self.include_nested or self.leaves_only):
            names = self.tensordict._key_names()
            return iter(sorted(names) if self.sort else names)
        return self.tensordict._walk_keys(self.include_nested, self.leaves_only, self.is_leaf, self.sort)

    def __len__(self) -> int:
        if not (self.include_nested or self.leaves_only):
            return len(self.tensordict._key_names())
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        path = _unravel_key_to_tuple(key)
        if not path:
            raise TypeError(bad_key(key))
        if len(path) > 1 and not self.include_nested:
            raise TypeError(f"{key!r} is a nested key; ask for it in keys(include_nested=True).")
        value = self.tensordict._peek_path(path)
        if value is None:
            return False
        if self.leaves_only:
            return not isinstance(value, TensorCollection) if self.is_leaf is None else self.is_leaf(type(value))
        return True

    def __repr__(self) -> str:
        options = f"include_nested={self.include_nested}, leaves_only={self.leaves_only}"
        return f"{type(self).__name__}({list(self)},\n    {options})"

"""Locking: a locked tensordict keeps its keys and its tensors; their contents can be written.

Locking goes down the tree. Each collection remembers (weakly) which locked parents hold it: it can be unlocked through
its root alone. `lock_` and `unlock_` are context managers through `_last_op`, see `_methods/context.py`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Self, TypeVar

from flambeau.data.tensordict._layout.errors import LOCKED as LOCKED
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection

F = TypeVar("F", bound=Callable[..., Any])

HELD = "this tensordict is inside of a locked one; unlock the one that holds it."


def lock_blocked(func: F) -> F:
    """Make a method raise RuntimeError while its tensordict is locked."""

    @functools.wraps(func)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.is_locked:
            raise RuntimeError(LOCKED)
        return func(self, *args, **kwargs)

    return guarded  # type: ignore[return-value]


class LockMethods(CollectionMethods):
    """Locking and unlocking."""

    _is_locked: bool = False
    _lock_parents: list[weakref.ref[Any]] | None = None
    _cache: dict[Any, Any] | None = None

    @property
    def is_locked(self) -> bool:
        """Whether keys and tensors are fixed; assigning True or False locks and unlocks."""
        return self._is_locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    def lock_(self) -> Self:
        """Forbid adding, removing and replacing entries, here and in everything nested. In-place writes stay possible.

        As a context manager, unlocks at the end what was not locked before.
        """
        was_locked = self._is_locked
        if not was_locked:
            self._lock_below(None)
        self._remember("lock_", argument=was_locked)
        return self

    def unlock_(self) -> Self:
        """Allow changes again, here and in everything nested.

        As a context manager, locks at the end what was locked before.

        Raises:
            RuntimeError: a locked parent holds this tensordict, or something nested; unlock that one.
        """
        was_locked = self._is_locked
        if was_locked:
            self._check_unlock(None)
            self._unlock_below(None)
        self._remember("unlock_", argument=was_locked)
        return self

    def _lock_below(self, parent: weakref.ref[Any] | None) -> None:
        """Lock, and note the locked parent that made it so."""
        if parent is not None:
            if self._lock_parents is None:
                self._lock_parents = [parent]
            elif not any(known is parent for known in self._lock_parents):  # `==` would compare the tensordicts
                self._lock_parents.append(parent)
        if self._is_locked:
            return
        if self._consolidated is not None:
            self._check_storage()
        self._is_locked = True
        me = weakref.ref(self)
        for value in self._collections():
            value._lock_below(me)

    def _check_unlock(self, parent: Any) -> None:
        """Raise where another locked parent than `parent` holds this or anything nested."""
        for reference in self._lock_parents or ():
            other = reference()
            if other is not None and other is not parent and other.is_locked:
                raise RuntimeError(HELD)
        for value in self._collections():
            value._check_unlock(self)

    def _unlock_below(self, parent: Any) -> None:
        self._is_locked = False
        self._lock_parents = None
        self._cache = None
        self._forget_storage()
        for value in self._collections():
            value._unlock_below(self)

    def _collections(self) -> list[Any]:
        """The nested collections, one level down."""
        return [value for _, value in self._items() if isinstance(value, TensorCollection)]

    def _propagate_lock(self) -> Self:
        """Lock a result; nothing else can hold it yet."""
        self._lock_below(None)
        return self

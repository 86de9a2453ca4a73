"""Nodes as something to loop over, epoch after epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic

from flambeau.data._cursor import SCHEMA
from flambeau.data.nodes.base_node import BaseNode, T

_NOTHING: Any = object()


class Loader(Generic[T]):
    """An iterable over a node; each `iter` is an epoch.

    Args:
        root: the last node.
        restart_on_stop_iteration: whether the `iter` after loading a state that was taken at the end of an epoch begins
            the next one; else that loop is empty.

    Example:
        >>> from flambeau.data.nodes import IterableWrapper
        >>> loader = Loader(IterableWrapper(range(4)))
        >>> [item for item in loader], [item for item in loader]
        ([0, 1, 2, 3], [0, 1, 2, 3])
    """

    def __init__(self, root: BaseNode[T], restart_on_stop_iteration: bool = True) -> None:
        self.root = root
        self.restart_on_stop_iteration = restart_on_stop_iteration
        self._pass: _Pass[T] | None = None
        self._loaded: dict[str, Any] | None = None
        self._begun = False  # whether somebody loops over the pass that stands ready

    def __iter__(self) -> Iterator[T]:
        current = self._stand_ready()
        if self._begun:
            current.begin(None)
        elif self.restart_on_stop_iteration and current.resumed and not current.has_next():
            current.begin(None)  # the state was taken at the end of an epoch
        self._begun = True
        return _LoaderIterator(current)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state with the next `iter`. An iterator that was made before raises when it is used again.

        Args:
            state_dict: what `state_dict` gave, here or in another process.

        Raises:
            ValueError: not a state of a Loader.
        """
        if not isinstance(state_dict, dict) or state_dict.get("schema") != SCHEMA:  # type: ignore[redundant-expr]
            raise ValueError(
                f"Loader.load_state_dict: expected what Loader.state_dict() gave, with schema {SCHEMA}, got "
                f"{repr(state_dict)[:200]}."
            )
        self._loaded = state_dict
        if self._pass is not None:
            self._pass.number += 1  # its iterators do not take up the state

    def state_dict(self) -> dict[str, Any]:
        """The place behind the last item given out: keys `schema`, `num_yielded` (in this epoch) and `root`."""
        return self._stand_ready().state()

    def _stand_ready(self) -> _Pass[T]:
        if self._pass is None:
            self._pass = _Pass(self.root)
            if self._loaded is None:
                self._pass.begin(None)
        if self._loaded is not None:
            self._pass.begin(self._loaded)
            self._loaded, self._begun = None, False
        return self._pass


class _Pass(Generic[T]):
    """An epoch over the root, with a look at the item that comes."""

    def __init__(self, root: BaseNode[T]) -> None:
        self._root = root
        self._num_yielded = 0
        self._peeked: Any = _NOTHING
        self._before: dict[str, Any] | None = None
        self.resumed = False
        self.number = 0

    def begin(self, state: dict[str, Any] | None) -> None:
        self._root.reset(None if state is None else state["root"])
        self._num_yielded = 0 if state is None else state["num_yielded"]
        self._peeked, self._before = _NOTHING, None
        self.resumed = state is not None
        self.number += 1

    def has_next(self) -> bool:
        if self._peeked is _NOTHING:
            self._before = self._root.state_dict()
            self._peeked = next(self._root, _NOTHING)
            if self._peeked is _NOTHING:
                self._before = None
        return self._peeked is not _NOTHING

    def take(self) -> T:
        if self._peeked is not _NOTHING:
            item: T = self._peeked
            self._peeked, self._before = _NOTHING, None
        else:
            item = next(self._root)
        self._num_yielded += 1
        return item

    def state(self) -> dict[str, Any]:
        root = self._root.state_dict() if self._before is None else self._before
        return {"schema": SCHEMA, "num_yielded": self._num_yielded, "root": root}


class _LoaderIterator(Iterator[T]):
    def __init__(self, current: _Pass[T]) -> None:
        self._pass = current
        self._number = current.number

    def __next__(self) -> T:
        if self._number != self._pass.number:
            raise RuntimeError(
                "A newer iter(loader), or load_state_dict, has taken this iterator's place; use iter(loader) again."
            )
        return self._pass.take()

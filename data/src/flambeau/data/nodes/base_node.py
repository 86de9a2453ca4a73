"""What every node is: an iterator that can be reset to a state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class BaseNode(Iterator[T]):
    """An iterator whose place can be saved, and which can be put together with others.

    A subclass writes `reset`, `next` and `get_state`; it calls `super().__init__()` and `super().reset(initial_state)`.
    Users call `next(node)` and `node.state_dict()`, or put the last node into a `Loader`.

    `node.reset(node.state_dict())` continues exactly behind the last item that was given, and
    `state_dict()` straight after it equals the state that was loaded.
    """

    # None: __init__ did not run. False: reset has yet to run, which the first use does.
    _ready: bool | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ready = False

    def __iter__(self) -> BaseNode[T]:
        return self

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Begin a new pass, or go on from a state.

        Args:
            initial_state: what `state_dict` gave, None to begin anew.
        """
        self._ready = True

    def next(self) -> T:
        """The next item; StopIteration at the end of the pass. For subclasses to write; users call `next(node)`."""
        raise NotImplementedError(f"{type(self).__name__} must define next(self).")

    def get_state(self) -> dict[str, Any]:
        """The present state. For subclasses to write; users call `state_dict`."""
        raise NotImplementedError(f"{type(self).__name__} must define get_state(self).")

    def shutdown(self) -> None:
        """End threads and processes, here and in the nodes this one reads. A reset starts them again."""
        for source in self._sources():
            source.shutdown()

    def state_dict(self) -> dict[str, Any]:
        """The state to hand to `reset`: plain values, nothing that changes with further items."""
        if not self._ready:
            self._begin()
        return self.get_state()

    def __next__(self) -> T:
        if not self._ready:
            self._begin()
        return self.next()

    def _begin(self) -> None:
        name = type(self).__name__
        if self._ready is None:
            raise NotImplementedError(f"{name}.__init__ must call super().__init__() before the node is used.")
        self.reset(None)
        if not self._ready:
            raise NotImplementedError(f"{name}.reset must call super().reset(initial_state).")

    def _sources(self) -> list[BaseNode[Any]]:
        own = vars(self)
        found = [own.get("source")]
        many = own.get("source_nodes")
        found += list(many.values()) if isinstance(many, dict) else list(many or [])
        return [node for node in found if isinstance(node, BaseNode)]

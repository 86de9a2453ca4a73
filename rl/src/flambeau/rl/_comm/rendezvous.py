"""Places where processes leave values by name, for one another to find."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

__all__ = ["MappingRendezvous", "RayRendezvous", "Rendezvous", "TCPStoreRendezvous"]

_PAUSE_S = 0.01


class Rendezvous(Protocol):
    """A place where values are left by name."""

    def publish(self, key: str, value: Any) -> None:
        """Leave a value."""

    def read(self, key: str) -> Any:
        """A value that is there."""

    def wait(self, key: str, timeout: float | None = None) -> Any:
        """A value, as soon as it is there."""


class MappingRendezvous:
    """Values in a dictionary that is shared.

    Args:
        mapping: the dictionary, such as `multiprocessing.Manager().dict()`.
    """

    def __init__(self, mapping: MutableMapping[str, Any]) -> None:
        self._mapping = mapping

    def publish(self, key: str, value: Any) -> None:
        """Leave a value."""
        self._mapping[key] = value

    def read(self, key: str) -> Any:
        """A value.

        Raises:
            KeyError: it is not there.
        """
        return self._mapping[key]

    def wait(self, key: str, timeout: float | None = None) -> Any:
        """A value, as soon as it is there.

        Raises:
            TimeoutError: it is not there after `timeout` seconds.
        """
        return _waited(lambda: (key in self._mapping, self._mapping.get(key)), key, timeout)


class TCPStoreRendezvous:
    """Values in a store of torch.distributed.

    Values are pickled, so whoever reaches the store can run code in those who read it: as everything of
    torch.distributed, it is for networks that are trusted.

    Args:
        store: a `torch.distributed.TCPStore`.
        encode: makes bytes of a value.
        decode: makes a value of bytes.
    """

    def __init__(
        self,
        store: Any,
        *,
        encode: Callable[[Any], bytes] = pickle.dumps,
        decode: Callable[[bytes], Any] = pickle.loads,
    ) -> None:
        self._store, self._encode, self._decode = store, encode, decode

    def publish(self, key: str, value: Any) -> None:
        """Leave a value."""
        self._store.set(key, self._encode(value))

    def read(self, key: str) -> Any:
        """A value; it is waited for as long as the store waits."""
        return self._decode(self._store.get(key))

    def wait(self, key: str, timeout: float | None = None) -> Any:
        """A value, as soon as it is there.

        Raises:
            TimeoutError: it is not there after `timeout` seconds.
        """

        def look() -> tuple[bool, Any]:
            # Not the store's own wait, during which nobody else of this process can use it.
            there = self._store.check([key])
            return there, self.read(key) if there else None

        return _waited(look, key, timeout)


class RayRendezvous:
    """Values in an actor of Ray.

    Args:
        actor: has methods `set(key, value)`, and `get(key)`, which gives None where there is nothing.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    @property
    def ray(self) -> Any:
        """The module ray."""
        import ray

        return ray

    def publish(self, key: str, value: Any) -> None:
        """Leave a value."""
        self.ray.get(self._actor.set.remote(key, value))

    def read(self, key: str) -> Any:
        """A value, as the actor gives it."""
        return self.ray.get(self._actor.get.remote(key))

    def wait(self, key: str, timeout: float | None = None) -> Any:
        """A value, as soon as it is there.

        Raises:
            TimeoutError: it is not there after `timeout` seconds.
        """

        def look() -> tuple[bool, Any]:
            found = self.read(key)
            return found is not None, found

        return _waited(look, key, timeout)


def _waited(look: Callable[[], tuple[bool, Any]], key: str, timeout: float | None) -> Any:
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        there, value = look()
        if there:
            return value
        if until is not None and time.monotonic() >= until:
            raise _late(key, timeout)
        time.sleep(_PAUSE_S)


def _late(key: str, timeout: float | None) -> TimeoutError:
    return TimeoutError(f"nobody published {key!r} within {timeout} s.")

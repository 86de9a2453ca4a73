"""A value in shared memory with a version, and a way to wait for the next one."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import torch.multiprocessing as mp

__all__ = ["SharedBlock"]

T = TypeVar("T")


class SharedBlock(Generic[T]):
    """A value that one process writes and others read, and wait for.

    Args:
        value: what is there at first. What other processes are to see has to lie in shared memory, and to have a method
            `update_` or `copy_`, by which it is written; anything else is replaced in this process alone.
        context: of multiprocessing.

    Example:
        >>> import torch
        >>> block = SharedBlock(torch.zeros(2).share_memory_())
        >>> block.publish(torch.ones(2))
        1
        >>> block.wait(0)
        (tensor([1., 1.]), 1)
    """

    def __init__(self, value: T, *, context: Any = None) -> None:
        context = mp.get_context() if context is None else context
        self._value = value
        self._version = context.Value("q", 0, lock=False)
        self._bell = context.Condition()

    @property
    def version(self) -> int:
        """How often it was published."""
        return int(self._version.value)

    @property
    def value(self) -> T:
        """The value itself, not a copy."""
        return self._value

    def publish(self, value: T) -> int:
        """Write a value, and wake those who wait; its version."""
        with self._bell:
            held: Any = self._value
            if hasattr(held, "update_"):
                held.update_(value)
            elif hasattr(held, "copy_"):
                held.copy_(value)
            else:
                self._value = value
            self._version.value += 1
            self._bell.notify_all()
            return int(self._version.value)

    def wait(self, after_version: int, timeout: float | None = None) -> tuple[T, int] | None:
        """Wait until there is a later version.

        Args:
            after_version: the version that is known.
            timeout: in seconds; None for no end.

        Returns:
            The value and its version; None where there is none in time.
        """
        with self._bell:
            if not self._bell.wait_for(lambda: self.version > after_version, timeout):
                return None
            return self._value, self.version

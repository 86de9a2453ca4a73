"""Two switches: what operations on typed tensors return, and whether shapes and dtypes are checked.

A plain call sets the default of the whole process, at once. Used as a context manager the same call counts for the
current thread alone, and leaves the default as it was.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar

Value = TypeVar("Value")


class Mode(Generic[Value]):
    """A process-wide default that threads may override for the length of a `with` block."""

    def __init__(self, value: Value) -> None:
        self.active = False  # whether anything but the initial value may count, in any thread: the fast check
        self._initial = self._default = self._base = value
        self._calls: dict[int, Switch[Value]] = {}  # thread -> its last call, which may yet turn out a `with`
        self._blocks = 0  # open `with` blocks of all threads
        self._local = threading.local()
        self._lock = threading.Lock()

    def current(self) -> Value:
        """The value that counts here and now."""
        return self._stack()[-1] if self._stack() else self._default

    def innermost(self) -> tuple[Value] | None:
        """The value of this thread's innermost `with` block, in a tuple, or None outside of any."""
        return (self._stack()[-1],) if self._stack() else None

    def call(self, switch: Switch[Value]) -> None:
        """A plain call: the new default. A thread's earlier call that never became a `with` is final by now."""
        with self._lock:
            if earlier := self._calls.pop(threading.get_ident(), None):
                self._base = earlier.value
            self._calls[threading.get_ident()] = switch
            self._settle()
        if self._stack():
            self._stack()[-1] = switch.value

    def enter(self, switch: Switch[Value]) -> None:
        """The call was the head of a `with`: take the default back and override it in this thread only."""
        with self._lock:
            if self._calls.get(threading.get_ident()) is switch:
                del self._calls[threading.get_ident()]
            self._blocks += 1
            self._settle()
        if self._stack() and switch.outer is not None:
            self._stack()[-1] = switch.outer[0]
        self._stack().append(switch.value)

    def leave(self) -> None:
        """The end of a `with`."""
        self._stack().pop()
        with self._lock:
            self._blocks -= 1
            self._settle()

    def _settle(self) -> None:
        self._default = next(reversed(self._calls.values())).value if self._calls else self._base
        self.active = self._blocks > 0 or self._default != self._initial

    def _stack(self) -> list[Value]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        return self._local.stack  # type: ignore[no-any-return]


class Switch(Generic[Value]):
    """What a call of `set_return_type` or `set_checks` returns; usable as a context manager."""

    def __init__(self, mode: Mode[Value], value: Value) -> None:
        self._mode = mode
        self.value = value
        self.outer = mode.innermost()
        mode.call(self)

    def __enter__(self) -> Self:
        self._mode.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mode.leave()


Return = Literal["plain", "typed"]
_SPELLINGS: dict[str, Return] = {"plain": "plain", "tensor": "plain", "typed": "typed", "tvtensor": "typed"}

RETURN_TYPE: Mode[Return] = Mode("plain")
CHECKS: Mode[bool] = Mode(False)


def set_return_type(kind: str) -> Switch[Return]:
    """Choose what operations without a rule of their own return for typed tensors.

    Takes effect at once, for the whole process; as a context manager, for the current thread until the block ends.
    Between the call and the start of its block (a few bytecodes) other threads may see the new default.

    Args:
        kind: `"plain"`, tensors without type (the default), or `"typed"`, the type and metadata of the operation's
            first argument that has one. Upstream: `"Tensor"` and `"TVTensor"` mean the same.

    Raises:
        ValueError: another word.

    Example:
        >>> import torch
        >>> from flambeau.core.tensors import TypedTensor
        >>> with set_return_type("typed"):
        ...     type(TypedTensor(torch.ones(2)) + 1).__name__
        'TypedTensor'
    """
    value = _SPELLINGS.get(str(kind).lower())
    if value is None:
        raise ValueError(f"set_return_type: {kind!r} is not known; use 'plain' ('Tensor') or 'typed' ('TVTensor').")
    return Switch(RETURN_TYPE, value)


def set_checks(enabled: bool) -> Switch[bool]:
    """Check shapes and dtypes against the declaration whenever a typed tensor is made; off by default.

    Takes effect at once, for the whole process; as a context manager, for the current thread until the block ends.
    """
    return Switch(CHECKS, bool(enabled))

"""Tensordicts as context managers: at the end of the block, the last operation is undone.

`with td.unlock_():` locks again; `with td.view(-1) as flat:` writes back what was set on the view; `with
params.to_module(m):` restores the module. The operation notes itself in `_last_op` of what it returns.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Self

from flambeau.data.tensordict._tensorcollection import CollectionMethods

# Operations that must be undone even when the block raised.
_ALWAYS = frozenset({"lock_", "unlock_", "to_module"})


class ContextMethods(CollectionMethods):
    """`with` over a tensordict."""

    _last_op: tuple[str, Any, Any] | None = None
    _entered: tuple[Any, ...] = ()

    def _remember(self, operation: str, source: Any = None, argument: Any = None) -> Self:
        """Note what `with` has to undo; `source` is held weakly, for a chain of views keeps nothing alive."""
        self._last_op = (operation, None if source is None else weakref.ref(source), argument)
        return self

    def __enter__(self) -> Self:
        if self._last_op is None:
            raise RuntimeError(
                "nothing to undo: `with` follows an operation such as lock_(), unlock_(), view(...) or to_module(...)."
            )
        self._entered = (*self._entered, self._last_op)
        self._last_op = None
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        *before, (operation, source, argument) = self._entered
        self._entered = tuple(before)
        if exc_type is None or operation in _ALWAYS:
            undo = _UNDO[operation]
            undo(self, None if source is None else source(), argument)


def _write_back(result: Any, source: Any) -> None:
    if source is None:
        return
    if source.is_locked:
        source.update_(result)
    else:
        for key in set(source._key_names()).difference(result._key_names()):
            source.del_(key)
        source.update(result)


_UNDO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "to": lambda td, source, argument: _write_back(td, source),
    "lock_": lambda td, source, was_locked: was_locked or td.unlock_(),
    "unlock_": lambda td, source, was_locked: was_locked and td.lock_(),
    "to_module": lambda td, source, argument: None if argument is None else td._swap_back(*argument),
    "reshape": lambda td, source, argument: (
        None if source is None else _write_back(td.reshape(source.batch_size), source)
    ),
    "unsqueeze": lambda td, source, dim: _write_back(td.squeeze(dim), source),
    "permute": lambda td, source, argument: _write_back(td.permute(argument), source),
    "flatten_keys": lambda td, source, argument: _write_back(td.unflatten_keys(argument), source),
    "unflatten_keys": lambda td, source, argument: _write_back(td.flatten_keys(argument), source),
}

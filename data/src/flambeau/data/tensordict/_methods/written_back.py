"""In-place operations of collections whose entries are not memory that can be written: computed on a copy, then stored.

So it is with entries in files and on servers, and with parts that an index of positions has gathered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# Methods whose name ends with an underscore that are no computation on tensors.
STRUCTURAL = frozenset(
    [
        *("auto_batch_size_", "auto_device_", "clear_device_", "clear_refs_for_compile_", "copy_", "copy_at_", "del_"),
        *("filter_empty_", "load_", "load_memmap_", "lock_", "unlock_", "memmap_", "memmap_refresh_", "rename_"),
        *("share_memory_", "pin_memory_", "rename_key_", "set_", "set_at_", "update_", "update_at_", "detach_"),
        "requires_grad_",
    ]
)


def add_in_place_methods(cls: type[Any], passing: frozenset[str] = STRUCTURAL) -> None:
    """Give a class the in-place operations.

    Args:
        cls: with `_shares_memory`, whether the inherited operation reaches the entries, and with `_written_back(td)`,
            which stores the entries of a TensorDict of the same structure, and returns the collection.
        passing: names of methods that stay as they are.
    """
    for name in dir(cls):
        if name.endswith("_") and not name.startswith("_") and name not in passing and name not in vars(cls):
            setattr(cls, name, _on_a_copy(name, getattr(cls, name)))


def _on_a_copy(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._shares_memory:
            return original(self, *args, **kwargs)
        local = self.to_tensordict()
        getattr(local, name)(*args, **kwargs)
        return self._written_back(local)

    return call

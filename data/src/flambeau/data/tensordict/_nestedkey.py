"""The type of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    NestedKey: TypeAlias = str | tuple["NestedKey", ...]
else:

    class _NestedKeyType(type):
        def __instancecheck__(cls, key: Any) -> bool:
            return isinstance(key, str) or (
                isinstance(key, tuple) and bool(key) and all(isinstance(part, cls) for part in key)
            )

    class NestedKey(metaclass=_NestedKeyType):
        """A string, or a tuple of keys that is not empty; `isinstance` tells."""

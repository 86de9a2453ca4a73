"""Which of gym's implementations is used."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from contextlib import ContextDecorator
from types import ModuleType
from typing import Any, Self

_CHOSEN: list[Any] = [None]


def _name(backend: Any) -> str:
    return backend if isinstance(backend, str) else backend.__name__


def gym_backend(submodule: str | None = None) -> ModuleType:
    """The library in use: the one that was set, else gymnasium, else gym.

    Args:
        submodule: a module of it, such as "vector" or "wrappers.pixels".

    Raises:
        ImportError: neither is installed.

    Example:
        >>> gym_backend("vector").__name__
        'gymnasium.vector'
    """
    chosen = _CHOSEN[0]
    if chosen is None:
        for name in ("gymnasium", "gym"):
            if importlib.util.find_spec(name) is not None:
                chosen = _CHOSEN[0] = importlib.import_module(name)
                break
        else:
            raise ImportError("Neither gymnasium nor gym is installed. Run: pip install 'flambeau-rl[gym]'")
    if submodule is None:
        return chosen  # type: ignore[no-any-return]
    return importlib.import_module(f"{chosen.__name__}.{submodule.lstrip('.')}")


class set_gym_backend(ContextDecorator):  # upstream's name
    """Set the library in use: in a `with` block, in a function that it decorates, or from `set` on.

    Args:
        backend: "gym", "gymnasium", the module itself, or a function that returns it.

    Example:
        >>> with set_gym_backend("gymnasium"):
        ...     gym_backend().__name__
        'gymnasium'
    """

    def __init__(self, backend: str | ModuleType | Callable[[], ModuleType]) -> None:
        self._given = backend

    @property
    def backend(self) -> ModuleType:
        """The library, imported.

        Raises:
            ModuleNotFoundError: it is not installed.
        """
        if isinstance(self._given, str):
            return importlib.import_module(self._given)
        return self._given if isinstance(self._given, ModuleType) else self._given()

    def set(self) -> None:
        """Set it, until another one is set."""
        _CHOSEN[0] = self.backend

    def __enter__(self) -> Self:
        self._before = _CHOSEN[0]
        self.set()
        return self

    def __exit__(self, *exception: object) -> None:
        _CHOSEN[0] = self._before

    def clone(self) -> set_gym_backend:
        """Another one for the same library."""
        return type(self)(self._given)

    def __call__(self, func: Any) -> Any:
        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return func(*args, **kwargs)

        return decorated

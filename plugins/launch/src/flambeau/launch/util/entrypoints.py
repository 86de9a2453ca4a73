"""Entry points of installed distributions, by group and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["load", "load_group"]


def load(group: str, name: str, default: Any = None) -> Any:
    """The object behind one entry point.

    Args:
        group: of entry points, such as "torchx.tracker".
        name: of the entry point.
        default: what to give where there is none.

    Raises:
        KeyError: there is none, and no default.
    """
    from importlib.metadata import entry_points

    for point in entry_points(group=group, name=name):
        return point.load()
    if default is None:
        raise KeyError(f"no entry point {name!r} in group {group!r}; is the distribution that declares it installed?")
    return default


def load_group(group: str, default: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """The entry points of a group by name, each as a function that loads it when it is called, and calls it.

    Args:
        group: of entry points.
        default: what to give where the group is empty.
    """
    from importlib.metadata import entry_points

    points = list(entry_points(group=group))
    return {point.name: _Deferred(point) for point in points} if points else default


class _Deferred:
    """Calls what an entry point names; a module is given as it is."""

    def __init__(self, point: Any) -> None:
        self.point = point

    def __call__(self, *args: object, **kwargs: object) -> Any:
        loaded: Callable[..., Any] | Any = self.point.load()
        return loaded(*args, **kwargs) if callable(loaded) else loaded

    def __repr__(self) -> str:
        return f"<entry point {self.point.name} = {self.point.value}>"

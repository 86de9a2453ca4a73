"""Entry points of installed distributions, by group and name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

__all__ = ["is_declared", "load", "load_group"]


def is_declared(group: str) -> bool:
    """Whether some distribution may have entry points in a group.

    The import of `importlib.metadata` alone takes longer than a page of help; this reads the folders of `sys.path`.
    Where distributions lie elsewhere (zip files, finders of others) it says yes, and `importlib.metadata` knows.
    """
    if [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")] != [PathFinder]:
        return True
    return any(_declares(Path(place or "."), f"[{group}]") for place in sys.path)


def _declares(folder: Path, heading: str) -> bool:
    if not folder.is_dir():
        return folder.exists()
    try:
        files = [path / "entry_points.txt" for path in folder.iterdir() if path.suffix in (".dist-info", ".egg-info")]
    except OSError:  # not ours to read, as for the import system
        return False
    return any(heading in _text(file) for file in files)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # the distribution has none
        return ""


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

"""Lazy public names: a package lists what it offers, and a module is imported when one of its names is first used.

::

    if TYPE_CHECKING:
        from flambeau.vision.models.resnet import *
    __getattr__, __dir__, __all__ = lazy_exports(__name__, {"resnet": ("ResNet", "resnet18")})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType

from flambeau.core.garbage import collection_paused

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from typing import Any


def lazy_exports(
    package: str, names: Mapping[str, Iterable[str]], *, submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make the `__getattr__`, `__dir__` and `__all__` of a package whose names load on first use.

    Args:
        package: the package's `__name__`.
        names: module -> public names that it defines. A module is relative to the package (`"resnet"`), or
            absolute when it starts with `flambeau.`.
        submodules: modules reachable as attributes although none of their names is exported.

    Returns:
        The three values, in the order named above. `__all__` is sorted and holds the exported names alone.

    Raises:
        ValueError: a name is listed under two modules.
    """
    homes: dict[str, str] = {}
    for module, exported in names.items():
        target = module if module.startswith("flambeau.") else f"{package}.{module}"
        for name in exported:
            if name in homes:
                raise ValueError(f"{package}: {name!r} is listed under {homes[name]} and {target}; keep one of them.")
            homes[name] = target
    children = {module for module in names if "." not in module} | set(submodules)
    if children & homes.keys():
        _keep_names(sys.modules[package], frozenset(children & homes.keys()))

    def get(name: str) -> Any:
        if name in homes:
            with collection_paused():  # modules stay, and make many thousands of objects
                value = getattr(import_module(homes[name]), name)
            vars(sys.modules[package])[name] = value
            return value
        if name in children:
            with collection_paused():
                return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listing() -> list[str]:
        return sorted({*homes, *children, *vars(sys.modules[package])})

    return get, listing, sorted(homes)


def _keep_names(package: ModuleType, names: frozenset[str]) -> None:
    """Stop the import of a submodule from hiding an exported name that is spelled like it.

    Upstream: `models.alexnet` is the function, although `models/alexnet.py` is its module.
    """

    class Package(ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            if not (name in names and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    package.__class__ = Package

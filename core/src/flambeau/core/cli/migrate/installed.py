"""Whether the names that migrated code relies on exist in the Flambeau packages that are installed."""

from __future__ import annotations

from enum import EnumMeta
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from flambeau.core.cli.migrate.table import distribution


def absent(name: str) -> str | None:
    """Why a dotted name of ours cannot be used here, None if it can. Imports the modules on its way.

    What lies behind a class or a function is not looked into, except members of an enumeration.
    """
    package = ".".join(name.split(".")[:2])
    if find_spec(package) is None:
        return f"{distribution(name)} is not installed, so that its names are not checked"
    value: Any = import_module(package)
    for end, part in enumerate(name.split(".")[2:], start=3):
        if not isinstance(value, (ModuleType, EnumMeta)):
            return None
        path = ".".join(name.split(".")[:end])
        try:
            value = _attribute(value, part, path)
        except ImportError as error:
            return f"{path} cannot be imported: {error}"
        except AttributeError:
            return f"{path} does not exist in the installed {distribution(name)}"
    return None


def _attribute(value: Any, part: str, path: str) -> Any:
    try:
        return getattr(value, part)
    except AttributeError:
        if not isinstance(value, ModuleType) or find_module(path) is None:
            raise
    return import_module(path)


def find_module(path: str) -> object | None:
    """The module's spec; None where its parent is no package, too."""
    try:
        return find_spec(path)
    except ModuleNotFoundError:
        return None

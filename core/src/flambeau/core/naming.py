"""Names of registry entries: their form, the address of what they stand for, and filters over lists of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import RegistryError

if TYPE_CHECKING:
    from flambeau.core.entry import Entry

# Shown in terminals and typed in shells, so nothing that either would take for more than a letter.
# A colon joins the two parts of a weights name.
NAME = re.compile(r"\w[\w.+-]{0,199}(:\w[\w.+-]{0,199})?")


def split_name(name: str, plugin: str | None) -> tuple[str | None, str]:
    """Plugin and short name of a name to be registered, which may be given as `plugin/name`.

    Raises:
        RegistryError: the name has characters that names cannot have, or contradicts `plugin`.
        TypeError: it is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name to register is a string, not {name!r} ({type(name).__name__}).")
    prefix, slash, short = name.rpartition("/")
    if slash:
        if plugin not in (None, prefix):
            raise RegistryError(f"{name!r} cannot be registered for plugin {plugin!r}; leave one of the two out.")
        plugin = prefix
    if not NAME.fullmatch(short):
        raise RegistryError(f"{name!r} is no name for an entry; expected letters, digits and any of _ . + -.")
    if plugin is not None and not NAME.fullmatch(plugin):
        raise RegistryError(f"{plugin!r} is no name for a plugin; expected letters, digits and any of _ -.")
    return plugin, short


def address(target: object) -> str | None:
    """Where a target can be imported from, as `module:attribute`; None where it cannot.

    Functions made inside functions have no address: two different ones may be called alike.
    """
    if isinstance(target, str):
        return target
    if isinstance(target, Enum):
        return f"{type(target).__module__}:{type(target).__qualname__}.{target.name}"
    module, qualname = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    return f"{module}:{qualname}"


def same_target(one: object, other: object) -> bool:
    """Whether two targets are one object, or stand at one address, as after a module's reload."""
    return one is other or (address(one) is not None and address(one) == address(other))


def home_module(target: object) -> str:
    """The module that a target belongs to; empty where that cannot be told."""
    place = address(target)
    if place is not None:
        return place.partition(":")[0]
    module = getattr(target, "__module__", None) or getattr(getattr(target, "func", None), "__module__", None)
    return module if isinstance(module, str) else ""


def import_target(target: str) -> Any:
    """The object at `module:attribute`; the attribute may have dots.

    Raises:
        RegistryError: the target is not of this form, or the module lacks the attribute.
        ImportError: the module cannot be imported; whatever else it raises comes through too.
    """
    module, separator, attribute = target.partition(":")
    if not separator or not module or not attribute:
        raise RegistryError(f"target {target!r} is not of the form 'package.module:attribute'.")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise RegistryError(f"target {target!r}: there is no {part!r} in {found!r}.") from error
    return found


def aliases_of(name: str, info: dict[str, Any]) -> Iterator[str]:
    """The other names of an entry: those its record lists under `aliases`, and DEFAULT for the default weights."""
    prefix, colon, _ = name.rpartition(":")
    for alias in info.get("aliases") or ():
        yield f"{prefix}{colon}{alias}"
    if colon and info.get("default"):
        yield f"{prefix}:DEFAULT"


def names_of(entry: Entry) -> list[str]:
    """Every name under which an entry is found, without and with its plugin; for weights also `Enum.MEMBER`."""
    names = list(dict.fromkeys([entry.name, *aliases_of(entry.name, entry.info)]))
    if enum := str(entry.info.get("enum", "")).rpartition(":")[2]:
        names += [f"{enum}.{name.rpartition(':')[2]}" for name in names]
    return names + [f"{entry.plugin}/{name}" for name in names]


def filter_names(
    names: Iterable[str], include: str | Iterable[str] | None = None, exclude: str | Iterable[str] | None = None
) -> list[str]:
    """Names that match, sorted.

    Args:
        names: what to choose from.
        include: an `fnmatch` pattern or several; names that match any are kept. None keeps all, an empty list none.
        exclude: likewise; names that match any are then left out. None and an empty list leave nothing out.
    """

    def matches(name: str, patterns: str | Iterable[str]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns))

    kept = [name for name in names if include is None or matches(name, include)]
    return sorted(name for name in kept if exclude is None or not matches(name, exclude))

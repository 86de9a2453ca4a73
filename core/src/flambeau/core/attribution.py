"""Who registers: the plugin that a new entry belongs to, and what one plugin's hooks have registered so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flambeau.core.naming import home_module
from flambeau.core.plugins import manager
from flambeau.core.plugins.plugin import Plugin


@dataclass(frozen=True, slots=True)
class Attribution:
    """To whom a registration is due."""

    plugin: str
    origin: str  # distribution and version, or the module where no plugin is installed for it
    hook: str | None = None  # the plugin whose `flambeau_register` makes it


class Changes:
    """What one plugin's hooks registered, so that it can be taken back."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.dynamic = False  # whether the plugin's `flambeau_register` runs, as against its import
        self.undoing: list[Callable[[], None]] = []

    def undo(self) -> None:
        """Put the registries back, last change first."""
        while self.undoing:
            self.undoing.pop()()


_active = threading.local()


@contextmanager
def attributed_to(plugin: Plugin) -> Iterator[Changes]:
    """While a plugin's hooks run in this thread, what they register is noted as theirs."""
    outer: Changes | None = getattr(_active, "changes", None)
    _active.changes = changes = Changes(plugin)
    try:
        yield changes
    finally:
        _active.changes = outer


def attribute(target: object, plugin: str | None) -> Attribution:
    """To whom the registration of a target is due.

    The plugin whose package holds the target comes first, then the one whose `flambeau_register` runs.

    Args:
        target: an object, or its address `module:attribute`.
        plugin: the name that the caller gave, if any.
    """
    changes: Changes | None = getattr(_active, "changes", None)
    running = changes.plugin if changes is not None and changes.dynamic else None
    module = home_module(target)
    owner = manager.owner_of(module)
    if owner is not None and plugin in (None, owner.name):
        hook = owner.name if running is not None and running.name == owner.name else None
        return Attribution(owner.name, owner.origin, hook)
    if running is not None:
        return Attribution(plugin or running.name, running.origin, running.name)
    if plugin is not None and (named := manager.current_snapshot().plugins.get(plugin)):
        return Attribution(plugin, named.origin)
    top = module.partition(".")[0]
    return Attribution(plugin or ("local" if top in ("", "__main__") else top), f"module {module or 'unknown'}")


def hooks_run() -> bool:
    """Whether the hooks of a plugin are being imported or called in this thread."""
    return getattr(_active, "changes", None) is not None


def note(owner: Attribution, undo: Callable[[], None]) -> None:
    """Remember how to take a registration back, if the hooks of the plugin that it is due to are running.

    Registrations of other plugins, whose modules happened to be imported by these hooks, stay.
    """
    changes: Changes | None = getattr(_active, "changes", None)
    if changes is not None and changes.plugin.origin == owner.origin:
        changes.undoing.append(undo)

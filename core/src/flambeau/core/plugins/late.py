"""The one place from which lower modules call the plugins' code, which is loaded above them.

A registry lets hooks register when a look-up misses, and discovery anew drops what they registered; yet hooks stand
above both, for they fill the registries. So `hooks` is named here, imported when it is first needed, and nowhere else
below it. Its import is spared as well where nothing is missed: listings do without.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib import import_module
from types import ModuleType

_HOOKS = "flambeau.core.plugins.hooks"


def load_hooks(names: Collection[str] | None = None) -> None:
    """Import the hooks of these plugins (of all when None) that are not loaded yet; see `hooks.load_hooks`."""
    _hooks().load_hooks(names)


def forget_hooks() -> None:
    """Unregister all hooks and what they registered; nothing where none was ever loaded."""
    if _HOOKS in sys.modules:
        _hooks().forget()


def _hooks() -> ModuleType:
    return import_module(_HOOKS)

"""Installed plugins: what there is, in what state, and the code they add.

`discover` reads static manifests and imports nothing. Hook modules are imported when a look-up misses, when
`load_plugin` or `run_hook` asks for them, and never otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.errors import PluginError, PluginWarning
from flambeau.core.plugins.hooks import load_hooks, load_plugin, plugin_manager, run_hook
from flambeau.core.plugins.manager import contributions, discover, get_plugin, manifest_of
from flambeau.core.plugins.plugin import Plugin

if TYPE_CHECKING:
    from flambeau.core.hookspecs import hookimpl as hookimpl
    from flambeau.core.hookspecs import hookspec as hookspec

__all__ = [
    "Plugin",
    "PluginError",
    "PluginWarning",
    "contributions",
    "discover",
    "get_plugin",
    "hookimpl",
    "hookspec",
    "load_hooks",
    "load_plugin",
    "manifest_of",
    "plugin_manager",
    "run_hook",
]


def __getattr__(name: str) -> Any:
    if name in ("hookimpl", "hookspec"):  # pluggy takes 20 ms, which listings need not pay
        from flambeau.core import hookspecs

        return getattr(hookspecs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Installed plugins: what there is, in what state, and the code they add.

`discover` reads static manifests and imports nothing. Hook modules are imported when a look-up misses, when
`load_plugin` or `run_hook` asks for them, and never otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.core.errors import PluginError as PluginError
    from flambeau.core.errors import PluginWarning as PluginWarning
    from flambeau.core.hookspecs import hookimpl as hookimpl
    from flambeau.core.hookspecs import hookspec as hookspec
    from flambeau.core.plugins.hooks import load_hooks as load_hooks
    from flambeau.core.plugins.hooks import load_plugin as load_plugin
    from flambeau.core.plugins.hooks import plugin_manager as plugin_manager
    from flambeau.core.plugins.hooks import run_hook as run_hook
    from flambeau.core.plugins.manager import contributions as contributions
    from flambeau.core.plugins.manager import discover as discover
    from flambeau.core.plugins.manager import get_plugin as get_plugin
    from flambeau.core.plugins.manager import manifest_of as manifest_of
    from flambeau.core.plugins.plugin import Plugin as Plugin

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "flambeau.core.errors": ("PluginError", "PluginWarning"),
        "flambeau.core.hookspecs": ("hookimpl", "hookspec"),  # pluggy takes 20 ms, which listings need not pay
        "hooks": ("load_hooks", "load_plugin", "plugin_manager", "run_hook"),
        "manager": ("contributions", "discover", "get_plugin", "manifest_of"),
        "plugin": ("Plugin",),
    },
)

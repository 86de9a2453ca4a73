"""The plugins of this process: discovered once, warned about once."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Iterable
from typing import Any

from flambeau.core.environment import flag
from flambeau.core.errors import PluginError, PluginWarning, close_names
from flambeau.core.plugins import late
from flambeau.core.plugins.discovery import Snapshot, scan
from flambeau.core.plugins.plugin import FIRST_PARTY, Plugin, install_command

# Never held while foreign code runs, except for what `sys.meta_path` finders do. Modules that register at import
# hold their import lock and then want this one; holding it during imports would be the other order.
_lock = threading.RLock()
_snapshot: Snapshot | None = None
_warned: set[str] = set()


def discover(*, refresh: bool = False) -> dict[str, Plugin]:
    """All installed plugins by name, whatever their state; reads manifests and imports none of them.

    A plugin whose name another distribution holds is listed as `name@distribution`, with the state "shadowed". Broken,
    incompatible and shadowed plugins are warned about once in a process.

    Args:
        refresh: look at the environment, the configuration and the installed distributions again.

    Raises:
        PluginError: a plugin is broken or incompatible, and FLAMBEAU_STRICT_PLUGINS is set.
        ConfigError: the configuration file is damaged.
    """
    if refresh:
        late.forget_hooks()
        refresh_snapshot()
    return dict(reported_snapshot().plugins)


def current_snapshot() -> Snapshot:
    """The plugins as discovered, without warnings; for use while modules are imported."""
    global _snapshot
    with _lock:
        if _snapshot is None:
            _snapshot = scan()
        return _snapshot


def reported_snapshot() -> Snapshot:
    """The plugins as discovered, after saying what is wrong with them."""
    snapshot = current_snapshot()
    _report(snapshot)
    return snapshot


def get_plugin(name: str) -> Plugin:
    """One installed plugin, whatever its state.

    Raises:
        PluginError: no such plugin is installed; the message says how to install it, or which names are near.
    """
    plugins = discover()
    if name not in plugins:
        raise PluginError(absent(name, plugins))
    return plugins[name]


def contributions(table: str) -> list[tuple[Plugin, dict[str, Any]]]:
    """The records that plugins in the state "ok" have in one table of their manifests, sorted by plugin.

    Args:
        table: a key of the manifest that holds a list of objects, such as "commands", "kernels" or "predictors".
    """
    snapshot = reported_snapshot()
    return [
        (snapshot.plugins[name], record)
        for name, manifest in snapshot.manifests.items()
        for record in manifest.get(table, ())
    ]


def manifest_of(name: str) -> dict[str, Any]:
    """The manifest of a plugin in the state "ok"; empty for one that has hooks alone.

    Raises:
        PluginError: the plugin is absent or not in the state "ok".
    """
    plugin = get_plugin(name)
    if plugin.state != "ok":
        raise PluginError(plugin.reason) from plugin.error
    return current_snapshot().manifests.get(name, {})


def owner_of(module: str) -> Plugin | None:
    """The plugin whose package holds a module; the innermost where packages are nested."""
    found = None
    for plugin in current_snapshot().plugins.values():
        inside = module == plugin.package or module.startswith(f"{plugin.package}.")
        if inside and plugin.state != "shadowed" and (found is None or len(plugin.package) > len(found.package)):
            found = plugin
    return found


def absent(name: str, plugins: Iterable[str]) -> str:
    """Why there is no plugin of this name, and what to do."""
    if name in FIRST_PARTY:
        command = install_command(FIRST_PARTY[name])
        return f"plugin {name!r} is provided by {FIRST_PARTY[name]}, which is not installed. Run: {command}"
    plugins = sorted(plugins)
    near = close_names(name, plugins)
    listed = f"Close names: {', '.join(near)}." if near else f"Installed: {', '.join(plugins) or 'none'}."
    return f"no plugin {name!r} is installed. {listed}"


def refresh_snapshot() -> None:
    """Look at everything again; whoever asks meanwhile gets the old state or the new one."""
    global _snapshot
    importlib.invalidate_caches()
    with _lock:
        _snapshot = scan()


def mark_broken(name: str, error: BaseException) -> None:
    """Record that a plugin failed after it was discovered; its manifest's entries disappear."""
    global _snapshot
    with _lock:
        _snapshot = current_snapshot().marked_broken(name, error)


def _report(snapshot: Snapshot) -> None:
    if not snapshot.faulty:
        return
    if flag("FLAMBEAU_STRICT_PLUGINS"):
        for plugin in snapshot.faulty:
            if plugin.state != "shadowed":
                raise PluginError(f"{plugin.reason} (FLAMBEAU_STRICT_PLUGINS is set.)") from plugin.error
    with _lock:
        reasons = [plugin.reason for plugin in snapshot.faulty if plugin.reason not in _warned]
        _warned.update(reasons)
    for reason in reasons:
        warnings.warn(f"{reason} `flambeau doctor` tells more.", PluginWarning, stacklevel=_users_frame())


def settle(plugin: Plugin) -> None:
    """Say no more about a plugin: its error is being raised."""
    with _lock:
        _warned.add(plugin.reason)


def _users_frame() -> int:
    """How far up the stack the code is that called into core."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("flambeau.core"):
        level, frame = level + 1, frame.f_back
    return level

"""The code of plugins: imported when first needed, one by one, so that a failing one hurts nobody else."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from flambeau.core import registry
from flambeau.core.attribution import attributed_to
from flambeau.core.errors import PluginError
from flambeau.core.plugins import manager
from flambeau.core.plugins.plugin import Plugin

if TYPE_CHECKING:
    import pluggy

# Held while hook modules are imported and called, so that whoever waits for it finds the hooks' entries.
_lock = threading.RLock()
_manager: pluggy.PluginManager | None = None
_loaded: set[str] = set()


def plugin_manager() -> pluggy.PluginManager:
    """The pluggy manager that knows the hook specifications and the plugins whose hooks are loaded by now.

    To call a hook of all plugins, use `run_hook`: it loads them, and survives the failing ones.
    """
    global _manager
    with _lock:
        if _manager is None:
            import pluggy

            from flambeau.core import hookspecs

            _manager = pluggy.PluginManager("flambeau")
            _manager.add_hookspecs(hookspecs)
        return _manager


def load_plugin(name: str) -> Plugin:
    """Import a plugin's package and its hooks, and let it register what is known only at run time.

    Raises:
        PluginError: the plugin is absent, or not in the state "ok", before or after.
    """
    plugin = manager.get_plugin(name)
    if plugin.state == "ok":
        try:
            importlib.import_module(plugin.package)
        except (Exception, SystemExit) as error:
            _drop(name, error)
        _load_wanted([name])
        plugin = manager.current_snapshot().plugins[name]
        manager.settle(plugin)
    if plugin.state != "ok":
        raise PluginError(plugin.reason) from plugin.error
    return plugin


def load_hooks(names: Collection[str] | None = None) -> None:
    """Import the hooks of these plugins (of all when None) that are not loaded yet, and let them register entries."""
    manager.reported_snapshot()
    _load_wanted(names)
    manager.reported_snapshot()


def _load_wanted(names: Collection[str] | None) -> None:
    plugins = manager.current_snapshot().plugins.values()
    wanted = [plugin for plugin in plugins if plugin.hooks and (names is None or plugin.name in names)]
    if not wanted:
        return
    with _lock:
        for plugin in wanted:
            if plugin.state == "ok" and plugin.name not in _loaded:
                _loaded.add(plugin.name)  # before the import: a look-up made by the plugin itself comes back here
                _load(plugin)


def run_hook(name: str, **arguments: Any) -> list[tuple[str, Any]]:
    """Call one hook of every plugin that implements it, each by itself.

    A plugin that fails becomes "broken", with its cause kept, and the others are called all the same.

    Args:
        name: a hook of `flambeau.core.hookspecs`, such as "flambeau_doctor".
        **arguments: the hook's arguments.

    Returns:
        (plugin name, result) pairs in pluggy's order of calling; results that are None are left out.
    """
    load_hooks()
    results = []
    with _lock:
        implementations = reversed(getattr(plugin_manager().hook, name).get_hookimpls())
        for plugin in dict.fromkeys(implementation.plugin_name for implementation in implementations):
            try:
                results += [(plugin, result) for result in _call(plugin, name, arguments)]
            except (Exception, SystemExit) as error:
                _drop(plugin, error)
    manager.reported_snapshot()
    return results


def forget() -> None:
    """Unregister all hooks and what they registered, so that the next need loads them again."""
    global _manager
    with _lock:
        _manager = None
        _loaded.clear()
        registry.forget_dynamic()


def _load(plugin: Plugin) -> None:
    with attributed_to(plugin) as changes:
        try:
            implementations = _import(plugin.hooks or "")
            hooks = plugin_manager()
            hooks.register(implementations, name=plugin.name)
            hooks.check_pending()  # a misspelled hook would otherwise never be called, and nobody would know
            changes.dynamic = True
            _call(plugin.name, "flambeau_register", {"registries": registry.by_kind()})
        except (Exception, SystemExit) as error:
            changes.undo()
            _drop(plugin.name, error)


def _import(target: str) -> object:
    module, _, attribute = target.partition(":")
    found: object = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def _call(plugin: str, hook: str, arguments: dict[str, Any]) -> list[Any]:
    hooks = plugin_manager()
    others = [module for name, module in hooks.list_name_plugin() if name != plugin and module is not None]
    results = hooks.subset_hook_caller(hook, others)(**arguments)
    return results if isinstance(results, list) else [results]


def _drop(name: str, error: BaseException) -> None:
    with _lock:
        hooks = plugin_manager()
        if hooks.has_plugin(name):
            hooks.unregister(name=name)
        manager.mark_broken(name, error)
        registry.forget_dynamic(name)

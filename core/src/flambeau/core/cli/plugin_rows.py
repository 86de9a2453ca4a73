"""The installed plugins as `flambeau plugins` and `flambeau doctor` show them."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from flambeau.core.errors import PluginError, PluginWarning, describe
from flambeau.core.plugins.manager import absent, current_snapshot
from flambeau.core.plugins.plugin import Plugin, install_command

BROKEN = 3  # the exit code of a strict listing, and of doctor, that met a broken plugin
FAULTY = ("broken", "incompatible")
TABLES = ("models", "weights", "datasets", "tensor_types", "kernels", "commands")


def show_counts(counts: Mapping[str, int]) -> str:
    """What a plugin provides, in one cell: `17 models, 1 dataset`."""
    return ", ".join(f"{n} {table.replace('_', ' ').removesuffix('s' * (n == 1))}" for table, n in counts.items() if n)


def choose(patterns: Sequence[str] = ()) -> list[Plugin]:
    """The installed plugins that the patterns mean, sorted by name; all without patterns.

    Warns about none of them: whoever asks is about to see the states.

    Raises:
        PluginError: a pattern that no installed plugin matches.
    """
    plugins = current_snapshot().plugins
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in plugins):
            raise PluginError(absent(pattern, plugins))
    return [plugins[n] for n in sorted(plugins) if not patterns or any(fnmatchcase(n, p) for p in patterns)]


def load(plugins: Iterable[Plugin]) -> None:
    """Import the package and the hooks of plugins; those that fail are broken from here on, with their cause.

    Nobody is warned: whoever asks is about to see the states.
    """
    from flambeau.core.plugins.hooks import load_plugin

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        for plugin in plugins:
            if plugin.state == "ok":
                with contextlib.suppress(PluginError):
                    load_plugin(plugin.name)


def row(plugin: Plugin) -> dict[str, Any]:
    """One plugin as the listing's JSON has it."""
    manifest = current_snapshot().manifests.get(plugin.name, {}) if plugin.state == "ok" else {}
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "state": plugin.state,
        "api": plugin.api,
        "package": plugin.package,
        "manifest": str(plugin.manifest_path) if plugin.manifest_path else None,
        "hooks": plugin.hooks,
        "editable": plugin.editable,
        "home_page": plugin.home_page,
        "error": describe(plugin.error) if plugin.error else None,
        "remedy": remedy(plugin),
        "provides": {table: len(manifest.get(table, ())) for table in TABLES},
    }


def remedy(plugin: Plugin) -> str | None:
    """What to do about a plugin that does not take part; None for one that does."""
    if plugin.state == "ok":
        return None
    if plugin.state == "disabled":
        return f"flambeau plugins enable {plugin.name}"
    if plugin.state == "shadowed":
        return f"{sys.executable or 'python'} -m pip uninstall {plugin.distribution}"
    if plugin.state == "incompatible":
        return install_command(f"--upgrade flambeau-core {plugin.distribution}")
    missing = plugin.error.name if isinstance(plugin.error, ModuleNotFoundError) else None
    if missing and not missing.startswith(plugin.package):
        return f"install what provides the module {missing!r}, or: flambeau plugins disable {plugin.name}"
    return f"{reinstall(plugin.distribution)}; or: flambeau plugins disable {plugin.name}"


def reinstall(distribution: str) -> str:
    """The command that installs a distribution anew."""
    return install_command(f"--force-reinstall --no-deps {distribution}")

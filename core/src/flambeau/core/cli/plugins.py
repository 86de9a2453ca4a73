"""`flambeau plugins`: what is installed, what state it is in and why, and switching it off and on.

`list --json` prints an array of::

    {"name", "distribution", "version", "state": "ok"|"broken"|"incompatible"|"shadowed"|"disabled", "api", "package",
     "manifest": path|null, "hooks", "editable": bool, "home_page", "error": text|null, "remedy": text|null,
     "provides": {"models": int, "weights": int, "datasets": int, "tensor_types": int, "kernels": int, "commands": int}}

`show --json` prints the same with `names`: table -> ids of what the plugin provides.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from flambeau.core.cli.output import Column, print_records, print_table
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.environment import update_config
from flambeau.core.errors import CommandError, PluginError, PluginWarning, describe
from flambeau.core.plugins import Plugin
from flambeau.core.plugins.manager import absent, current_snapshot
from flambeau.core.plugins.plugin import install_command
from flambeau.core.terminal import printable

BROKEN = 3  # the exit code of a strict listing, and of doctor, that met a broken plugin
FAULTY = ("broken", "incompatible")
TABLES = ("models", "weights", "datasets", "tensor_types", "kernels", "commands")


def show_counts(counts: Mapping[str, int]) -> str:
    """What a plugin provides, in one cell: `17 models, 1 dataset`."""
    return ", ".join(f"{n} {table.replace('_', ' ').removesuffix('s' * (n == 1))}" for table, n in counts.items() if n)


COLUMNS = (
    Column("name", "plugin"),
    Column("distribution", "distribution"),
    Column("version", "version"),
    Column("state", "state"),
    Column("provides", "provides", show_counts, raw=show_counts),
    Column("error", "cause"),
)


def configure(parser: Parser) -> None:
    """Add the actions on plugins."""
    from flambeau.core.cli import doctor

    actions = parser.actions(default="list")
    listing = actions.add_parser("list", help="list plugins and their states (the default)")
    listing.add_argument("names", nargs="*", metavar="NAME", help="names or quoted wildcards")
    listing.add_argument("--strict", action="store_true", help=f"exit with {BROKEN} if one is broken or incompatible")
    load = "import each plugin first, so that one that cannot be imported is seen as broken"
    listing.add_argument("--load", action="store_true", help=load)
    listing.completes = "plugins"
    add_json(listing)
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="everything known about a plugin, and all that it provides")
    show.add_argument("names", nargs="+", metavar="NAME", help="names or quoted wildcards")
    show.completes = "plugins"
    add_json(show)
    show.set_defaults(run=run_show)
    for verb, run in (("enable", run_enable), ("disable", run_disable)):
        switch = actions.add_parser(verb, help=f"{verb} plugins for this user")
        switch.add_argument("names", nargs="+", metavar="NAME", help="names of plugins")
        switch.completes = "plugins"
        switch.set_defaults(run=run)
    actions.add_parser("doctor", help="the same as `flambeau doctor`", setup=doctor.configure)


def run_list(arguments: argparse.Namespace) -> int:
    """Print a table of plugins."""
    if arguments.load:
        load(choose(arguments.names))
    plugins = choose(arguments.names)
    nothing = "no plugins are installed; for a first one: pip install flambeau-vision"
    print_table([row(plugin) for plugin in plugins], COLUMNS, as_json=arguments.json, nothing=nothing)
    return BROKEN if arguments.strict and any(plugin.state in FAULTY for plugin in plugins) else 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print everything known about the chosen plugins."""
    records = [row(plugin) | {"names": _names(plugin)} for plugin in choose(arguments.names)]
    if not arguments.json:
        records = [record | {"names": None} | record["names"] for record in records]
    print_records(records, as_json=arguments.json)
    return 0


def run_enable(arguments: argparse.Namespace) -> int:
    """Take plugins off the user's list of disabled ones."""
    return _switch(arguments.names, disable=False)


def run_disable(arguments: argparse.Namespace) -> int:
    """Put plugins on the user's list of disabled ones."""
    return _switch(arguments.names, disable=True)


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
    from flambeau.core.plugins import load_plugin

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


def _names(plugin: Plugin) -> dict[str, list[str]]:
    manifest = current_snapshot().manifests.get(plugin.name, {}) if plugin.state == "ok" else {}
    names = {table: [_name(table, record) for record in manifest.get(table, ())] for table in TABLES}
    prefix = {table: "" if table in ("kernels", "commands") else f"{plugin.name}/" for table in TABLES}
    return {table: sorted(prefix[table] + name for name in found) for table, found in names.items()}


def _name(table: str, record: Mapping[str, Any]) -> str:
    if table == "weights":
        return f"{record['model']}:{record['name']}"
    return str(record["namespace"] if table == "kernels" else record["name"])


def _switch(names: Sequence[str], *, disable: bool) -> int:
    installed = {plugin.name for plugin in current_snapshot().plugins.values()}

    def change(config: dict[str, Any]) -> None:
        plugins = config.setdefault("plugins", {})
        disabled = set(plugins.get("disabled", []))
        for name in names:
            if name not in installed | disabled:
                raise CommandError(absent(name, installed))
        plugins["disabled"] = sorted(disabled | set(names) if disable else disabled - set(names))

    config = update_config(change)
    print(printable(f"disabled for this user: {', '.join(config['plugins']['disabled']) or 'no plugin'}"))
    _warn_about_variable(names, disable=disable)
    return 0


def _warn_about_variable(names: Sequence[str], *, disable: bool) -> None:
    words = os.environ.get("FLAMBEAU_DISABLE_PLUGINS", "").replace(" ", "").split(",")
    still = [name for name in names if name in words or "*" in words]
    if still and not disable:
        print(f"flambeau: FLAMBEAU_DISABLE_PLUGINS still switches off {', '.join(still)}.", file=sys.stderr)

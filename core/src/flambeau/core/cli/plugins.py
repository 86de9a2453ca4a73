"""`flambeau plugins`: what is installed, what state it is in and why, and switching it off and on.

`list --json` prints an array of::

    {"name", "distribution", "version", "state": "ok"|"broken"|"incompatible"|"shadowed"|"disabled", "api", "package",
     "manifest": path|null, "hooks", "editable": bool, "home_page", "error": text|null, "remedy": text|null,
     "provides": {"models": int, "weights": int, "datasets": int, "tensor_types": int, "kernels": int, "commands": int}}

`show --json` prints the same with `names`: table -> ids of what the plugin provides.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.core.cli.output import Column, print_records, print_table
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.cli.plugin_rows import BROKEN, FAULTY, TABLES, choose, load, row, show_counts
from flambeau.core.environment import update_config
from flambeau.core.errors import CommandError
from flambeau.core.plugins.manager import absent, current_snapshot
from flambeau.core.plugins.plugin import Plugin
from flambeau.core.terminal import printable

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
    strict = f"like --load, and exit with {BROKEN} if one is broken or incompatible"
    listing.add_argument("--strict", action="store_true", help=strict)
    load = "import each plugin first, so that one that cannot be imported is seen as broken: without it manifests tell"
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
    if arguments.load or arguments.strict:
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

"""Which registry entries a command line means: names, short names, aliases and wildcards."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from flambeau.core.errors import PluginError, UnknownNameError
from flambeau.core.naming import names_of

if TYPE_CHECKING:
    from flambeau.core.cli.parser import Parser
    from flambeau.core.registry import Entry, Registry

_WILDCARDS = frozenset("*?[")


def add_patterns(parser: Parser, kind: str, *, required: bool = False, note: str = "") -> None:
    """Positional names or wildcards, and the option that narrows them to one plugin.

    Args:
        parser: what to add them to.
        kind: "models", "weights" or "datasets".
        required: whether at least one has to be given.
        note: what it means to give none, or the like.
    """
    parser.completes = kind
    parser.add_argument(
        "names",
        nargs="+" if required else "*",
        metavar="NAME",
        help=f"{kind}{note}: plugin/name, a unique short name, or a quoted wildcard such as 'vision/*'",
    )
    parser.add_argument("--plugin", help="only what this plugin offers")


def add_listing(parser: Parser, kind: str) -> None:
    """What every listing takes: names, and whether plugins' code is asked too."""
    add_patterns(parser, kind)
    parser.add_argument("--all", action="store_true", help="import plugins' hooks for what is known only at run time")


def listed(registry: Registry, arguments: argparse.Namespace) -> list[Entry]:
    """The entries that a listing's arguments mean.

    Raises:
        As `select`.
    """
    if arguments.all:
        from flambeau.core.plugins.hooks import load_hooks

        load_hooks()
    return select(registry, arguments.names, plugin=arguments.plugin)


def select(registry: Registry, patterns: Sequence[str] = (), *, plugin: str | None = None) -> list[Entry]:
    """The entries that any of the patterns means, sorted by id; all of them without patterns.

    A word without wildcard characters is one name and is looked up as the registry does.

    Raises:
        UnknownNameError: a name or a pattern that nothing matches.
        AmbiguousNameError: a short name that several plugins offer.
        PluginError: there is no such plugin, or it takes no part.
    """
    entries = registry.entries(plugin=plugin)
    if plugin is not None and not entries:
        _expect_plugin(plugin)
    if not patterns:
        return entries
    found: dict[str, Entry] = {}
    for pattern in patterns:
        matches = [entry for entry in entries if any(fnmatchcase(name, pattern) for name in names_of(entry))]
        if not _WILDCARDS & set(pattern) and len(matches) != 1:
            matches = [registry.entry(pattern)]
        if not matches:
            among = f" of plugin {plugin!r}" if plugin else ""
            raise UnknownNameError(
                f"nothing in {registry.kind}{among} matches {pattern!r}; `flambeau {registry.kind} list` shows all."
            )
        found |= {entry.id: entry for entry in matches}
    return [found[key] for key in sorted(found)]


def _expect_plugin(name: str) -> None:
    """Say why nothing is of a plugin, unless it simply has nothing of the kind."""
    from flambeau.core.plugins.manager import get_plugin

    plugin = get_plugin(name)
    if plugin.state != "ok":
        raise PluginError(plugin.reason)

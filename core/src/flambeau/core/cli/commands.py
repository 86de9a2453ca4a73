"""Which commands there are: ours, those that manifests declare, and those that hooks add; and how one is run.

Help for our commands needs this table alone. Manifests are read when `--help` lists everything or a word is none of
ours; hook modules are imported last, when a word is in no manifest either.

A plugin's command is known by its short name where that is unique, and always as `plugin/name`. Our own names cannot be
taken over.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from flambeau.core.cli.parser import Parser, unknown
from flambeau.core.errors import CommandError, describe


@dataclass(frozen=True)
class Command:
    """One command: its name, a line of help, and the `configure` function as "module:name"."""

    name: str
    help: str
    target: str
    plugin: str | None = None


BUILT_IN = tuple(
    Command(name, help, f"flambeau.core.cli.{module}:configure")
    for name, module, help in (
        ("predict", "predict", "run a pretrained model on a file or a text"),
        ("models", "models", "list models, show one"),
        ("weights", "weights", "list, show, fetch, verify and remove pretrained weights"),
        ("datasets", "datasets", "list, show, fetch and verify datasets"),
        ("plugins", "plugins", "list plugins and their states, switch them on and off"),
        ("kernels", "kernels", "show the native kernels and which implementation serves"),
        ("doctor", "doctor", "check the installation and say what to do"),
        ("new-plugin", "new_plugin", "write a complete, tested plugin project"),
        ("migrate", "migrate", "rewrite imports of the upstream libraries to Flambeau"),
        ("completion", "completion", "print the completion script for a shell"),
    )
)


def run(words: Sequence[str]) -> int:
    """Parse the words after the program's name and run the command they ask for."""
    parser = program(words)
    arguments = parser.parse_args(words)
    return int(arguments.run(arguments) or 0)


def program(words: Sequence[str]) -> Parser:
    """The parser that understands `words`; plugins are looked at only when ours do not suffice."""
    from flambeau.core.version import __version__

    parser = Parser(prog="flambeau", description="Models, weights, datasets and kernels of every installed plugin.")
    parser.add_argument("--version", action="version", version=f"flambeau-core {__version__}")
    group = parser.actions(metavar="COMMAND")
    for command in BUILT_IN:
        group.add_parser(command.name, help=command.help, setup=partial(_configure, command))
    asked = next((word for word in words if not word.startswith("-")), None)
    if asked in parser.children or words[:1] == ["--version"]:
        return parser
    for command in declared():
        text = f"{command.help} [{command.plugin}]".replace("%", "%%")  # argparse fills its helps in
        group.add_parser(command.name, help=text, setup=partial(_configure, command))
    if asked is not None and asked not in parser.children:
        _add_hooked(group)
    if asked is not None and asked not in parser.children:
        parser.error(unknown(asked, parser.children, "command"))
    return parser


def declared() -> list[Command]:
    """The commands in the manifests of all working plugins, sorted by name."""
    from flambeau.core.plugins.manager import contributions

    commands = [
        Command(record["name"], record.get("help", ""), record["target"], plugin.name)
        for plugin, record in contributions("commands")
    ]
    count = Counter(command.name for command in commands)
    ours = {command.name for command in BUILT_IN}
    short = [c for c in commands if count[c.name] == 1 and c.name not in ours]
    whole = [Command(f"{c.plugin}/{c.name}", c.help, c.target, c.plugin) for c in commands if c not in short]
    return sorted([*short, *whole], key=lambda command: command.name)


def _configure(command: Command, parser: Parser) -> None:
    from flambeau.core.naming import import_target

    try:
        configure = cast("Callable[[argparse.ArgumentParser], None]", import_target(command.target))
        configure(parser)
    except Exception as error:  # a plugin's code: whatever it raises, its user needs a sentence
        if command.plugin is None:
            raise
        raise CommandError(
            f"command {command.name!r} of plugin {command.plugin!r} cannot be loaded from {command.target}: "
            f"{describe(error).removesuffix('.')}. "
            f"Update or reinstall the plugin, or switch it off: flambeau plugins disable {command.plugin}"
        ) from error
    if parser.get_default("run") is None and not parser.children:
        raise CommandError(
            f"command {command.name!r} ({command.target}) set no function to run; "
            "its `configure(parser)` has to call parser.set_defaults(run=function)."
        )


def _add_hooked(group: argparse._SubParsersAction[Parser]) -> None:
    """Let hook modules add commands (`flambeau_cli`)."""
    from flambeau.core.plugins.hooks import run_hook

    run_hook("flambeau_cli", subparsers=group)

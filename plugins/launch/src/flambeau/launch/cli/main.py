"""The verbs of the command line, each imported when it is used."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

from flambeau.core.cli.parser import Parser
from flambeau.launch.cli.cmd_base import SubCommand

__all__ = ["configure", "create_parser", "get_default_sub_cmds", "get_sub_cmds", "main", "run_main"]

VERBS: dict[str, tuple[str, str]] = {
    "run": ("cmd_run:CmdRun", "submit a component"),
    "status": ("cmd_status:CmdStatus", "tell how an application stands"),
    "log": ("cmd_log:CmdLog", "print what replicas wrote"),
    "list": ("cmd_list:CmdList", "list the applications of a scheduler"),
    "cancel": ("cmd_cancel:CmdCancel", "cancel an application"),
    "describe": ("cmd_describe:CmdDescribe", "print the description of an application"),
    "runopts": ("cmd_runopts:CmdRunopts", "list the options of schedulers"),
    "configure": ("cmd_configure:CmdConfigure", "write a configuration file to fill in"),
    "builtins": ("cmd_run:CmdBuiltins", "list all components"),
    "tracker": ("cmd_tracker:CmdTracker", "show what runs left in a tracker"),
    "doctor": ("cmd_doctor:CmdDoctor", "tell what each scheduler lacks here"),
}
"""Verb -> its class, and a line of help."""
ADDED = "torchx.cli.cmds"
"""Group of entry points with further verbs: classes of `SubCommand`."""
sub_parser_description = (
    "Each verb has a `--help` of its own, and so has each component: flambeau launch run COMPONENT --help"
)


def _make(target: str) -> SubCommand:
    module, _, name = target.partition(":")
    return cast("SubCommand", getattr(import_module(f"flambeau.launch.cli.{module}"), name)())


def get_default_sub_cmds() -> dict[str, SubCommand]:
    """The verbs of this package."""
    return {verb: _make(target) for verb, (target, _) in VERBS.items()}


def get_sub_cmds() -> dict[str, SubCommand]:
    """All verbs: ours, and those of other distributions, which may replace ours."""
    from flambeau.launch.util.entrypoints import load_group

    return {**get_default_sub_cmds(), **{name: make() for name, make in (load_group(ADDED) or {}).items()}}


def configure(parser: argparse.ArgumentParser) -> None:
    """Fill in the parser of `flambeau launch`; a verb's own module is imported when the verb is chosen."""
    from flambeau.launch.util.entrypoints import is_declared

    makers: dict[str, Callable[[], SubCommand]] = {verb: partial(_make, target) for verb, (target, _) in VERBS.items()}
    if is_declared(ADDED):
        from importlib.metadata import entry_points

        makers |= {point.name: partial(_load, point) for point in entry_points(group=ADDED)}
    _fill(cast("Parser", parser), makers)


def _load(point: Any) -> SubCommand:
    return cast("SubCommand", point.load()())


def _fill(parser: Parser, makers: dict[str, Callable[[], SubCommand]]) -> None:
    parser.add_argument(
        "--log_level", default="WARNING", metavar="LEVEL", help="of Python's logging (default: %(default)s)"
    )
    parser.add_argument("--verbose", action="store_true", help="show tracebacks of errors")
    group = parser.actions(metavar="COMMAND")
    for verb, make in makers.items():
        text = VERBS[verb][1] if verb in VERBS else "added by another distribution"
        group.add_parser(verb, help=text, setup=partial(_set_up, make))


def _set_up(make: Callable[[], SubCommand], parser: Parser) -> None:
    command = make()
    command.add_arguments(parser)
    parser.set_defaults(run=partial(_run, command), func=command.run)


def _run(command: SubCommand, args: argparse.Namespace) -> int:
    import logging

    logging.basicConfig(level=_level(args.log_level), format="%(name)s: %(message)s", force=True)
    try:
        command.run(args)
    except Exception:
        if args.verbose:
            import traceback

            traceback.print_exc()
        raise
    return 0


def _level(name: str) -> int | str:
    return int(name) if name.isdigit() else name.upper()


def create_parser(subcmds: dict[str, SubCommand]) -> argparse.ArgumentParser:
    """A parser of these verbs; what is parsed has the verb's function as `func`."""
    from flambeau.launch import __version__

    parser = Parser(prog="flambeau launch", description="Launch applications.", epilog=sub_parser_description)
    parser.add_argument("--version", action="version", version=f"flambeau-launch {__version__}")
    _fill(parser, {verb: partial(_same, command) for verb, command in subcmds.items()})
    return parser


def _same(command: SubCommand) -> SubCommand:
    return command


def run_main(subcmds: dict[str, SubCommand], argv: list[str] | None = None) -> None:
    """Parse a command line and do what it says; errors of this package end it with a line and code 1."""
    from flambeau.core.errors import FlambeauError

    args = create_parser(subcmds).parse_args(sys.argv[1:] if argv is None else argv)
    try:
        args.run(args)
    except (FlambeauError, OSError) as error:
        print(f"flambeau launch: error: {error}", file=sys.stderr)
        sys.exit(1)


def main(argv: list[str] | None = None) -> None:
    """The program `flambeau-launch`: `flambeau launch` without the first word."""
    from flambeau.core.cli import main as flambeau

    words = sys.argv[1:] if argv is None else argv
    if words == ["--version"]:
        from flambeau.launch import __version__

        print(f"flambeau-launch {__version__}")
        return
    if code := flambeau(["launch", *words]):
        sys.exit(code)


if __name__ == "__main__":
    main()

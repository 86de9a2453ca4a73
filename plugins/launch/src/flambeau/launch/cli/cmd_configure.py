"""`flambeau launch configure`."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from flambeau.core.files import write_atomic
from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.errors import ConfigurationError
from flambeau.launch.runner.config import OWN_CONFIG_FILE, dump

__all__ = ["CmdConfigure"]


class CmdConfigure(SubCommand):
    """Writes a configuration file with the options of schedulers, to be filled in."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Which schedulers and options, and where to."""
        subparser.add_argument("-s", "--schedulers", default="", help="their names, with commas between (default: all)")
        subparser.add_argument("--print", action="store_true", help="print it, and write no file")
        subparser.add_argument(
            "-a", "--all", action="store_true", help="all options, not only those that must be given"
        )

    def run(self, args: argparse.Namespace) -> None:
        """Write or print it; a file that is there stays."""
        text = io.StringIO()
        dump(text, [name for name in args.schedulers.split(",") if name] or None, required_only=not args.all)
        if args.print:
            sys.stdout.write(text.getvalue())
            return
        path = Path(OWN_CONFIG_FILE)
        if path.exists():
            raise ConfigurationError(f"{path.absolute()} is there already; move it away, or print by --print.")
        write_atomic(path, text.getvalue())
        print(path.absolute())

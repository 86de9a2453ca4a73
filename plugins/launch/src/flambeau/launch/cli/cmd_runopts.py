"""`flambeau launch runopts [SCHEDULER]`."""

from __future__ import annotations

import argparse

from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.errors import MissingBackend
from flambeau.launch.runner.options import scheduler_options
from flambeau.launch.schedulers import get_scheduler_factories

__all__ = ["CmdRunopts"]


class CmdRunopts(SubCommand):
    """Lists the options of schedulers."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """A scheduler, or none for all."""
        subparser.add_argument("scheduler", nargs="?", help="its name; all where not given")

    def run(self, args: argparse.Namespace) -> None:
        """Print them; of all schedulers those that can be used here."""
        for name in [args.scheduler] if args.scheduler else get_scheduler_factories():
            try:
                print(f"{name}:\n{scheduler_options(name)!r}\n")
            except MissingBackend as error:
                if args.scheduler:
                    raise
                print(f"{name}:\n    {error}\n")

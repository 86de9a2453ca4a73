"""`flambeau launch list -s SCHEDULER`."""

from __future__ import annotations

import argparse
import json

from flambeau.launch.cli.argparse_util import ArgOnceAction
from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.cli.output import table
from flambeau.launch.runner import get_runner
from flambeau.launch.schedulers import get_default_scheduler_name, get_scheduler_factories

__all__ = ["HANDLE_HEADER", "STATUS_HEADER", "CmdList"]

HANDLE_HEADER = "APP HANDLE"
STATUS_HEADER = "APP STATUS"


class CmdList(SubCommand):
    """Lists the applications that a scheduler knows."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """A scheduler."""
        names = list(get_scheduler_factories())
        subparser.add_argument(
            *("-s", "--scheduler"),
            action=ArgOnceAction,
            choices=names,
            default=get_default_scheduler_name(),
            metavar="NAME",
            help=f"one of {', '.join(names)} (default: %(default)s)",
        )
        subparser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, args: argparse.Namespace) -> None:
        """Ask and print."""
        with get_runner() as runner:
            apps = runner.list(args.scheduler)
        if args.json:
            print(json.dumps([{"handle": app.app_handle, "state": app.state.name} for app in apps], indent=2))
        else:
            print(table((HANDLE_HEADER, STATUS_HEADER), [(app.app_handle, app.state.name) for app in apps]))

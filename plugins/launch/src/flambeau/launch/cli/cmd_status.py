"""`flambeau launch status HANDLE`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.errors import UnknownAppException
from flambeau.launch.runner import get_runner

__all__ = ["CmdStatus", "parse_list_arg"]


def parse_list_arg(arg: str) -> list[str] | None:
    """The words between commas; None for none."""
    return [word.strip() for word in arg.split(",")] if arg else None


class CmdStatus(SubCommand):
    """Tells how an application stands; fails where the scheduler does not know it."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """A handle, and which roles."""
        subparser.add_argument("app_handle", help="such as slurm://torchx/1234")
        subparser.add_argument("--roles", type=str, default="", help="roles to show, with commas between")
        subparser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, args: argparse.Namespace) -> None:
        """Ask and print."""
        with get_runner() as runner:
            status = runner.status(args.app_handle)
        if status is None:
            raise UnknownAppException(args.app_handle)
        if args.json:
            fields = asdict(status)
            fields["state"] = status.state.name
            for role in fields["roles"]:
                for replica in role["replicas"]:
                    replica["state"] = replica["state"].name
            print(json.dumps(fields, indent=2))
        else:
            print(status.format(parse_list_arg(args.roles)))
        sys.stdout.flush()

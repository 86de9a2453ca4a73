"""`flambeau launch describe HANDLE`."""

from __future__ import annotations

import argparse
import pprint
from dataclasses import asdict

from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.errors import UnknownAppException
from flambeau.launch.runner import get_runner

__all__ = ["CmdDescribe"]


class CmdDescribe(SubCommand):
    """Prints an application as far as its scheduler remembers it."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """A handle."""
        subparser.add_argument("app_handle", help="such as slurm://torchx/1234")

    def run(self, args: argparse.Namespace) -> None:
        """Ask and print."""
        with get_runner() as runner:
            app = runner.describe(args.app_handle)
        if app is None:
            raise UnknownAppException(args.app_handle)
        print(pprint.pformat(asdict(app), indent=2, width=80))

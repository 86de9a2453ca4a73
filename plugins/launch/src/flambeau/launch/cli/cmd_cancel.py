"""`flambeau launch cancel HANDLE`."""

from __future__ import annotations

import argparse

from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.errors import UnknownAppException
from flambeau.launch.runner import get_runner

__all__ = ["CmdCancel"]


class CmdCancel(SubCommand):
    """Cancels an application; fails where the scheduler does not know it."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """A handle."""
        subparser.add_argument("app_handle", help="such as slurm://torchx/1234")

    def run(self, args: argparse.Namespace) -> None:
        """Cancel it."""
        with get_runner() as runner:
            if runner.status(args.app_handle) is None:
                raise UnknownAppException(args.app_handle)
            runner.cancel(args.app_handle)

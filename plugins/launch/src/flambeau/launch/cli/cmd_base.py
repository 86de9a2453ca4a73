"""What every verb of the command line is."""

from __future__ import annotations

import abc
import argparse

__all__ = ["SubCommand"]


class SubCommand(abc.ABC):
    """A verb. Distributions add verbs as entry points of the group `torchx.cli.cmds`."""

    @abc.abstractmethod
    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Add the verb's arguments."""

    @abc.abstractmethod
    def run(self, args: argparse.Namespace) -> None:
        """Do it; to fail, raise SystemExit with a code, or an error of this package."""

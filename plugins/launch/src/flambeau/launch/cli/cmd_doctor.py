"""`flambeau launch doctor`."""

from __future__ import annotations

import argparse
import json
import sys

from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.cli.output import table
from flambeau.launch.plugins import broken_plugins, scheduler_plugins

__all__ = ["CmdDoctor", "checks"]


class CmdDoctor(SubCommand):
    """Tells what each scheduler lacks on this machine; nothing is asked of the schedulers themselves."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """How to print."""
        subparser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, args: argparse.Namespace) -> None:
        """Look and print; fails where a plugin is broken."""
        rows = checks()
        if args.json:
            print(json.dumps(rows, indent=2))
        else:
            print(table(("SCHEDULER", "STATE", "REMEDY"), [tuple(row.values()) for row in rows]))
        if any(row["state"] == "broken" for row in rows):
            sys.exit(1)


def checks() -> list[dict[str, str]]:
    """One record for each scheduler: its name, "ready", "incomplete" or "broken", and the remedy."""
    rows = []
    for name, plugin in scheduler_plugins().items():
        missing = plugin.missing()
        remedy = plugin.remedy(missing) if missing else ""
        rows.append({"scheduler": name, "state": "incomplete" if missing else "ready", "remedy": remedy})
    rows += [{"scheduler": name, "state": "broken", "remedy": why} for name, why in broken_plugins().items()]
    return rows

"""Write a plugin's manifest from its code, or tell what one may hold.

`python -m flambeau.core.manifest build PACKAGE [--check]`, `python -m flambeau.core.manifest reference`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Build or check manifests; returns the exit status: 0, 1 for a stale or invalid one, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m flambeau.core.manifest", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="derive a package's manifest from what its code registers")
    build.add_argument("packages", nargs="+", metavar="PACKAGE", help="importable package that holds the manifest")
    build.add_argument("--check", action="store_true", help="write nothing; exit with 1 and a diff when it is stale")
    commands.add_parser("reference", help="print what a manifest may hold, as Markdown")
    chosen = parser.parse_args(arguments)
    if chosen.command == "reference":
        from flambeau.core.manifest.reference import page

        sys.stdout.write(page())
        return 0

    _leave_out(chosen.packages)
    from flambeau.core.errors import ManifestError
    from flambeau.core.manifest.build import update

    status = 0
    for package in chosen.packages:
        try:
            report, current = update(package, check=chosen.check)
        except ManifestError as error:
            report, current = str(error), False
        sys.stdout.write(f"{report}\n")
        status = status if current else 1
    return status


def _leave_out(packages: Sequence[str]) -> None:
    """Give the manifests that are being rewritten no say: what they declare would contradict code that moved."""
    from flambeau.core.plugins.distributions import Installation
    from flambeau.core.plugins.manager import refresh_snapshot

    names = [declared.name for declared in Installation().declarations() if declared.package in packages]
    os.environ["FLAMBEAU_DISABLE_PLUGINS"] = ",".join([os.environ.get("FLAMBEAU_DISABLE_PLUGINS", ""), *names])
    refresh_snapshot()


if __name__ == "__main__":
    sys.exit(main())

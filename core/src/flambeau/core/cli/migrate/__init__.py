"""`flambeau migrate`: rewrite code that uses the upstream libraries, and lists that require them, for Flambeau.

Nothing is written without `--write`. `--json` prints::

    {"written": bool,
     "files": [{"path", "changed": bool, "error": str|null,
                "changes": [{"line", "before", "after"}], "notes": [{"line", "text", "reason"}],
                "absent": [{"line", "name", "reason"}]}],
     "distributions": [..]}

`notes` are places to look at by hand, `absent` the names that the installed packages do not have, `distributions` what
the migrated code has to have installed. Lines of a notebook count in its code cells joined.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.cli.migrate.table import distribution
from flambeau.core.cli.output import print_json
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.errors import CommandError

if TYPE_CHECKING:
    from flambeau.core.cli.migrate.files import Migrated


def configure(parser: Parser) -> None:
    """Add the paths and what to do with them."""
    parser.description = (
        "Rewrite imports of torchvision, torchaudio, torchtext, torchrec, torchrl, torchdata, tensordict, torcharrow, "
        "torchx, torchcsprng, captum.influence and fbgemm operators, with what uses them, in Python files and "
        "notebooks; and what requires their distributions, in requirements files, pyproject.toml, setup.cfg and "
        "environment.yml."
    )
    kinds = "a Python file, a notebook, a list of requirements or a folder"
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=kinds)
    parser.add_argument("--write", action="store_true", help="change the files; without it they are only read")
    parser.add_argument("--diff", action="store_true", help="print the changes as a unified diff")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Migrate the chosen files; 1 when some could not be read as Python."""
    if find_spec("libcst") is None:
        raise CommandError(
            f"`flambeau migrate` needs libcst. Run: {sys.executable} -m pip install 'flambeau-core[migrate]'"
        )
    from flambeau.core.cli.migrate.files import migrate, sources

    results = [result for path in sources(arguments.paths) if (result := migrate(path)) is not None]
    if arguments.write:
        for result in results:
            if result.changed:
                result.write()
    records = [_record(result) for result in results]
    if arguments.json:
        print_json({"written": arguments.write, "files": records, "distributions": _distributions(results)})
    elif arguments.diff:
        sys.stdout.writelines(result.diff() for result in results)
    else:
        _report(results, records, written=arguments.write)
    return int(any(result.error for result in results))


def _record(result: Migrated) -> dict[str, Any]:
    from flambeau.core.cli.migrate.installed import absent

    reasons = [(line, name, absent(name)) for name, line in sorted(result.names.items(), key=lambda item: item[1])]
    return {
        "path": str(result.path),
        "changed": result.changed,
        "error": result.error,
        "changes": [vars(change) for change in result.changes],
        "notes": [vars(note) for note in result.notes],
        "absent": [{"line": line, "name": name, "reason": reason} for line, name, reason in reasons if reason],
    }


def _distributions(results: list[Migrated]) -> list[str]:
    return sorted({distribution(name) for result in results for name in result.names})


def _report(results: list[Migrated], records: list[dict[str, Any]], *, written: bool) -> None:
    for result, record in zip(results, records, strict=True):
        for change in result.changes:
            print(f"{result.place(change.line)}: {change.before} -> {change.after}")
        for note in result.notes:
            print(f"{result.place(note.line)}: look at {note.text}: {note.reason}")
        seen = set()
        for missing in record["absent"]:
            if missing["reason"] not in seen:
                seen.add(missing["reason"])
                print(f"{result.place(missing['line'])}: missing: {missing['reason']}")
        if result.error:
            print(f"flambeau: {result.path}: {result.error}", file=sys.stderr)
    changed = sum(result.changed for result in results)
    places = sum(len(result.changes) for result in results)
    print(f"{places} places in {changed} files {'were' if written else 'would be'} changed.")
    if changed and not written:
        print("Nothing was written; use --write to do it, --diff to see it whole.")
    if distributions := _distributions(results):
        print(f"The code needs: pip install {' '.join(distributions)}")

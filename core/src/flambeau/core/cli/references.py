"""Where an entry comes from in the literature: its citation, and `--bibtex` to print that alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flambeau.core.errors import CommandError
from flambeau.core.terminal import printable

if TYPE_CHECKING:
    from flambeau.core.entry import Entry


def add_bibtex(parser: argparse.ArgumentParser) -> None:
    """The option of everything that can be cited."""
    parser.add_argument("--bibtex", action="store_true", help="print the reference alone, as BibTeX")


def citation(entry: Entry) -> str | None:
    """The entry's reference as its plugin states it, in the record itself or in its `meta`; None where it has none."""
    text = entry.info.get("citation") or entry.info.get("meta", {}).get("citation")
    return str(text).strip() if text else None


def print_bibtex(entries: Sequence[Entry]) -> int:
    """Print each different reference once.

    Raises:
        CommandError: none of the entries states a reference.
    """
    references = list(dict.fromkeys(text for entry in entries if (text := citation(entry))))
    if not references:
        raise CommandError(f"no citation is recorded for {', '.join(entry.id for entry in entries)}.")
    print(printable("\n\n".join(references)))
    missing = [entry.id for entry in entries if citation(entry) is None]
    if missing:
        print(f"flambeau: no citation is recorded for {', '.join(missing)}.", file=sys.stderr)
    return 0

"""The actions of `flambeau weights` on files: fetch, verify, path, purge."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.cli.cached import cached_path, fetch, forget, verify
from flambeau.core.cli.output import Column, print_json, print_outcomes, size
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.cli.selection import add_patterns, select
from flambeau.core.errors import CommandError, HashMismatchError, HubError
from flambeau.core.registry import WEIGHTS, Entry

if TYPE_CHECKING:
    from argparse import _SubParsersAction

STATES = (Column("id", "weights"), Column("state", "state"), Column("path", "file"), Column("detail", "detail"))
_DAY_S = 86_400.0


def configure(actions: _SubParsersAction[Parser]) -> None:
    """Add the actions."""
    fetching = actions.add_parser("fetch", help="download and verify weights")
    add_patterns(fetching, "weights", required=True)
    fetching.add_argument(
        "--offline", action="store_true", help="use what is cached, say what is missing and where it goes"
    )
    fetching.set_defaults(run=run_fetch)
    verifying = actions.add_parser("verify", help="read cached files again and compare size and hash")
    add_patterns(verifying, "weights", note=" (all that are cached, when none is named)")
    verifying.set_defaults(run=run_verify)
    path = actions.add_parser("path", help="print where the cached file is; fails if it is not there")
    add_patterns(path, "weights", required=True)
    path.set_defaults(run=run_path)
    purge = actions.add_parser("purge", help="remove cached files")
    add_patterns(purge, "weights", note=" whose files to remove")
    purge.add_argument("--all", action="store_true", help="remove everything that was fetched")
    purge.add_argument("--partial", action="store_true", help="remove what interrupted downloads left")
    purge.add_argument("--older-than", type=float, metavar="DAYS", help="remove what was not used for so long")
    purge.set_defaults(run=run_purge)
    for parser in (fetching, verifying, path, purge):
        add_json(parser)


def run_fetch(arguments: argparse.Namespace) -> int:
    """Fetch the chosen weights; one that fails does not keep the others from coming."""

    def fetched(entry: Entry) -> dict[str, Any]:
        return _state(entry, "ok", fetch(entry.info, offline=arguments.offline))

    return _each(select(WEIGHTS, arguments.names, plugin=arguments.plugin), fetched, arguments)


def run_verify(arguments: argparse.Namespace) -> int:
    """Hash the chosen files; all that are cached, when none is named."""
    entries = select(WEIGHTS, arguments.names, plugin=arguments.plugin)
    if not arguments.names:
        entries = [entry for entry in entries if cached_path(entry.info) is not None]
    return _each(entries, _verify, arguments)


def run_path(arguments: argparse.Namespace) -> int:
    """Print the paths of cached files, one a line; 1 if any is not cached."""
    entries = select(WEIGHTS, arguments.names, plugin=arguments.plugin)
    paths = [(entry, cached_path(entry.info)) for entry in entries]
    if arguments.json:
        print_json([_state(entry, "ok" if path else "missing", path) for entry, path in paths])
    else:
        for _, path in paths:
            if path:
                print(path)
    missing = [entry.id for entry, path in paths if path is None]
    if missing:
        raise CommandError(f"not cached: {', '.join(missing)}. Run: flambeau weights fetch {' '.join(missing)}")
    return 0


def run_purge(arguments: argparse.Namespace) -> int:
    """Remove cached files and say how much room that made."""
    from flambeau.core.hub.cache import purge

    ways = [bool(arguments.names), arguments.all, arguments.partial or arguments.older_than is not None]
    if sum(ways) != 1:
        raise CommandError("say what to remove: names of weights, --all, or --partial and --older-than DAYS.")
    if arguments.names:
        entries = select(WEIGHTS, arguments.names, plugin=arguments.plugin)
        freed = sum(forget(entry.info) for entry in entries)
    else:
        age_s = None if arguments.older_than is None else arguments.older_than * _DAY_S
        freed = purge(older_than=age_s, partial_only=arguments.partial)
    if arguments.json:
        print_json({"freed": freed})
    else:
        print(f"{size(freed)} freed")
    return 0


def _verify(entry: Entry) -> dict[str, Any]:
    path = cached_path(entry.info)
    if path is None:
        return _state(entry, "missing", None)
    try:
        verify(entry.info, path)
    except HashMismatchError as error:
        return _state(entry, "damaged", path, str(error))
    return _state(entry, "ok", path)


def _each(entries: list[Entry], work: Callable[[Entry], dict[str, Any]], arguments: argparse.Namespace) -> int:
    rows = []
    for entry in entries:
        try:
            rows.append(work(entry))
        except HubError as error:
            rows.append(_state(entry, "failed", None, str(error)))
    print_outcomes(rows, STATES, as_json=arguments.json, nothing="no weights are cached")
    return int(any(row["state"] != "ok" for row in rows))


def _state(entry: Entry, state: str, path: Path | None, detail: str = "") -> dict[str, Any]:
    return {"id": entry.id, "state": state, "path": str(path) if path else None, "detail": detail or None}

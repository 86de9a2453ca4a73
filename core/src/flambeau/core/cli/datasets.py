"""`flambeau datasets`: what there is, where it comes from, and bringing its files into place.

`list --json` prints an array of::

    {"id", "plugin", "origin", "task", "splits": {name: items|null}, "size": bytes|null, "files": int, "license",
     "gated": "token"|"form"|"manual"|null, "homepage", "description", "urls": [..]}

`size` is that of all files together, null where one is unknown. `show --json` prints the same with `target`, `schema`
(what an item holds), `resources` (each file with its URLs, size and digests), `gate` and `citation`. `fetch` and
`verify` print an array of `{"id", "root", "path", "state", "detail"}`, one object a file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from flambeau.core.cli.output import Column, print_outcomes, print_records, print_table, size
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.cli.references import add_bibtex, citation, print_bibtex
from flambeau.core.cli.selection import add_listing, add_patterns, listed, select
from flambeau.core.errors import CommandError, HubError
from flambeau.core.registry import DATASETS, Entry

COLUMNS = (
    Column("id", "dataset"),
    Column("task", "task"),
    Column("splits", "splits"),
    Column("size", "size", size, number=True),
    Column("license", "licence"),
    Column("gated", "gated"),
)
URL_COLUMNS = (Column("id", "dataset"), Column("digest", "digest"), Column("size", "size"), Column("url", "url"))
STATES = (Column("id", "dataset"), Column("state", "state"), Column("path", "file"), Column("detail", "detail"))


def configure(parser: Parser) -> None:
    """Add the actions on datasets."""
    actions = parser.actions(default="list")
    listing = actions.add_parser("list", help="list datasets (the default)")
    add_listing(listing, "datasets")
    listing.add_argument("--task", help="only datasets for this task")
    listing.add_argument("--license", help="only datasets under this licence")
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="everything known about datasets, with licence and citation")
    add_patterns(show, "datasets", required=True)
    add_bibtex(show)
    show.set_defaults(run=run_show)
    for action in (listing, show):
        action.add_argument("--urls", action="store_true", help="a line for each address, with size and digest")
    fetch = actions.add_parser("fetch", help="download, verify and unpack datasets")
    fetch.add_argument("--no-extract", action="store_true", help="leave archives packed")
    fetch.set_defaults(run=run_fetch)
    verify = actions.add_parser("verify", help="compare the files that are there with what is announced")
    verify.set_defaults(run=run_verify)
    for action in (fetch, verify):
        add_patterns(action, "datasets", required=True)
        action.add_argument("--root", type=Path, help="folder of the files (default: a folder in the cache)")
        action.add_argument("--split", action="append", dest="splits", help="only the files of this split; repeatable")
    for action in (listing, show, fetch, verify):
        add_json(action)


def run_list(arguments: argparse.Namespace) -> int:
    """Print a table of datasets."""
    rows = [_row(entry) for entry in listed(DATASETS, arguments)]
    rows = [r for r in rows if arguments.task in (None, r["task"]) and arguments.license in (None, r["license"])]
    if arguments.urls and not arguments.json:
        _print_urls(rows)
    else:
        nothing = "no datasets; `flambeau plugins` shows what is installed"
        print_table(rows, COLUMNS, as_json=arguments.json, nothing=nothing)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print everything known about the chosen datasets."""
    entries = select(DATASETS, arguments.names, plugin=arguments.plugin)
    if arguments.bibtex:
        return print_bibtex(entries)
    if arguments.urls and not arguments.json:
        _print_urls([_row(entry) for entry in entries])
    else:
        print_records([_detail(entry) for entry in entries], as_json=arguments.json)
    return 0


def run_fetch(arguments: argparse.Namespace) -> int:
    """Bring the chosen datasets' files into place; one that fails does not keep the others from coming."""
    from flambeau.core.datasets import fetch_dataset

    rows = []
    for entry in _placed(arguments):
        try:
            root = fetch_dataset(entry.id, arguments.root, extract=not arguments.no_extract, splits=arguments.splits)
            rows.append(_state(entry, "ok", root))
        except HubError as error:
            rows.append(_state(entry, "failed", arguments.root, detail=str(error)))
    return _print_states(rows, arguments)


def run_verify(arguments: argparse.Namespace) -> int:
    """Print the state of each file of the chosen datasets; 1 if one is missing or damaged."""
    from flambeau.core.datasets import verify_dataset

    rows = [
        _state(entry, file.state, arguments.root, file.path, file.detail)
        for entry in _placed(arguments)
        for file in verify_dataset(entry.id, arguments.root, splits=arguments.splits)
    ]
    return _print_states(rows, arguments)


def _placed(arguments: argparse.Namespace) -> list[Entry]:
    entries = select(DATASETS, arguments.names, plugin=arguments.plugin)
    if len(entries) > 1 and arguments.root is not None:
        raise CommandError(
            f"--root is one dataset's folder, and {len(entries)} are chosen; name one, or leave --root out."
        )
    for entry in entries:
        known = list(entry.info.get("splits", ()))
        if wrong := [split for split in arguments.splits or () if split not in known]:
            raise CommandError(f"{entry.id} has no split {wrong[0]!r}; it has {', '.join(known) or 'none'}.")
    return entries


def _print_states(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    print_outcomes(rows, STATES, as_json=arguments.json, nothing="the chosen datasets have no files")
    return int(any(row["state"] in ("missing", "damaged", "failed") for row in rows))


def _state(entry: Entry, state: str, root: Path | None, path: str | None = None, detail: str = "") -> dict[str, Any]:
    folder = str(root) if root else None
    return {"id": entry.id, "root": folder, "path": path or folder, "state": state, "detail": detail or None}


def _row(entry: Entry) -> dict[str, Any]:
    record = entry.info
    files = record.get("files", ())
    sizes = [file.get("size") for file in files]
    gate = record.get("gated")
    return {
        "id": entry.id,
        "plugin": entry.plugin,
        "origin": entry.origin,
        "task": record.get("task"),
        "splits": {split: record.get("sizes", {}).get(split) for split in record.get("splits", ())},
        "size": sum(sizes) if files and None not in sizes else None,
        "files": len(files),
        "license": record.get("license"),
        "gated": gate.get("kind") if gate else None,
        "homepage": record.get("homepage"),
        "description": record.get("description"),
        "urls": [url for file in files for url in _urls(file)],
    }


def _urls(file: dict[str, Any]) -> list[str]:
    return [url for url in (file.get("url"), *file.get("mirrors", ())) if url]


def _detail(entry: Entry) -> dict[str, Any]:
    record = entry.info
    return _row(entry) | {
        "target": entry.target if isinstance(entry.target, str) else repr(entry.target),
        "schema": record.get("schema", []),
        "resources": [{**file, "urls": _urls(file)} for file in record.get("files", ())],
        "gate": record.get("gated"),
        "citation": citation(entry),
    }


def _print_urls(rows: list[dict[str, Any]]) -> None:
    lines = []
    for row in rows:
        for file in DATASETS.info(row["id"]).get("files", ()):
            digest = file.get("sha256") or file.get("md5")
            lines += [{"id": row["id"], "digest": digest, "size": file.get("size"), "url": url} for url in _urls(file)]
    print_table(lines, URL_COLUMNS)

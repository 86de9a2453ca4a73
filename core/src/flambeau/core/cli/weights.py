"""`flambeau weights`: pretrained parameters, what is known about them, and the files they are in.

`list --json` prints an array of::

    {"id", "plugin", "origin", "model", "enum", "member", "default": bool, "aliases": [..], "task",
     "parameters": int|null, "size": bytes|null, "metric": {"dataset", "name", "value"}|null, "license",
     "cached": bool, "format", "sha256", "urls": [..]}

`size` is approximate where the record has only upstream's `_file_size`. `urls` are in the order they are tried in.
`show --json` prints the same with `names`, `path` (of the cached file, or null), `transforms`, `citation` and `meta`.
`fetch`, `verify` and `path` print an array of `{"id", "state", "path", "detail"}`; `state` is ok, missing, damaged or
failed. `purge` prints `{"freed": bytes}`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from flambeau.core.cli.cached import anything_fetched, cached_path
from flambeau.core.cli.models import parameters
from flambeau.core.cli.output import Column, plain, print_records, print_table, scaled, size
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.cli.references import add_bibtex, citation, print_bibtex
from flambeau.core.cli.selection import add_listing, add_patterns, listed, select
from flambeau.core.naming import names_of
from flambeau.core.registry import MODELS, WEIGHTS, Entry


def show_metric(value: Mapping[str, Any] | None) -> str:
    """A metric in one cell: `acc@1 80.858 (ImageNet-1K)`."""
    return f"{value['name']} {value['value']:g} ({value['dataset']})" if value else ""


COLUMNS = (
    Column("id", "weights"),
    Column("parameters", "parameters", scaled, number=True),
    Column("size", "size", size, number=True),
    Column("metric", "main metric", show_metric, raw=show_metric),
    Column("cached", "cached"),
)
URL_COLUMNS = (Column("id", "weights"), Column("sha256", "sha256"), Column("size", "size"), Column("url", "url"))


def configure(parser: Parser) -> None:
    """Add the actions on weights."""
    from flambeau.core.cli import weight_files

    actions = parser.actions(default="list")
    listing = actions.add_parser("list", help="list weights (the default)")
    add_listing(listing, "weights")
    listing.add_argument("--task", help="only weights for this task, such as image-classification")
    listing.add_argument("--license", help="only weights under this licence")
    listing.add_argument("--max-parameters", type=float, metavar="N", help="only models up to this size, such as 30e6")
    listing.add_argument("--cached", action="store_true", help="only those whose file is here")
    listing.add_argument("--urls", action="store_true", help="a line for each address, with size and hash")
    add_json(listing)
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="everything known about weights")
    add_patterns(show, "weights", required=True)
    show.add_argument("--urls", action="store_true", help="print the addresses alone, with size and hash")
    add_bibtex(show)
    add_json(show)
    show.set_defaults(run=run_show)
    weight_files.configure(actions)


def run_list(arguments: argparse.Namespace) -> int:
    """Print a table of weights."""
    rows = [row for row in _rows(listed(WEIGHTS, arguments)) if _wanted(row, arguments)]
    if arguments.urls and not arguments.json:
        print_urls(rows)
    else:
        print_table(
            rows, COLUMNS, as_json=arguments.json, nothing="no weights; `flambeau plugins` shows what is installed"
        )
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print everything known about the chosen weights."""
    entries = select(WEIGHTS, arguments.names, plugin=arguments.plugin)
    if arguments.bibtex:
        return print_bibtex(entries)
    if arguments.urls and not arguments.json:
        print_urls(_rows(entries))
    else:
        details = [row | _detail(entry) for entry, row in zip(entries, _rows(entries), strict=True)]
        if not arguments.json:
            details = [row | {"metric": show_metric(row["metric"])} for row in details]
        print_records(details, as_json=arguments.json)
    return 0


def print_urls(rows: list[dict[str, Any]]) -> None:
    """A line for each address of each file, for machines without a network."""
    print_table([row | {"url": url} for row in rows for url in row["urls"]], URL_COLUMNS)


def metric(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """The main metric of a weights record: the first one of the first dataset in `meta["_metrics"]`."""
    for dataset, values in meta.get("_metrics", {}).items():
        for name, value in values.items():
            return {"dataset": dataset, "name": name, "value": value}
    return None


def file_size(record: Mapping[str, Any]) -> int | None:
    """Bytes of a record's file; from upstream's `_file_size` (MiB, three decimals) where no exact size is known."""
    if record.get("size") is not None:
        return int(record["size"])
    approximate = record.get("meta", {}).get("_file_size")
    return round(approximate * 2**20) if approximate is not None else None


def _rows(entries: list[Entry]) -> list[dict[str, Any]]:
    tasks = {entry.id: entry.info.get("task") for entry in MODELS.entries()}
    fetched = anything_fetched()
    return [_row(entry, tasks, fetched) for entry in entries]


def _row(entry: Entry, tasks: Mapping[str, str | None], fetched: bool) -> dict[str, Any]:
    record = entry.info
    model, _, member = entry.id.rpartition(":")
    return {
        "id": entry.id,
        "plugin": entry.plugin,
        "origin": entry.origin,
        "model": model,
        "enum": str(record.get("enum", "")).rpartition(":")[2],
        "member": member,
        "default": bool(record.get("default")),
        "aliases": list(record.get("aliases", ())),
        "task": record.get("task") or tasks.get(model),
        "parameters": parameters(entry),
        "size": file_size(record),
        "metric": metric(record.get("meta", {})),
        "license": record.get("license"),
        "cached": cached_path(record, fetched=fetched) is not None,
        "format": record.get("format", "auto"),
        "sha256": record.get("sha256"),
        "urls": [url for url in (record.get("url"), *record.get("mirrors", ())) if url],
    }


def _wanted(row: Mapping[str, Any], arguments: argparse.Namespace) -> bool:
    limit = arguments.max_parameters
    return (
        arguments.task in (None, row["task"])
        and arguments.license in (None, row["license"])
        and (limit is None or (row["parameters"] is not None and row["parameters"] <= limit))
        and (row["cached"] or not arguments.cached)
    )


def _detail(entry: Entry) -> dict[str, Any]:
    record = entry.info
    path = cached_path(record)
    transforms = record.get("transforms") or {}
    parameters_text = ", ".join(f"{key}={plain(value)}" for key, value in transforms.get("params", {}).items())
    return {
        "names": names_of(entry),
        "path": str(path) if path else None,
        "transforms": f"{transforms['target']}({parameters_text})" if transforms else None,
        "citation": citation(entry),
        "meta": record.get("meta", {}),
    }

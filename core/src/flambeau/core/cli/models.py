"""`flambeau models`: what can be built by name.

`list --json` prints an array of::

    {"id", "plugin", "origin", "task", "tags": [..], "weights": [ids], "default_weights": id|null,
     "parameters": int|null}

`parameters` is that of the default weights, null for a model without weights. `show --json` prints the same with
`target`, `enum` (of its weights), `names` (how else the model can be called), `licenses`, `citation` and `docs`.
"""

from __future__ import annotations

import argparse
from typing import Any

from flambeau.core.cli.output import Column, print_records, print_table, scaled
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.cli.references import add_bibtex, citation, print_bibtex
from flambeau.core.cli.selection import add_listing, add_patterns, listed, select
from flambeau.core.naming import names_of
from flambeau.core.registry import MODELS, WEIGHTS, Entry

COLUMNS = (
    Column("id", "model"),
    Column("task", "task"),
    Column("parameters", "parameters", scaled, number=True),
    Column("default_weights", "default weights"),
    Column("tags", "tags"),
)


def configure(parser: Parser) -> None:
    """Add the actions `list` and `show`."""
    actions = parser.actions(default="list")
    listing = actions.add_parser("list", help="list models (the default)")
    add_listing(listing, "models")
    listing.add_argument("--task", help="only models for this task, such as image-classification")
    listing.add_argument("--tag", help="only models with this tag")
    add_json(listing)
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="everything known about models")
    add_patterns(show, "models", required=True)
    add_bibtex(show)
    add_json(show)
    show.set_defaults(run=run_show)


def run_list(arguments: argparse.Namespace) -> int:
    """Print a table of models."""
    weights = _weights_by_model()
    rows = [
        _row(entry, weights.get(entry.id, []))
        for entry in listed(MODELS, arguments)
        if arguments.task in (None, entry.info.get("task"))
        and (arguments.tag is None or arguments.tag in entry.info.get("tags", ()))
    ]
    print_table(rows, COLUMNS, as_json=arguments.json, nothing="no models; `flambeau plugins` shows what is installed")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print everything known about the chosen models."""
    weights = _weights_by_model()
    entries = select(MODELS, arguments.names, plugin=arguments.plugin)
    if arguments.bibtex:
        return print_bibtex(entries)
    print_records([_detail(entry, weights.get(entry.id, [])) for entry in entries], as_json=arguments.json)
    return 0


def _weights_by_model() -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in sorted(WEIGHTS.entries(), key=lambda entry: entry.id):
        found.setdefault(entry.id.rpartition(":")[0], []).append(entry)
    return found


def _row(entry: Entry, weights: list[Entry]) -> dict[str, Any]:
    default = next((member for member in weights if member.info.get("default")), None)
    return {
        "id": entry.id,
        "plugin": entry.plugin,
        "origin": entry.origin,
        "task": entry.info.get("task"),
        "tags": list(entry.info.get("tags", ())),
        "weights": [member.id for member in weights],
        "default_weights": default.id if default else None,
        "parameters": parameters(default) if default else None,
    }


def parameters(entry: Entry) -> int | None:
    """The number of parameters a weights record states, None where it does not."""
    meta = entry.info.get("meta", {})
    count = entry.info.get("num_params", meta.get("num_params"))
    return int(count) if count is not None else None


def _detail(entry: Entry, weights: list[Entry]) -> dict[str, Any]:
    licenses = {member.info.get("license") for member in weights} - {None}
    return _row(entry, weights) | {
        "target": entry.target if isinstance(entry.target, str) else repr(entry.target),
        "enum": entry.info.get("weights"),
        "names": names_of(entry),
        "licenses": sorted(map(str, licenses)),
        "citation": citation(entry),
        "docs": entry.info.get("docs"),
    }

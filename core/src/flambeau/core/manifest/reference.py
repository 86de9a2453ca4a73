"""The page that says what a manifest may hold, rendered from the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.core.manifest.build import HEAD, TABLES
from flambeau.core.manifest.reading import MANIFEST_NAME
from flambeau.core.manifest.schema import Manifest

_INTRODUCTION = f"""\
# What a manifest may hold

`{MANIFEST_NAME}` lies in a plugin's package and is named by its entry point in the group `flambeau.manifest`
(`name = "package:{MANIFEST_NAME}"`). Listings read it and import nothing. Write the head by hand;
`python -m flambeau.core.manifest build PACKAGE` derives the tables from what the code registers, and `flambeau doctor`
validates the whole.

A value that cannot be used makes its plugin broken: `flambeau plugins` and `flambeau doctor` show the cause with the
JSON path, and the listings of all others go on. Unknown keys are kept and mean nothing, so that a newer manifest can be
read. Single values may be null where this page says so; lists and objects may be left out. Required keys are bold. A
count is an integer of 0 or more.

This page is rendered from the schema: `python -m flambeau.core.manifest reference`.
"""


# Tables that belong to the head: people write them.
_BY_HAND = ("commands", "predictors", "services")


def page() -> str:
    """The page, as Markdown."""
    schema = Manifest.model_json_schema(by_alias=True)
    parts: dict[str, Any] = schema["$defs"]
    sections = [_INTRODUCTION, "## The head\n\n" + _table(schema, skip=(*TABLES, *_BY_HAND))]
    written: set[str] = set()
    for key in (*TABLES, *(key for key in HEAD if key in _BY_HAND)):
        record = _name(schema["properties"][key]["items"])
        sections.append(f"## `{key}`\n\n{parts[record]['description']}\n\n{_table(parts[record])}")
        sections += _below(record, f"{key}[]", parts, written)
    return "\n".join(sections)


def _below(record: str, where: str, parts: dict[str, Any], written: set[str]) -> Iterator[str]:
    """The sections of the records inside a record, each once."""
    for key, value in parts[record]["properties"].items():
        for inner, many in _records(value):
            if inner not in written:
                written.add(inner)
                place = f"{where}.{key}{'[]' if many else ''}"
                yield f"### `{place}`\n\n{parts[inner]['description']}\n\n{_table(parts[inner])}"
                yield from _below(inner, place, parts, written)


def _records(value: dict[str, Any], many: bool = False) -> Iterator[tuple[str, bool]]:
    if "$ref" in value:
        yield _name(value), many
    for choice in value.get("anyOf", ()):
        yield from _records(choice, many)
    if isinstance(value.get("items"), dict):
        yield from _records(value["items"], True)


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _table(record: dict[str, Any], skip: tuple[str, ...] = ()) -> str:
    required = record.get("required", ())
    rows = [
        f"| {f'**`{key}`**' if key in required else f'`{key}`'} | {_kind(value)} | {value.get('description', '')} |"
        for key, value in record["properties"].items()
        if key not in skip
    ]
    return "\n".join(["| key | value | meaning |", "|---|---|---|", *rows, ""])


def _kind(value: dict[str, Any], plural: str = "") -> str:
    """What a value is, in words; `plural` is what nouns end in."""
    if "anyOf" in value:
        kinds = dict.fromkeys(_kind(choice, plural) for choice in value["anyOf"])
        if f"number{plural}" in kinds:
            kinds.pop(f"integer{plural}", None)  # which are numbers
        return " or ".join(kinds)
    if "$ref" in value:
        return f"object{plural}"
    if "const" in value:
        return str(value["const"])
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"])
    inner = value.get("items" if value.get("type") == "array" else "additionalProperties")
    below = f" of {_kind(inner, 's')}" if isinstance(inner, dict) and inner else ""
    if value.get("type") == "array":
        return f"list{plural}{below}"
    if value.get("type") == "object":
        return f"object{plural}{below}"
    if value.get("type") == "integer" and value.get("minimum") == 0:
        return f"count{plural}"
    return "null" if value.get("type") == "null" else f"{value.get('type', 'anything')}{plural}"

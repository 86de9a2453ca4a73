"""Read a manifest quickly, trusting nothing in it.

A manifest is data from a stranger: it may be huge, nested without end, of the wrong types, or no JSON at all. Whatever
is wrong ends in one `ManifestError` with the JSON path of the fault.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from flambeau.core.errors import ManifestError
from flambeau.core.manifest.values import Fault, check_values, shown

MANIFEST_NAME = "flambeau_plugin.json"
SCHEMA_VERSION = 1

# A hundred times the largest first-party manifest.
MOST_BYTES = 32 * 2**20

API_PATTERN = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
# Names are shown in terminals and typed in shells, so nothing that either would take for more than a letter.
ENTRY_PATTERN = re.compile(r"\w[\w.+-]{0,199}")

_NOTHING = type(None)
_Types = tuple[type, ...]
_Keys = dict[str, _Types]
_TEXT: _Types = (str,)
_MAYBE_TEXT: _Types = (str, _NOTHING)
_LIST: _Types = (list,)
_OBJECT: _Types = (dict,)
_MAYBE_OBJECT: _Types = (dict, _NOTHING)

HEAD_REQUIRED: _Keys = {"schema": (int,), "plugin": _TEXT, "api": _TEXT}
HEAD_OPTIONAL: _Keys = {"home_page": _MAYBE_TEXT, "hooks": _MAYBE_TEXT, "conformance": _MAYBE_TEXT, "requires": _OBJECT}

# Table -> keys that each record must have, keys it may have.
TABLES: dict[str, tuple[_Keys, _Keys]] = {
    "models": (
        {"name": _TEXT, "target": _TEXT},
        {"weights": _MAYBE_TEXT, "task": _MAYBE_TEXT, "tags": _LIST, "aliases": _LIST},
    ),
    "weights": (
        {"model": _TEXT, "enum": _TEXT, "name": _TEXT, "url": _TEXT},
        {
            "sha256": _MAYBE_TEXT,
            "size": (int, _NOTHING),
            "mirrors": _LIST,
            "format": _MAYBE_TEXT,
            "default": (bool,),
            "aliases": _LIST,
            "meta": _OBJECT,
            "transforms": _MAYBE_OBJECT,
            "license": _MAYBE_TEXT,
            "safe_globals": _LIST,
            "num_params": (int, _NOTHING),
            "task": _MAYBE_TEXT,
        },
    ),
    "datasets": (
        {"name": _TEXT, "target": _TEXT},
        {
            "task": _MAYBE_TEXT,
            "splits": (list, dict),
            "files": _LIST,
            "license": _MAYBE_TEXT,
            "gated": _MAYBE_OBJECT,
            "homepage": _MAYBE_TEXT,
            "aliases": _LIST,
        },
    ),
    "tensor_types": ({"name": _TEXT, "target": _TEXT}, {"aliases": _LIST}),
    "kernels": ({"namespace": _TEXT, "library": _TEXT, "package": _TEXT}, {}),
    "commands": ({"name": _TEXT, "target": _TEXT}, {"help": _TEXT}),
    "predictors": (
        {"task": _TEXT, "target": _TEXT},
        {"suffixes": _LIST, "default_weights": _MAYBE_TEXT, "accepts": _TEXT, "environments": _OBJECT},
    ),
    "services": ({"task": _TEXT, "target": _TEXT}, {"media_types": _LIST}),
}

# Lists inside records whose items are all text.
_TEXT_LISTS = ("tags", "mirrors", "aliases", "safe_globals", "suffixes", "media_types")

_TYPE_NAMES = {
    str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "an object", _NOTHING: "null",
}  # fmt: skip


def read_manifest(path: str | Path) -> dict[str, Any]:
    """Read a manifest and check what the rest of core relies on.

    Unknown keys are kept and mean nothing, so that a newer manifest can be read.

    Raises:
        ManifestError: the file cannot be read, is not JSON, or lacks something; the message has the file and the JSON
            path of the fault.
    """
    path = Path(path)
    data = parse_manifest(path)
    check_head(data, path)
    if data["schema"] > SCHEMA_VERSION:
        raise ManifestError(
            f"{path}: $.schema is {data['schema']}, and this flambeau-core reads up to {SCHEMA_VERSION}; upgrade it."
        )
    check_tables(data, path)
    return data


def parse_manifest(path: Path) -> dict[str, Any]:
    """The JSON object in a file, unchecked.

    Raises:
        ManifestError: the file is absent, larger than 32 MiB, not UTF-8, not JSON, or not an object.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{path}: the manifest cannot be read ({error.strerror or error}).") from error
    if len(content) > MOST_BYTES:
        raise ManifestError(f"{path}: the manifest is larger than {MOST_BYTES // 2**20} MiB; leave long lists out.")
    try:
        data = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
    except ValueError as error:
        raise ManifestError(f"{path}: the manifest is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise ManifestError(f"{path}: the manifest is nested too deeply.") from error
    if not isinstance(data, dict):
        raise ManifestError(f"{path}: $ is {shown(data)}, expected an object.")
    return data


def check_head(data: dict[str, Any], path: Path) -> None:
    """Check everything but the tables, which may look different in another version of the interface.

    Raises:
        ManifestError: a key is missing or of the wrong type.
    """
    _check(data, HEAD_REQUIRED, HEAD_OPTIONAL, path, "$")
    if data["schema"] < 1:
        _fail(path, "$.schema", data["schema"], "1")
    if not API_PATTERN.fullmatch(data["api"]):
        _fail(path, "$.api", data["api"], 'a version such as "1.0"')
    for name, wanted in data.get("requires", {}).items():
        if not isinstance(wanted, str):
            _fail(path, f"$.requires.{name}", wanted, 'a version specifier such as ">=2.8"')


def check_tables(data: dict[str, Any], path: Path) -> None:
    """Check the records of every table.

    Raises:
        ManifestError: a key is missing or of the wrong type, or two records have one name.
    """
    for table, (required, optional) in TABLES.items():
        records = data.get(table, [])
        if not isinstance(records, list):
            _fail(path, f"$.{table}", records, "a list")
        seen: dict[str, int] = {}
        for index, record in enumerate(records):
            where = f"$.{table}[{index}]"
            if not isinstance(record, dict):
                _fail(path, where, record, "an object")
            _check(record, required, optional, path, where)
            for key in _TEXT_LISTS:
                for position, item in enumerate(record.get(key, ()) if key in optional else ()):
                    if not isinstance(item, str):
                        _fail(path, f"{where}.{key}[{position}]", item, "a string")
            try:
                check_values(table, record)
            except Fault as fault:
                raise ManifestError(f"{path}: {fault.below(where)}.") from fault
            for name in record_names(table, record, path, where):
                if seen.setdefault(name, index) != index:
                    raise ManifestError(f"{path}: {where} and $.{table}[{seen[name]}] are both named {name!r}.")


def check_info(table: str, info: dict[str, Any], name: str) -> None:
    """Check what code says of an entry as a record of a table is checked; no key is required.

    Args:
        table: the registry's kind.
        info: what is known about the entry.
        name: its id, for the message.

    Raises:
        ManifestError: a value that listings could not use.
    """
    required, optional = TABLES.get(table, ({}, {}))
    where = Path(name)
    _check(info, {}, required | optional, where, "$")
    try:
        check_values(table, info)
    except Fault as fault:
        raise ManifestError(f"{name}: {fault.below('$')}.") from fault


def record_names(table: str, record: dict[str, Any], path: Path, where: str) -> list[str]:
    """The names under which a record is registered, the first one being its own; none for tables without names.

    Raises:
        ManifestError: a name holds characters that names cannot have.
    """
    if "name" not in TABLES[table][0]:
        return []
    names = [record["name"], *(record.get("aliases", ()) if "aliases" in TABLES[table][1] else ())]
    parts, prefix = names, ""
    if table == "weights":
        names += ["DEFAULT"] if record.get("default") else []
        parts, prefix = [*names, record["model"]], f"{record['model']}:"
    for part in parts:
        if not ENTRY_PATTERN.fullmatch(part):
            _fail(path, f"{where}: name", part, "letters, digits and any of _ . + -")
    return [prefix + name for name in names]


def _check(record: dict[str, Any], required: _Keys, optional: _Keys, path: Path, where: str) -> None:
    for key, types in required.items():
        if key not in record:
            raise ManifestError(f"{path}: {where}.{key} is missing, expected {_expected(types)}.")
        _check_type(record[key], types, path, where, key)
    for key, types in optional.items():
        if key in record:
            _check_type(record[key], types, path, where, key)


def _check_type(value: object, types: _Types, path: Path, where: str, key: str) -> None:
    # True is an int to Python, and not to JSON.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        _fail(path, f"{where}.{key}", value, _expected(types))
    if isinstance(value, str) and not value.isprintable():  # it will be printed
        _fail(path, f"{where}.{key}", value, "one line of text without control characters")


def _expected(types: _Types) -> str:
    return " or ".join(_TYPE_NAMES[kind] for kind in types)


def _fail(path: Path, where: str, value: object, expected: str) -> NoReturn:
    raise ManifestError(f"{path}: {where} is {shown(value)}, expected {expected}.")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is beyond the range of numbers")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")

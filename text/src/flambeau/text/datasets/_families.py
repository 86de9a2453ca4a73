"""What datasets that are alike share: plans out of a module's tables, which are read each time, and the CSV sets' rows.

Users change mirrors by changing a module's `URL` and `MD5`, so nothing here keeps them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from flambeau.text.datasets._formats import Format, Rows
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._sources import Packed, Plain, Text
from flambeau.text.datasets._split_plan import Plan


def fetched(tables: ModuleType, split: str) -> Download:
    """The file that a module's `URL`, `MD5` and `_PATH` describe, each one value or one for each split."""
    url = _of(tables.URL, split)
    return Download(
        url=url,
        path=_of(getattr(tables, "_PATH", None), split) or base_name(url),
        digest=_of(tables.MD5, split),
        mirrors=getattr(tables, "_MIRRORS", ()),
        copies=getattr(tables, "_COPIES", ()),
    )


def plain(tables: ModuleType, split: str, form: Format) -> Plan:
    """A split that is read as it is fetched."""
    return _plan(tables, split, Plain((fetched(tables, split),)), form)


def packed(tables: ModuleType, split: str, form: Format, *, flat: bool = False) -> Plan:
    """A split that is one text file of an archive: `_EXTRACTED_FILES[split]`, and where known its MD5.

    Args:
        tables: the dataset's module.
        split: the split.
        form: what the file holds.
        flat: unpack it under its bare name.
    """
    member = _of(tables._EXTRACTED_FILES, split).replace(os.sep, "/")
    path = member.rpartition("/")[2] if flat else member
    digest = _of(getattr(tables, "_EXTRACTED_FILES_MD5", None), split)
    return _plan(tables, split, Packed(fetched(tables, split), (Text(path, member, digest),)), form)


def labelled_text(row: list[str]) -> tuple[int, str]:
    """(label, text) of a row with a label and one or more parts of a text."""
    return int(row[0]), " ".join(row[1:])


CLASSIFICATION = Rows(labelled_text)


def _plan(tables: ModuleType, split: str, source: Any, form: Format) -> Plan:
    return Plan(tables.DATASET_NAME, split, tables._SPLITS, source, form)


def _of(value: Any, split: str) -> Any:
    return value[split] if isinstance(value, Mapping) else value


def base_name(url: str) -> str:
    """The last part of an address's path."""
    return unquote(urlsplit(url).path).rpartition("/")[2]

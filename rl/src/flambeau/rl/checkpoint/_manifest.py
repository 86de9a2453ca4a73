"""The description of itself that a checkpoint has, and the files that it names."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from flambeau.rl.checkpoint._results import CheckpointError

__all__ = ["MANIFEST", "check_record", "compared", "opened", "text_of", "versions_now"]

MANIFEST = "manifest.json"


def versions_now() -> dict[str, str]:
    """Versions of what writes checkpoints."""
    from flambeau.rl import __version__

    return {"flambeau-rl": __version__, "torch": str(torch.__version__)}


def compared(then: Mapping[str, Any]) -> dict[str, Any]:
    """Versions of a checkpoint beside those of now, and whether one differs; nothing where it has none."""
    if not then:
        return {}
    now = versions_now()
    versions = {
        name: {"checkpoint": then[name], "runtime": now[name], "matches": then[name] == now[name]}
        for name in now
        if name in then
    }
    return {"versions": versions, "version_skew": any(not each["matches"] for each in versions.values())}


def text_of(place: Path) -> str:
    """The description of a checkpoint, a folder or an archive.

    Raises:
        ValueError: a folder without one.
        KeyError: an archive without one.
    """
    if place.is_dir():
        if not (place / MANIFEST).is_file():
            raise ValueError(f"it has no {MANIFEST}")
        return (place / MANIFEST).read_text(encoding="utf-8")
    with zipfile.ZipFile(place) as archive:
        return archive.read(MANIFEST).decode("utf-8")


def check_record(place: Path, name: str, record: Any) -> None:
    """Nothing that a description names may lie outside of the checkpoint."""
    good = isinstance(record, dict) and isinstance(record.get("adapter"), str) and isinstance(record.get("files"), list)
    inner = record.get("path", "") if good else ""
    names = [inner, *(record["files"] if good else ())]
    if not good or not all(map(_is_inside, names)) or not re.fullmatch(r"components/[^/]+", inner):
        raise CheckpointError(
            f"{place} is damaged: its {MANIFEST} describes {name!r} in a way that cannot be followed."
        )


def _is_inside(name: Any) -> bool:
    if not isinstance(name, str) or not name or "\\" in name or "\0" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and ":" not in path.parts[0]


@contextlib.contextmanager
def opened(place: Path, records: Mapping[str, Any]) -> Iterator[Path]:
    """The folder of a checkpoint; an archive is unpacked, the files alone that its description names."""
    if place.is_dir():
        yield place
        return
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(place) as archive:
        for record in records.values():
            for file in record["files"]:
                target = Path(folder, record["path"], file)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(f"{record['path']}/{file}") as source, target.open("wb") as written:
                    shutil.copyfileobj(source, written)
        yield Path(folder)

"""Model archives: `.mar` (zip), `.tar.gz`, and folders that hold the same.

An archive has its files at its root, or under one folder, and `MAR-INF/MANIFEST.json`::

    {"createdOn": "dd/mm/yyyy hh:mm:ss", "runtime": "python", "archiverVersion": "0.12.0",
     "model": {"modelName", "modelVersion", "handler", "modelFile", "serializedFile", "requirementsFile", "configFile",
               "extensions", "description", "envelope"}}
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from flambeau.core.errors import FlambeauError
from flambeau.core.hub import extract_archive
from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.errors import ArchiveError

__all__ = ["Archive", "open_archive", "settings_of"]

_MOST_BYTES = 64 * 2**30
_MOST_FILES = 100_000
_MOST_CONFIG = 2**20
_MANIFEST = Path("MAR-INF") / "MANIFEST.json"
# Keys of a manifest that name a file of the archive.
_FILES = ("modelFile", "serializedFile", "requirementsFile", "configFile", "sourceVocab")

# The archive's YAML -> a field of VersionSettings, and the least value that makes sense.
_SETTINGS: dict[str, tuple[str, float]] = {
    "minWorkers": ("min_workers", 0),
    "maxWorkers": ("max_workers", 0),
    "batchSize": ("batch_size", 1),
    "maxBatchDelay": ("max_batch_delay_ms", 0),
    "responseTimeout": ("response_timeout", 1),
    "startupTimeout": ("startup_timeout", 1),
    "maxRetryTimeoutInSec": ("max_retry_timeout", 0),
    "clientTimeoutInMills": ("client_timeout_ms", 0),
    "jobQueueSize": ("queue_size", 1),
}


@dataclass(frozen=True)
class Archive:
    """An archive that was unpacked and looked at.

    Attributes:
        folder: its files.
        manifest: as it is in the archive.
        name, version: of the model; version "1.0" where the manifest has none.
        handler: `file.py`, `file.py:function`, or the name of a default one.
        config: of its YAML; empty where it has none.
        digest: SHA-256 of the archive, or of a folder's path.
    """

    folder: Path
    manifest: dict[str, Any]
    name: str
    version: str
    handler: str
    config: dict[str, Any] = field(default_factory=dict)
    digest: str = ""


def open_archive(path: Path, cache: Path) -> Archive:
    """Unpack an archive, unless that was done before, and read what it says of itself.

    Args:
        path: the archive, or a folder with what one holds.
        cache: where to unpack; each archive gets a folder of its own there, which nobody else may read.

    Raises:
        ArchiveError: no archive, one that is damaged or would write outside its folder, or that lacks a manifest or
            something that its manifest names.
    """
    if path.is_dir():
        return _described(path, hashlib.sha256(str(path.resolve()).encode()).hexdigest(), path.name)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArchiveError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = cache / digest
    _refuse_odd_names(path)
    try:
        extract_archive(path, folder, max_bytes=_MOST_BYTES, max_files=_MOST_FILES)
    except FlambeauError as error:
        raise ArchiveError(f"{path.name} is no archive that can be used: {error}".replace(str(path), "it")) from error
    folder.chmod(0o700)
    return _described(folder, digest, path.name)


def settings_of(archive: Archive, base: VersionSettings) -> tuple[VersionSettings, int | None]:
    """How the archive wants to be run, and how many workers it wants at first; None where it does not say.

    Raises:
        ArchiveError: a value that makes no sense.
    """
    changes: dict[str, Any] = {}
    for key, (name, least) in _SETTINGS.items():
        if key not in archive.config:
            continue
        value = archive.config[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < 1e9:
            raise ArchiveError(f"the archive's configuration: {key} is {value!r}, expected a number from {least:g} on.")
        changes[name] = value if name.endswith(("_ms", "_timeout")) else int(value)
    workers = changes.get("min_workers")
    if workers is not None:
        changes["max_workers"] = max(int(changes.get("max_workers", 0)), workers)
    from dataclasses import replace

    return replace(base, **changes), workers


def _refuse_odd_names(path: Path) -> None:
    """Names that mean different things to different programs; `extract_archive` refuses those that lead outside."""
    if not zipfile.is_zipfile(path):
        return
    seen: set[str] = set()
    try:
        with zipfile.ZipFile(path) as file:
            names = [info.orig_filename for info in file.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise ArchiveError(f"{path.name} is damaged: {error}") from error
    for name in names:
        if "\\" in name or "\0" in name or name.casefold() in seen:
            raise ArchiveError(
                f"{path.name} has the entry {name[:80]!r}, which is there twice, or in another system's way."
            )
        seen.add(name.casefold())


def _described(folder: Path, digest: str, shown: str) -> Archive:
    root = folder
    if not (root / _MANIFEST).is_file():
        inner = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
        nested = [entry for entry in inner if (entry / _MANIFEST).is_file()]
        if len(nested) != 1:
            raise ArchiveError(f"{shown} has no MAR-INF/MANIFEST.json; make it with torch-model-archiver.")
        root = nested[0]
    manifest = _json(root / _MANIFEST, shown)
    model = manifest.get("model")
    if not isinstance(model, dict):
        raise ArchiveError(f"the manifest of {shown} has no object `model`.")
    for key in (*_FILES, "modelName", "modelVersion", "handler"):
        if not isinstance(model.get(key, ""), str):
            raise ArchiveError(f"the manifest of {shown}: model.{key} is no string.")
    for key in _FILES:
        if model.get(key):
            _inside(root, model[key], f"model.{key}", shown)
    handler = model.get("handler", "")
    if not handler:
        raise ArchiveError(f"the manifest of {shown} names no handler.")
    if ".py" in handler:
        _inside(root, handler.partition(":")[0], "model.handler", shown)
    config = _yaml(root / model["configFile"], shown) if model.get("configFile") else {}
    return Archive(
        root, manifest, model.get("modelName", ""), model.get("modelVersion") or "1.0", handler, config, digest
    )


def _inside(root: Path, name: str, what: str, shown: str) -> Path:
    """A file of the archive by the name that its manifest gives."""
    place = root / name
    if Path(name).is_absolute() or not place.resolve().is_relative_to(root.resolve()):
        raise ArchiveError(f"the manifest of {shown}: {what} leads out of the archive.")
    if not place.is_file():
        raise ArchiveError(f"the manifest of {shown}: {what} is {name[:80]!r}, which the archive does not hold.")
    return place


def _json(path: Path, shown: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_CONFIG:
            raise ArchiveError(f"the manifest of {shown} is larger than 1 MiB.")
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ArchiveError(f"the manifest of {shown} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ArchiveError(f"the manifest of {shown} is no JSON object.")
    return found


def _yaml(path: Path, shown: str) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if len(text) > _MOST_CONFIG or len(re.findall(r"(^|\s)\*\w", text)) > 1000:  # aliases multiply
            raise ArchiveError(f"the configuration of {shown} is too large.")
        found = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ArchiveError(f"the configuration of {shown} cannot be read: {str(error).splitlines()[0]}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ArchiveError(f"the configuration of {shown} is no mapping.")
    return found

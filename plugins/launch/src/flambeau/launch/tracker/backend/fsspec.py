"""Runs in files, on this machine or wherever fsspec reaches.

Below the root every run has a folder, whose name is the run's id in base 32, and in it::

    artifacts/TIME    one artifact, as JSON
    metadata/TIME     values, as JSON; later files stand over earlier ones
    sources/RUN       one file for each run that was used (its id in base 32), with the names of artifacts

TIME counts nanoseconds. Files are never changed once they are there, so that processes do not meet; only names of
artifacts are appended to a source.
"""

from __future__ import annotations

import base64
import json
import posixpath
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flambeau.launch.errors import TrackerError
from flambeau.launch.tracker.api import TrackerArtifact, TrackerBase, TrackerSource

__all__ = ["FsspecTracker", "create", "generate_filename"]


def generate_filename() -> str:
    """A name that later ones sort behind: nanoseconds since the epoch."""
    return str(time.time_ns())


def _encode(name: str) -> str:
    return base64.b32encode(name.encode()).decode()


def _decode(name: str) -> str:
    return base64.b32decode(name.encode()).decode()


@dataclass(frozen=True)
class _FsspecTrackerPathBuilder:
    """A path, part by part.

    Attributes:
        root_dir: so far.
    """

    root_dir: str

    def with_run_id(self, run_id: str) -> _FsspecTrackerPathBuilder:
        """The folder of a run."""
        return self.with_subpath(_encode(run_id))

    def with_subpath(self, subpath: str) -> _FsspecTrackerPathBuilder:
        """Something below."""
        return _FsspecTrackerPathBuilder(posixpath.join(self.root_dir, subpath))

    def with_unique_filename(self) -> _FsspecTrackerPathBuilder:
        """A new file below."""
        return self.with_subpath(generate_filename())

    def path(self) -> str:
        """The path."""
        return self.root_dir


class FsspecTracker(TrackerBase):
    """Runs in files.

    Args:
        fs: where they are.
        root_dir: a folder there.

    Raises:
        TrackerError: the folder is not there.
    """

    def __init__(self, fs: Any, root_dir: str) -> None:
        if not fs.exists(root_dir):
            raise TrackerError(f"the tracker's folder {root_dir!r} is not there; make it, or name another root_path.")
        self._fs = fs
        self._path_builder = _FsspecTrackerPathBuilder(root_dir)

    def add_artifact(self, run_id: str, name: str, path: str, metadata: Mapping[str, object] | None = None) -> None:
        """Note something that a run made."""
        self._write(run_id, "artifacts", {"name": name, "path": path, "metadata": metadata})

    def artifacts(self, run_id: str) -> Mapping[str, TrackerArtifact]:
        """What a run made, by name."""
        found = (TrackerArtifact(**fields) for fields in self._read(run_id, "artifacts"))
        return {artifact.name: artifact for artifact in found}

    def add_metadata(self, run_id: str, **metadata: object) -> None:
        """Note values, which JSON must be able to hold."""
        self._write(run_id, "metadata", {"metadata": metadata})

    def metadata(self, run_id: str) -> Mapping[str, object]:
        """The values of a run, by name."""
        values: dict[str, object] = {}
        for fields in self._read(run_id, "metadata"):
            values.update(fields["metadata"])
        return values

    def add_source(self, run_id: str, source_id: str, artifact_name: str | None = None) -> None:
        """Note that a run used another one."""
        self._append(run_id, "sources", source_id, artifact_name)

    def sources(self, run_id: str, artifact_name: str | None = None) -> Iterable[TrackerSource]:
        """What a run used; with a name only the sources with that artifact."""
        for path in self._files(run_id, "sources"):
            with self._fs.open(path, "r") as lines:
                names = [line.strip() for line in lines if line.strip()]
            source = _decode(posixpath.basename(path))
            for name in names or [None]:
                if artifact_name is None or name == artifact_name:
                    yield TrackerSource(source, name)

    def run_ids(self, parent_run_id: str | None = None) -> Iterable[str]:  # type: ignore[override]
        """Ids of all runs, or of those that used one."""
        for entry in sorted(self._fs.ls(self._path_builder.path(), detail=True), key=lambda entry: str(entry["name"])):
            if entry["type"] != "directory":
                continue
            try:
                run_id = _decode(posixpath.basename(str(entry["name"])))
            except ValueError:  # somebody else's folder
                continue
            if parent_run_id is None or any(s.source_run_id == parent_run_id for s in self.sources(run_id)):
                yield run_id

    def _folder(self, run_id: str, kind: str) -> _FsspecTrackerPathBuilder:
        return self._path_builder.with_run_id(run_id).with_subpath(kind)

    def _write(self, run_id: str, kind: str, fields: Mapping[str, object]) -> None:
        text = json.dumps(fields)  # before the file is opened: what JSON cannot hold leaves none behind
        folder = self._folder(run_id, kind)
        self._fs.makedirs(folder.path(), exist_ok=True)
        path = folder.with_unique_filename().path()
        with self._fs.open(path, "w") as file:
            file.write(text)

    def _append(self, run_id: str, kind: str, other: str, artifact_name: str | None) -> None:
        folder = self._folder(run_id, kind)
        self._fs.makedirs(folder.path(), exist_ok=True)
        with self._fs.open(folder.with_subpath(_encode(other)).path(), "a") as file:
            if artifact_name:
                file.write(f"{artifact_name}\n")

    def _files(self, run_id: str, kind: str) -> list[str]:
        folder = self._folder(run_id, kind).path()
        return sorted(map(str, self._fs.ls(folder, detail=False))) if self._fs.exists(folder) else []

    def _read(self, run_id: str, kind: str) -> Iterable[dict[str, Any]]:
        for path in self._files(run_id, kind):
            with self._fs.open(path, "r") as file:
                try:
                    yield json.load(file)
                except ValueError as error:
                    raise TrackerError(f"{path} is damaged: {error}. Remove it to read the rest.") from None

    def __str__(self) -> str:
        return f"<FsspecTracker: root_path={self._path_builder.path()}>"

    __repr__ = __str__


def create(config_file: str) -> TrackerBase:
    """A tracker as a file describes it.

    Args:
        config_file: with lines `protocol=` (fsspec's name of a file system), `root_path=`, and options of that file
            system.

    Raises:
        TrackerError: the file cannot be read, or one of both is missing.
    """
    import fsspec

    if not config_file:
        raise TrackerError(
            "the fsspec tracker needs a file with protocol= and root_path=; [tracker:fsspec] config = FILE"
        )
    options = {}
    for line in Path(config_file).read_text(encoding="utf-8").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.lstrip().startswith("#"):
            options[name.strip()] = value.strip()
    protocol, root = options.pop("protocol", ""), options.pop("root_path", "")
    if not protocol or not root:
        raise TrackerError(f"{config_file} names no protocol or no root_path; it needs a line for each: NAME=VALUE.")
    return FsspecTracker(fsspec.filesystem(protocol, **options), root)

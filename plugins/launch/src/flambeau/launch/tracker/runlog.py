"""Runs in one file of lines, without any other package: the tracker that is always there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flambeau.launch.errors import TrackerError
from flambeau.launch.tracker.api import TrackerArtifact, TrackerBase, TrackerSource

__all__ = ["RunLogTracker", "create"]


class RunLogTracker(TrackerBase):
    """Appends one line of JSON for each fact; several processes may write to one file.

    Args:
        path: of the file; its folder is made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def add_artifact(self, run_id: str, name: str, path: str, metadata: Mapping[str, object] | None = None) -> None:
        """Note something that a run made."""
        self._append(run_id, {"artifact": name, "path": path, "metadata": metadata})

    def artifacts(self, run_id: str) -> Mapping[str, TrackerArtifact]:
        """What a run made, by name."""
        lines = self._lines(run_id, "artifact")
        return {line["artifact"]: TrackerArtifact(line["artifact"], line["path"], line["metadata"]) for line in lines}

    def add_metadata(self, run_id: str, **kwargs: object) -> None:
        """Note values, which JSON must be able to hold."""
        self._append(run_id, {"values": kwargs})

    def metadata(self, run_id: str) -> Mapping[str, object]:
        """The values of a run, by name."""
        values: dict[str, object] = {}
        for line in self._lines(run_id, "values"):
            values.update(line["values"])
        return values

    def add_source(self, run_id: str, source_id: str, artifact_name: str | None = None) -> None:
        """Note that a run used another one."""
        self._append(run_id, {"source": source_id, "used": artifact_name})

    def sources(self, run_id: str, artifact_name: str | None = None) -> Iterable[TrackerSource]:
        """What a run used; with a name only the sources with that artifact."""
        found = (TrackerSource(line["source"], line["used"]) for line in self._lines(run_id, "source"))
        return [source for source in found if artifact_name in (None, source.artifact_name)]

    def run_ids(self, **kwargs: str) -> Iterable[str]:
        """Ids of all runs, or of those that used the one that `parent_run_id` names."""
        parent = kwargs.get("parent_run_id")
        lines = self._all()
        return list(dict.fromkeys(line["run"] for line in lines if parent is None or line.get("source") == parent))

    def _append(self, run_id: str, fact: dict[str, Any]) -> None:
        line = json.dumps({"run": run_id, "time": time.time(), **fact}) + "\n"
        # One write of one line: the system puts those of several processes one after the other.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _lines(self, run_id: str, kind: str) -> Iterator[dict[str, Any]]:
        return (line for line in self._all() if line["run"] == run_id and kind in line)

    def _all(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        for number, text in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                yield json.loads(text)
            except ValueError as error:
                raise TrackerError(
                    f"{self.path}, line {number}, is damaged: {error}. Remove it to read the rest."
                ) from None


def create(config: str | None) -> TrackerBase:
    """The tracker of a file; without one `launch/runs.jsonl` in Flambeau's folder."""
    from flambeau.core.environment import home

    return RunLogTracker(config or home() / "launch" / "runs.jsonl")

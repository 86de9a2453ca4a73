"""What trackers can do, and how a run finds its own.

The launcher tells every replica its run's id and trackers by environment variables:

| variable | meaning |
|---|---|
| TORCHX_JOB_ID | handle of the application, which is the run's id |
| TORCHX_TRACKERS | names of the trackers, with commas between |
| TORCHX_TRACKER_NAME_CONFIG | file or text that tracker NAME is made of |
| TORCHX_PARENT_RUN_ID | run that this one belongs to |
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flambeau.core.errors import close_names, describe
from flambeau.launch.errors import TrackerError

__all__ = [
    "ENV_TORCHX_JOB_ID",
    "ENV_TORCHX_PARENT_RUN_ID",
    "ENV_TORCHX_TRACKERS",
    "AppRun",
    "AppRunTrackableSource",
    "Lineage",
    "TrackerArtifact",
    "TrackerBase",
    "TrackerSource",
    "app_run_from_env",
    "build_trackers",
    "tracker_config_env_var_name",
    "trackers_from_environ",
]

log = logging.getLogger(__name__)

ENV_TORCHX_TRACKERS = "TORCHX_TRACKERS"
ENV_TORCHX_PARENT_RUN_ID = "TORCHX_PARENT_RUN_ID"
ENV_TORCHX_JOB_ID = "TORCHX_JOB_ID"
GROUPS = ("torchx.tracker", "flambeau.launch.tracker")


@dataclass
class TrackerSource:
    """A run that another one used.

    Attributes:
        source_run_id: its id.
        artifact_name: which of its artifacts; None for the run as such.
    """

    source_run_id: str
    artifact_name: str | None


@dataclass
class TrackerArtifact:
    """Something that a run made.

    Attributes:
        name: unique in its run.
        path: where it is.
        metadata: more about it.
    """

    name: str
    path: str
    metadata: Mapping[str, object] | None


@dataclass
class AppRunTrackableSource:
    """A run that another one used, ready to be asked.

    Attributes:
        parent: the run.
        artifact_name: which of its artifacts; None for the run as such.
    """

    parent: AppRun
    artifact_name: str | None


@dataclass
class Lineage:
    """Where a run comes from, and what comes from it.

    Attributes:
        sources: runs that it used, directly or through others.
        descendants: runs that used it, likewise.
    """

    sources: tuple[str, ...] = ()
    descendants: tuple[str, ...] = ()


class TrackerBase(ABC):
    """A place where runs leave what shall be known of them."""

    @abstractmethod
    def add_artifact(self, run_id: str, name: str, path: str, metadata: Mapping[str, object] | None = None) -> None:
        """Note something that a run made; of the same name the last one holds."""

    @abstractmethod
    def artifacts(self, run_id: str) -> Mapping[str, TrackerArtifact]:
        """What a run made, by name; empty for unknown runs."""

    @abstractmethod
    def add_metadata(self, run_id: str, **kwargs: object) -> None:
        """Note values; of the same name the last one holds."""

    @abstractmethod
    def metadata(self, run_id: str) -> Mapping[str, object]:
        """The values of a run, by name; empty for unknown runs."""

    @abstractmethod
    def add_source(self, run_id: str, source_id: str, artifact_name: str | None = None) -> None:
        """Note that a run used another one."""

    @abstractmethod
    def sources(self, run_id: str, artifact_name: str | None = None) -> Iterable[TrackerSource]:
        """What a run used; with a name only the sources with that artifact."""

    def lineage(self, run_id: str) -> Lineage:
        """Where a run comes from and what comes from it, found by `sources` and `run_ids`."""
        parents = {run: {source.source_run_id for source in self.sources(run)} for run in self.run_ids()}
        parents.setdefault(run_id, {source.source_run_id for source in self.sources(run_id)})
        children: dict[str, set[str]] = {}
        for run, sources in parents.items():
            for source in sources:
                children.setdefault(source, set()).add(run)
        return Lineage(_reachable(run_id, parents), _reachable(run_id, children))

    @abstractmethod
    def run_ids(self, **kwargs: str) -> Iterable[str]:
        """Ids of all runs; with `parent_run_id` only of those that used that run."""


def _reachable(start: str, edges: Mapping[str, set[str]]) -> tuple[str, ...]:
    seen: dict[str, None] = {}
    waiting = sorted(edges.get(start, ()))
    while waiting:
        run = waiting.pop(0)
        if run not in seen and run != start:
            seen[run] = None
            waiting += sorted(edges.get(run, ()))
    return tuple(seen)


def tracker_config_env_var_name(entrypoint_key: str) -> str:
    """The environment variable with the configuration of a tracker.

    Example:
        >>> tracker_config_env_var_name("fsspec")
        'TORCHX_TRACKER_FSSPEC_CONFIG'
    """
    return f"TORCHX_TRACKER_{entrypoint_key.upper()}_CONFIG"


def _factories() -> dict[str, Callable[..., TrackerBase]]:
    from flambeau.core.naming import import_target
    from flambeau.launch.plugins import tracker_factories
    from flambeau.launch.util.entrypoints import load_group

    def late(target: str) -> Callable[..., TrackerBase]:
        return lambda config: import_target(target)(config)

    found: dict[str, Any] = {name: late(target) for name, target in OURS.items()}
    found.update({name: late(target) for name, target in tracker_factories().items()})
    for group in GROUPS:
        found.update(load_group(group) or {})
    return found


OURS = {
    "fsspec": "flambeau.launch.tracker.backend.fsspec:create",
    "mlflow": "flambeau.launch.tracker.mlflow:create_tracker",
    "runlog": "flambeau.launch.tracker.runlog:create",
}
"""The trackers of this distribution; others add theirs by entry points of `GROUPS`, or by a hook."""


def build_trackers(factory_and_config: Mapping[str, str | None]) -> Iterable[TrackerBase]:
    """Make trackers; one that cannot be made is told to the log and left out, as no run should fail for it.

    Args:
        factory_and_config: name of the tracker -> what it is made of.
    """
    factories = _factories()
    trackers = []
    for name, configuration in factory_and_config.items():
        if name not in factories:
            near = close_names(name, factories)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(factories)}."
            log.warning("no tracker %r; %s", name, hint)
            continue
        try:
            trackers.append(factories[name](configuration))
        except Exception as error:  # a plugin's code
            log.warning("tracker %r cannot be made of %r: %s", name, configuration, describe(error))
    return trackers


def trackers_from_environ() -> Iterable[TrackerBase]:
    """The trackers that the launcher named."""
    names = [name for name in os.environ.get(ENV_TORCHX_TRACKERS, "").split(",") if name]
    return build_trackers({name: os.environ.get(tracker_config_env_var_name(name)) for name in names})


@dataclass
class AppRun:
    """A run, with all its trackers.

    Attributes:
        id: of the run.
        backends: where it is tracked.
    """

    id: str
    backends: Iterable[TrackerBase]

    @staticmethod
    @lru_cache(maxsize=1)
    def run_from_env() -> AppRun:
        """The run that this process belongs to; made once.

        Upstream: outside of a launched application its id is "<UNDEFINED>", and it is tracked nowhere.
        """
        run_id = os.environ.get(ENV_TORCHX_JOB_ID)
        if run_id is None:
            return AppRun("<UNDEFINED>", [])
        run = AppRun(run_id, list(trackers_from_environ()))
        if parent := os.environ.get(ENV_TORCHX_PARENT_RUN_ID):
            run.add_source(parent)
        return run

    def add_metadata(self, **kwargs: object) -> None:
        """Note values of this run."""
        for backend in self.backends:
            backend.add_metadata(self.id, **kwargs)

    def add_artifact(self, name: str, path: str, metadata: Mapping[str, object] | None = None) -> None:
        """Note something that this run made."""
        for backend in self.backends:
            backend.add_artifact(self.id, name, path, metadata)

    def job_id(self) -> str:
        """The run's id."""
        return self.id

    def add_source(self, source_id: str, artifact_name: str | None = None) -> None:
        """Note that this run used another one."""
        for backend in self.backends:
            backend.add_source(self.id, source_id, artifact_name)

    def sources(self) -> Iterable[AppRunTrackableSource]:
        """What this run used, as the first tracker knows it."""
        backend = next(iter(self.backends), None)
        if backend is None:
            return []
        found = backend.sources(self.id)
        return [AppRunTrackableSource(AppRun(s.source_run_id, self.backends), s.artifact_name) for s in found]

    def children(self) -> Iterable[AppRun]:
        """The runs that used this one, as the first tracker knows them."""
        backend = next(iter(self.backends), None)
        if backend is None:
            return []
        return [AppRun(run_id, self.backends) for run_id in backend.run_ids(parent_run_id=self.id)]


def app_run_from_env() -> AppRun:
    """The run that this process belongs to; see `AppRun.run_from_env`."""
    return AppRun.run_from_env()


def required(value: str | None, what: str) -> str:
    """A value of a tracker's configuration that must be there.

    Raises:
        TrackerError: it is not.
    """
    if not value:
        raise TrackerError(f"{what} is missing.")
    return value

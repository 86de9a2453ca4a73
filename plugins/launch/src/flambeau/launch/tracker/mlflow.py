"""Runs in MLflow: `pip install flambeau-launch[mlflow]`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from flambeau.launch.errors import TrackerError
from flambeau.launch.tracker.api import TrackerArtifact, TrackerBase, TrackerSource

if TYPE_CHECKING:
    from mlflow.entities import Run

__all__ = ["TAG_ARTIFACT_MD_PREFIX", "MLflowTracker", "create_tracker"]

TAG_ARTIFACT_MD_PREFIX = "torchx.artifact.metadata"
_TAG_SOURCE = "flambeau.launch.source"


class MLflowTracker(TrackerBase):
    """Runs in an experiment of MLflow, where a run's id is the name of MLflow's run.

    Args:
        experiment_name: of the experiment, which is made where it is not there; the user's name where not given.
        tracking_uri: of MLflow.
        artifact_location: where the experiment's artifacts are.
    """

    def __init__(
        self,
        experiment_name: str | None = None,
        tracking_uri: str = f"file://{Path(gettempdir()) / 'torchx' / 'mlruns'}",
        artifact_location: str | None = None,
    ) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=tracking_uri)
        self._experiment_name = experiment_name or self.default_experiment_name()
        self._artifact_location = artifact_location

    @staticmethod
    def default_experiment_name() -> str:
        """The user's name."""
        import getpass

        return f"torchx-{getpass.getuser()}"

    @cached_property
    def _experiment(self) -> Any:
        if (found := self._client.get_experiment_by_name(self._experiment_name)) is not None:
            return found
        made = self._client.create_experiment(self._experiment_name, artifact_location=self._artifact_location)
        return self._client.get_experiment(made)

    @property
    def experiment_id(self) -> str:
        """MLflow's id of the experiment."""
        return str(self._experiment.experiment_id)

    @property
    def experiment_name(self) -> str:
        """Name of the experiment."""
        return self._experiment_name

    @property
    def artifact_location(self) -> str:
        """Where the experiment's artifacts are."""
        return str(self._experiment.artifact_location)

    def _find(self, run_name: str) -> Run | None:
        # MLflow's filters have no way to quote a quote.
        if "'" in run_name and '"' in run_name:
            raise TrackerError(f"MLflow cannot look for the run {run_name!r}, whose name has both kinds of quotes.")
        quote = '"' if "'" in run_name else "'"
        runs = self._client.search_runs([self.experiment_id], f"attributes.run_name = {quote}{run_name}{quote}")
        return runs[0] if runs else None

    def get_run(self, run_name: str) -> Run:
        """MLflow's run of a name, which is made where it is not there."""
        return self._find(run_name) or self._client.create_run(self.experiment_id, run_name=run_name)

    def get_run_id(self, run_name: str) -> str:
        """MLflow's id of a run."""
        return str(self.get_run(run_name).info.run_id)

    def close(self) -> None:
        """Let go of MLflow's connections; does nothing, as they are held for one call."""

    def add_artifact(self, run_id: str, name: str, path: str, metadata: Mapping[str, object] | None = None) -> None:
        """Upload a file, or note where it is if this machine does not have it."""
        target = self.get_run_id(run_id)
        local = Path(path)
        if local.is_file():
            self._client.log_artifact(target, str(local), artifact_path=name)
        about = {"path": path, "metadata": dict(metadata) if metadata is not None else None}
        self._client.set_tag(target, f"{TAG_ARTIFACT_MD_PREFIX}.{name}", json.dumps(about))

    def artifacts(self, run_id: str) -> Mapping[str, TrackerArtifact]:
        """What a run made, by name."""
        found = {}
        for tag, text in self._tags(run_id).items():
            if tag.startswith(f"{TAG_ARTIFACT_MD_PREFIX}."):
                name = tag.removeprefix(f"{TAG_ARTIFACT_MD_PREFIX}.")
                found[name] = TrackerArtifact(name, **json.loads(text))
        return found

    def add_metadata(self, run_id: str, **kwargs: object) -> None:
        """Note values, as MLflow's parameters, which are texts and never change."""
        target = self.get_run_id(run_id)
        for name, value in kwargs.items():
            self._client.log_param(target, name, value)

    def metadata(self, run_id: str) -> Mapping[str, object]:
        """The values of a run as texts, by name."""
        run = self._find(run_id)
        return dict(run.data.params) if run else {}

    def run_ids(self, **kwargs: str) -> Iterable[str]:
        """Names of all runs of the experiment, or of those that used the one that `parent_run_id` names."""
        parent = kwargs.get("parent_run_id")
        for run in self._client.search_runs([self.experiment_id], order_by=["attributes.start_time ASC"]):
            name = str(run.info.run_name)
            if parent is None or any(source.source_run_id == parent for source in self.sources(name)):
                yield name

    def log_params_flat(self, run_name: str, cfg: Any, key: str = "") -> None:
        """Note a nested configuration, of dictionaries, lists and dataclasses, as parameters `a.b.0.c`.

        Args:
            run_name: the run.
            cfg: the configuration.
            key: what stands before all names.
        """
        self.add_metadata(run_name, **dict(_flat(cfg, key)))

    def add_source(self, run_id: str, source_id: str, artifact_name: str | None = None) -> None:
        """Note that a run used another one."""
        number = sum(tag.startswith(_TAG_SOURCE) for tag in self._tags(run_id))
        text = json.dumps({"source_run_id": source_id, "artifact_name": artifact_name})
        self._client.set_tag(self.get_run_id(run_id), f"{_TAG_SOURCE}.{number}", text)

    def sources(self, run_id: str, artifact_name: str | None = None) -> Iterable[TrackerSource]:
        """What a run used; with a name only the sources with that artifact."""
        tags = self._tags(run_id)
        found = [TrackerSource(**json.loads(tags[tag])) for tag in sorted(tags) if tag.startswith(_TAG_SOURCE)]
        return [source for source in found if artifact_name in (None, source.artifact_name)]

    def _tags(self, run_id: str) -> dict[str, str]:
        run = self._find(run_id)
        return dict(run.data.tags) if run else {}


def _flat(value: Any, key: str) -> Iterable[tuple[str, Any]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        yield key, value
        return
    for name, item in items:
        yield from _flat(item, f"{key}.{name}" if key else str(name))


def create_tracker(config: str) -> MLflowTracker:
    """A tracker as a file describes it, with lines `experiment_name=`, `tracking_uri=` and `artifact_location=`.

    Raises:
        TrackerError: the file has another line.
    """
    options: dict[str, str] = {}
    if config:
        for line in Path(config).read_text(encoding="utf-8").splitlines():
            name, separator, value = line.partition("=")
            if separator and not line.lstrip().startswith(("#", "[")):
                options[name.strip()] = value.strip()
    if wrong := set(options) - {"experiment_name", "tracking_uri", "artifact_location"}:
        raise TrackerError(f"{config}: the MLflow tracker knows no option {', '.join(sorted(wrong))}.")
    return MLflowTracker(**options)

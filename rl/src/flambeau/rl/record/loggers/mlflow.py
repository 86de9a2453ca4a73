"""`MLFlowLogger`: runs of MLflow."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.record._video import written
from flambeau.rl.record.loggers.common import Logger, plain_numbers, plain_parameters

__all__ = ["MLFlowLogger"]


class MLFlowLogger(Logger):
    """Keeps a run of MLflow (`pip install 'flambeau-rl[mlflow]'`).

    Args:
        exp_name: the experiment's name; it is made where it is not there.
        tracking_uri: where MLflow keeps runs, such as "sqlite:///runs.db".
        tags: of the experiment.
        artifact_location: where files of runs go; default: as the server says.
        video_fps: frames a second of videos.
        kwargs: none are taken; they are for loggers of other kinds.

    Raises:
        ImportError: mlflow is not installed.
    """

    def __init__(
        self,
        exp_name: str,
        tracking_uri: str,
        tags: dict[str, Any] | None = None,
        *,
        artifact_location: str | None = None,
        video_fps: int = 30,
        **kwargs: Any,
    ) -> None:
        import_mlflow().set_tracking_uri(tracking_uri)
        self._mlflow_kwargs = {"name": exp_name, "artifact_location": artifact_location, "tags": tags}
        self.video_fps = video_fps
        super().__init__(exp_name=exp_name, log_dir=tracking_uri)

    def _create_experiment(self) -> Any:
        mlflow = import_mlflow()
        found = mlflow.get_experiment_by_name(self.exp_name)
        self.id = mlflow.create_experiment(**self._mlflow_kwargs) if found is None else found.experiment_id
        return mlflow.start_run(experiment_id=self.id)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Keep a number."""
        import_mlflow().log_metric(key=name, value=float(value), step=step, run_id=self._run)

    def log_metrics(
        self, metrics: dict[str, Any] | TensorDictBase, step: int | None = None, *, keys_sep: str = "/"
    ) -> dict[str, Any]:
        """Keep several numbers at once, see `Logger.log_metrics`."""
        numbers = plain_numbers(metrics, keys_sep)
        import_mlflow().log_metrics(
            {name: float(value) for name, value in numbers.items()}, step=step, run_id=self._run
        )
        return numbers

    def log_video(  # type: ignore[override]  # upstream: the step is among the others
        self, name: str, video: Tensor, **kwargs: Any
    ) -> None:
        """Keep a video as an mp4 among the run's files.

        Args:
            name: what it shows.
            video: (N, T, C, H, W), uint8; those after the first follow it.
            kwargs: `step` and `fps`.
        """
        step, fps = kwargs.pop("step", None), kwargs.pop("fps", self.video_fps)
        frames = video.flatten(0, video.ndim - 4).movedim(-3, -1)
        with tempfile.TemporaryDirectory() as folder:
            stem = f"{name}_{step}" if step is not None else name
            path = written(Path(folder, f"{Path(stem).name}.mp4"), frames, fps=fps, **kwargs)
            import_mlflow().log_artifact(str(path), "videos", run_id=self._run)

    def log_hparams(self, cfg: Any) -> None:
        """Keep the parameters of the run."""
        mlflow = import_mlflow()
        client = mlflow.MlflowClient()
        for name, value in plain_parameters(cfg).items():
            client.log_param(self._run, name, value)

    def log_histogram(self, name: str, data: Sequence[Any], **kwargs: Any) -> None:
        """Raise: MLflow has no place for histograms.

        Raises:
            NotImplementedError: always, as upstream does.
        """
        raise NotImplementedError("MLFlowLogger keeps no histograms; use TensorboardLogger, or log numbers instead.")

    @property
    def _run(self) -> str:
        return str(self.experiment.info.run_id)

    def shutdown(self, timeout: float | None = None) -> None:
        """End the run."""
        if self._open:
            self._open = False
            mlflow = import_mlflow()
            active = mlflow.active_run()
            if active is not None and active.info.run_id == self._run:
                mlflow.end_run()
            else:
                mlflow.MlflowClient().set_terminated(self._run)

    def __repr__(self) -> str:
        return f"MLFlowLogger(experiment={self.exp_name!r}, run={self._run!r})"


def import_mlflow() -> Any:
    """The library.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import mlflow
    except ImportError as error:
        raise ImportError("MLFlowLogger needs mlflow. Run: pip install 'flambeau-rl[mlflow]'") from error
    return mlflow

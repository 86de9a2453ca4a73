"""`TrackioLogger`: runs of trackio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from flambeau.rl.record.loggers.common import Logger, plain_parameters

__all__ = ["TrackioLogger"]


class TrackioLogger(Logger):
    """Keeps a run of trackio (`pip install trackio`).

    Args:
        exp_name: the run's name.
        project: the project's name.
        video_fps: frames a second of videos.
        kwargs: passed on to `trackio.init`.

    Raises:
        ImportError: trackio is not installed.
    """

    def __init__(self, exp_name: str, project: str, *, video_fps: int = 32, **kwargs: Any) -> None:
        self.video_fps = video_fps
        self._trackio_kwargs = {"name": exp_name, "project": project, "resume": "allow"} | kwargs
        super().__init__(exp_name=exp_name, log_dir=project)

    def _create_experiment(self) -> Any:
        return _trackio().init(**self._trackio_kwargs)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Keep a number."""
        self.experiment.log({name: value}, step=step)

    def log_video(  # type: ignore[override]  # upstream: the step is among the others
        self, name: str, video: Tensor, **kwargs: Any
    ) -> None:
        """Keep a video, (N, T, C, H, W) in uint8; `step` and `fps` are taken."""
        step, fps = kwargs.pop("step", None), kwargs.pop("fps", self.video_fps)
        clip = _trackio().Video(video.detach().cpu().numpy(), fps=fps, format=kwargs.pop("format", "mp4"), **kwargs)
        self.experiment.log({name: clip}, step=step)

    def log_hparams(self, cfg: Any) -> None:
        """Keep the parameters as the run's configuration."""
        self.experiment.config.update(plain_parameters(cfg))

    def log_histogram(self, name: str, data: Sequence[Any], **kwargs: Any) -> None:
        """Raise: trackio has no place for histograms.

        Raises:
            NotImplementedError: always, as upstream does.
        """
        raise NotImplementedError("TrackioLogger keeps no histograms; use TensorboardLogger, or log numbers instead.")

    def log_str(self, name: str, value: str, step: int | None = None) -> None:
        """Keep a text."""
        self.experiment.log({name: value}, step=step)

    def shutdown(self, timeout: float | None = None) -> None:
        """End the run."""
        if self._open:
            self._open = False
            self.experiment.finish()

    def __repr__(self) -> str:
        return f"TrackioLogger(experiment={self.experiment!r})"


def _trackio() -> Any:
    try:
        import trackio
    except ImportError as error:
        raise ImportError("TrackioLogger needs trackio. Run: pip install trackio") from error
    return trackio

"""`WandbLogger`: runs of Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.record.loggers.common import Logger, plain_numbers

__all__ = ["WandbLogger"]


class WandbLogger(Logger):
    """Keeps a run of Weights & Biases (`pip install 'flambeau-rl[wandb]'`).

    Args:
        exp_name: the run's name.
        offline: keep it on this machine, to be sent by `wandb sync`.
        save_dir: where files go, before they are sent; default: the folder that is being worked in.
        id: of a run to go on with.
        project: the project's name.
        base_url: of a server of one's own.
        video_fps: frames a second of videos.
        log_env_packages: keep the list of installed packages with the run.
        kwargs: passed on to `wandb.init`.

    Raises:
        ImportError: wandb is not installed.
    """

    def __init__(
        self,
        exp_name: str,
        offline: bool = False,
        save_dir: str | os.PathLike[str] | None = None,
        id: str | None = None,
        project: str | None = None,
        base_url: str | None = None,
        *,
        video_fps: int = 32,
        log_env_packages: bool = True,
        **kwargs: Any,
    ) -> None:
        folder = kwargs.pop("log_dir", None)
        if folder is not None and save_dir is not None and str(folder) != str(save_dir):
            raise ValueError(
                f"log_dir={folder!r} and save_dir={save_dir!r} are two names of one folder; give one of them."
            )
        self.offline = offline
        self.save_dir = None if save_dir is None and folder is None else str(save_dir or folder)
        self.id = id
        self.project = project
        self.base_url = base_url
        self.video_fps = video_fps
        self.log_env_packages = log_env_packages
        kwargs.setdefault("resume", "allow")
        self._wandb_kwargs = {"name": exp_name, "dir": self.save_dir, "id": id, "project": project} | kwargs
        super().__init__(exp_name=exp_name, log_dir=self.save_dir or "")

    def _create_experiment(self) -> Any:
        wandb = _wandb()
        if self.save_dir is not None:
            Path(self.save_dir).mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {} if self.log_env_packages else {"x_save_requirements": False}
        if self.base_url is not None:
            settings["base_url"] = self.base_url
        options = dict(self._wandb_kwargs)
        if self.offline:
            options["mode"] = "offline"
        if settings and "settings" not in options:
            options["settings"] = wandb.Settings(**settings)
        return wandb.init(**options)

    def log_scalar(
        self,
        name: str,
        value: float,
        step: int | None = None,
        commit: bool = True,
        *,
        override_global_step: bool = False,
    ) -> None:
        """Keep a number.

        Args:
            name: what it is.
            value: the number.
            step: when it was so; it is kept as "trainer/step".
            commit: go on to the run's next step.
            override_global_step: let `step` be the run's own, which only grows.
        """
        self._log({name: value}, step, override_global_step, commit=commit)

    def log_metrics(
        self,
        metrics: dict[str, Any] | TensorDictBase,
        step: int | None = None,
        *,
        keys_sep: str = "/",
        override_global_step: bool = False,
    ) -> dict[str, Any]:
        """Keep several numbers of one step, see `Logger.log_metrics` and `log_scalar`."""
        numbers = plain_numbers(metrics, keys_sep)
        self._log(numbers, step, override_global_step)
        return numbers

    def log_video(  # type: ignore[override]  # upstream: the step is among the others
        self, name: str, video: Tensor, **kwargs: Any
    ) -> None:
        """Keep a video.

        Args:
            name: what it shows.
            video: (N, T, C, H, W), uint8.
            kwargs: `step`, `fps`, and what `wandb.Video` takes.
        """
        step = kwargs.pop("step", None)
        fps = kwargs.pop("fps", self.video_fps)
        clip = _wandb().Video(video.detach().cpu().numpy(), fps=fps, format=kwargs.pop("format", "mp4"), **kwargs)
        self._log({name: clip}, step, False)

    def log_hparams(self, cfg: Any) -> None:
        """Keep the parameters as the run's configuration."""
        if hasattr(cfg, "_metadata") and type(cfg).__module__.startswith("omegaconf"):
            from omegaconf import OmegaConf

            cfg = OmegaConf.to_container(cfg, resolve=True)
        self.experiment.config.update(cfg, allow_val_change=True)

    def log_histogram(self, name: str, data: Tensor | Sequence[Any], **kwargs: Any) -> None:
        """Keep how numbers are distributed; `step` says when, `bins` in how many groups."""
        bins = kwargs.pop("bins", None)
        values = data.detach().cpu().numpy() if isinstance(data, Tensor) else data
        histogram = _wandb().Histogram(values, **({} if bins is None else {"num_bins": bins}))
        self._log({name: histogram}, kwargs.pop("step", None), False)

    def log_str(self, name: str, value: str, step: int | None = None, *, override_global_step: bool = False) -> None:
        """Keep a text, see `log_scalar`."""
        self._log({name: value}, step, override_global_step)

    def _log(self, values: dict[str, Any], step: int | None, as_global: bool, **options: Any) -> None:
        if step is None:
            self.experiment.log(values, **options)
        elif as_global:
            self.experiment.log(values, step=step, **options)
        else:
            self.experiment.log(values | {"trainer/step": step}, **options)

    def shutdown(self, timeout: float | None = None) -> None:
        """End the run."""
        if self._open:
            self._open = False
            self.experiment.finish()

    def _checkpoint_state(self) -> dict[str, Any]:
        return {"id": getattr(self.experiment, "id", self.id), "project": self.project, "offline": self.offline}

    def __repr__(self) -> str:
        return f"WandbLogger(experiment={self.experiment!r})"


def _wandb() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise ImportError("WandbLogger needs wandb. Run: pip install 'flambeau-rl[wandb]'") from error
    return wandb

"""`CSVLogger`: numbers as files of comma-separated values, beside videos and texts."""

from __future__ import annotations

import os
import weakref
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from flambeau.rl._utils import logger as log
from flambeau.rl.record._video import written
from flambeau.rl.record.loggers.common import Logger, plain_parameters

__all__ = ["CSVExperiment", "CSVLogger"]

VIDEO_FORMATS = ("pt", "memmap", "mp4")


class CSVExperiment:
    """A folder with `scalars/NAME.csv` of lines "step,value", `videos/NAME_STEP.FORMAT` and `texts/NAMESTEP.txt`.

    Args:
        log_dir: the folder; it is made.
        video_format: "pt", a tensor as `torch.save` writes it; "memmap", its bytes; "mp4", with PyAV.
        video_fps: frames a second of an mp4.

    Raises:
        ValueError: the format is another one.
    """

    def __init__(self, log_dir: str, *, video_format: str = "pt", video_fps: int = 30) -> None:
        self.scalars: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.videos_counter: dict[str, int] = defaultdict(int)
        self.text_counter: dict[str, int] = defaultdict(int)
        self.log_dir = log_dir
        self.video_format = video_format
        self.video_fps = video_fps
        self.files: dict[str, IO[str]] = {}
        weakref.finalize(self, _close, self.files)
        for name in ("scalars", "videos", "texts"):
            Path(log_dir, name).mkdir(parents=True, exist_ok=True)

    def add_scalar(self, name: str, value: float, global_step: int | None = None) -> None:
        """Add a line; without a step, it is the number of values that are there."""
        value = float(value)
        step = len(self.scalars[name]) if global_step is None else global_step
        self.scalars[name].append((step, value))
        file = self._opened(Path(self.log_dir, "scalars", f"{name}.csv"), "a")
        file.write(f"{step},{value}\n")
        file.flush()

    def add_video(self, tag: str, vid_tensor: Tensor, global_step: int | None = None, **kwargs: Any) -> None:
        """Write a video; without a step, it is numbered.

        Args:
            tag: its name.
            vid_tensor: (N, T, C, H, W), uint8; an mp4 shows the first of the N.
            global_step: when it was so.
            kwargs: `fps`, and what PyAV's encoder takes.

        Raises:
            ValueError: the format is unknown.
        """
        step = self.videos_counter[tag] if global_step is None else global_step
        path = Path(self.log_dir, "videos", f"{tag}_{step}.{self.video_format}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.video_format == "pt":
            torch.save(vid_tensor, path)
        elif self.video_format == "memmap":
            vid_tensor.detach().cpu().contiguous().numpy().tofile(path)
        elif self.video_format == "mp4":
            frames = vid_tensor.flatten(0, vid_tensor.ndim - 4)
            written(path, frames.movedim(-3, -1), **{"fps": self.video_fps} | kwargs)
        else:
            raise ValueError(f"video_format must be one of {', '.join(VIDEO_FORMATS)}; got {self.video_format!r}.")
        if global_step is None:
            self.videos_counter[tag] += 1

    def add_text(self, tag: str, text: str, global_step: int | None = None) -> None:
        """Write a text; without a step, it is numbered."""
        step = self.text_counter[tag] if global_step is None else global_step
        file = self._opened(Path(self.log_dir, "texts", f"{tag}{step}.txt"), "w")
        file.writelines(text)
        file.flush()
        if global_step is None:
            self.text_counter[tag] += 1

    def flush(self) -> None:
        """Have what was written reach the files."""
        for file in self.files.values():
            file.flush()

    def close(self) -> None:
        """Close the files; another value opens its file again."""
        _close(self.files)

    def _opened(self, path: Path, mode: str) -> IO[str]:
        key = str(path)
        if key not in self.files:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.files[key] = path.open(mode, encoding="utf-8")
        return self.files[key]

    def __repr__(self) -> str:
        return f"CSVExperiment(log_dir={self.log_dir})"


def _close(files: dict[str, IO[str]]) -> None:
    for file in files.values():
        file.close()
    files.clear()


class CSVLogger(Logger):
    """Keeps numbers in files of comma-separated values.

    Args:
        exp_name: the experiment's name, that of its folder.
        log_dir: the folder of experiments; default: "csv_logs".
        video_format: "pt", "memmap" or "mp4", see `CSVExperiment`.
        video_fps: frames a second of an mp4.

    Raises:
        ValueError: the format is another one.

    Example:
        >>> import tempfile
        >>> logger = CSVLogger("run", tempfile.mkdtemp())
        >>> logger.log_scalar("train/reward", 1.5, step=100)
        >>> print(Path(logger.experiment.log_dir, "scalars", "train", "reward.csv").read_text().strip())
        100,1.5
    """

    experiment: CSVExperiment

    def __init__(
        self, exp_name: str, log_dir: str | None = None, video_format: str = "pt", video_fps: int = 30
    ) -> None:
        if video_format not in VIDEO_FORMATS:
            raise ValueError(f"video_format must be one of {', '.join(VIDEO_FORMATS)}; got {video_format!r}.")
        self.video_format = video_format
        self.video_fps = video_fps
        super().__init__(exp_name=exp_name, log_dir="csv_logs" if log_dir is None else log_dir)
        self._has_imported_moviepy = False

    def _create_experiment(self) -> CSVExperiment:
        folder = str(os.path.join(self.log_dir, self.exp_name))  # noqa: PTH118  # upstream's exact string
        return CSVExperiment(folder, video_format=self.video_format, video_fps=self.video_fps)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Add a line to `scalars/NAME.csv`."""
        self.experiment.add_scalar(name, value, global_step=step)

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Write a video to `videos/NAME_STEP`.

        Raises:
            ValueError: it is not (N, T, C, H, W) with 1 or 3 channels.
        """
        if video.ndim != 5 or video.size(-3) not in (1, 3):
            raise ValueError(f"a video is (N, T, C, H, W), with one channel or three; got {tuple(video.shape)}.")
        self.experiment.add_video(name, video, global_step=step, **kwargs)

    def log_hparams(self, cfg: Any) -> None:
        """Write the parameters as a text, a line each."""
        lines = [f"{name}: {value}" for name, value in sorted(plain_parameters(cfg).items())]
        self.experiment.add_text("hparams", "\n".join(lines))

    def log_histogram(self, name: str, data: Sequence[Any], **kwargs: Any) -> None:
        """Raise: there is no place for histograms here.

        Raises:
            NotImplementedError: always, as upstream does.
        """
        raise NotImplementedError("CSVLogger keeps no histograms; use TensorboardLogger, or log numbers instead.")

    def print_log_dir(self) -> None:
        """Tell what is in the folder of experiments, and how much it takes."""
        folder = Path(self.log_dir)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        log.info("%s: %.2f KB", folder, sum(path.stat().st_size for path in files) / 1024)
        for path in files:
            log.info("    %s", path.relative_to(folder))

    def _checkpoint_state(self) -> dict[str, Any]:
        kept = ("scalars", "videos_counter", "text_counter")
        return {name: dict(getattr(self.experiment, name)) for name in kept}

    def _load_checkpoint_state(self, state_dict: Mapping[str, Any]) -> None:
        for name, values in state_dict.items():
            getattr(self.experiment, name).clear()
            getattr(self.experiment, name).update(values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(exp_name={self.exp_name}, experiment={self.experiment!r})"

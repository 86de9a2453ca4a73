"""`TensorboardLogger`: events as TensorBoard shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.record.loggers.common import Logger, plain_parameters

__all__ = ["TensorboardLogger"]


class TensorboardLogger(Logger):
    """Keeps events for TensorBoard (`pip install 'flambeau-rl[tensorboard]'`).

    Args:
        exp_name: the experiment's name, that of its folder.
        log_dir: the folder of experiments.

    Raises:
        ImportError: tensorboard is not installed.
    """

    def __init__(self, exp_name: str, log_dir: str = "tb_logs") -> None:
        super().__init__(exp_name=exp_name, log_dir=log_dir)
        # Its name upstream; a number is kept in the order in which it comes where no step is given.
        self._step: dict[str, int] = defaultdict(int)
        self._has_imported_moviepy = False

    def _create_experiment(self) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorboardLogger needs tensorboard. Run: pip install 'flambeau-rl[tensorboard]'"
            ) from error
        return SummaryWriter(str(Path(self.log_dir, self.exp_name)))

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Keep a number."""
        self.experiment.add_scalar(name, value, global_step=self._next(name, step))

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Keep a video, (N, T, C, H, W), as a GIF.

        Raises:
            ImportError: Pillow is not installed.
        """
        from flambeau.rl.record.loggers._gif import gif_summary

        fps = kwargs.pop("fps", 30)
        if kwargs:
            raise TypeError(f"TensorboardLogger.log_video takes no {sorted(kwargs)}; it takes fps.")
        self.experiment._get_file_writer().add_summary(gif_summary(name, video, fps), self._next(name, step))

    def log_hparams(self, cfg: Any) -> None:
        """Keep the parameters beside the numbers; what is no number, text or truth value is kept as text."""
        taken = (int, float, str, bool, Tensor)
        parameters = {
            key: value if isinstance(value, taken) else str(value) for key, value in plain_parameters(cfg).items()
        }
        self.experiment.add_hparams(parameters, {})

    def log_histogram(self, name: str, data: Sequence[Any], **kwargs: Any) -> None:
        """Keep how numbers are distributed.

        Args:
            name: what they are.
            data: the numbers.
            kwargs: `step`, and `bins`, as `SummaryWriter.add_histogram` takes them.
        """
        step, bins = kwargs.pop("step", None), kwargs.pop("bins", "tensorflow")
        values = torch.as_tensor(data)
        self.experiment.add_histogram(name, values, global_step=self._next(name, step), bins=bins)

    def _next(self, name: str, step: int | None) -> int:
        if step is None:
            step = self._step[name]
        self._step[name] = step + 1
        return step

    def _checkpoint_state(self) -> dict[str, Any]:
        return {"steps": dict(self._step)}

    def _load_checkpoint_state(self, state_dict: Mapping[str, Any]) -> None:
        self._step.clear()
        self._step.update(state_dict.get("steps", {}))

    def __repr__(self) -> str:
        return f"TensorboardLogger(experiment={self.experiment!r})"

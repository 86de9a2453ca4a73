"""How a run is logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["LoggerConfig"]


@dataclass
class LoggerConfig:
    """How a run is logged.

    Attributes:
        logger: "csv", "tensorboard", "wandb", "mlflow" or "trackio".
        record_video: make films.
        no_video: make none; former name.
        exp_name: of the run.
        record_interval: batches from one recording to the next.
        record_frames: frames of a recording.
        recorder_log_keys: what a recording logs, by key; None for rewards.
        offline_logging: do not send what is logged to a server.
        project_name: of the project that the run belongs to.
    """

    logger: str = "csv"
    record_video: bool = False
    no_video: bool = True
    exp_name: str = ""
    record_interval: int = 1000
    record_frames: int = 1000
    recorder_log_keys: Any = None
    offline_logging: bool = True
    project_name: str = ""

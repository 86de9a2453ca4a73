"""Where numbers, videos and texts of experiments are kept."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.record.loggers.common import Logger as Logger
    from flambeau.rl.record.loggers.csv import CSVLogger as CSVLogger
    from flambeau.rl.record.loggers.mlflow import MLFlowLogger as MLFlowLogger
    from flambeau.rl.record.loggers.monitoring import Every as Every
    from flambeau.rl.record.loggers.monitoring import LoggerMonitor as LoggerMonitor
    from flambeau.rl.record.loggers.process import ProcessLogger as ProcessLogger
    from flambeau.rl.record.loggers.ray import RayLogger as RayLogger
    from flambeau.rl.record.loggers.tensorboard import TensorboardLogger as TensorboardLogger
    from flambeau.rl.record.loggers.trackio import TrackioLogger as TrackioLogger
    from flambeau.rl.record.loggers.utils import generate_exp_name as generate_exp_name
    from flambeau.rl.record.loggers.utils import get_logger as get_logger
    from flambeau.rl.record.loggers.wandb import WandbLogger as WandbLogger

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "common": ("Logger",),
        "csv": ("CSVLogger",),
        "mlflow": ("MLFlowLogger",),
        "monitoring": ("Every", "LoggerMonitor"),
        "process": ("ProcessLogger",),
        "ray": ("RayLogger",),
        "tensorboard": ("TensorboardLogger",),
        "trackio": ("TrackioLogger",),
        "utils": ("generate_exp_name", "get_logger"),
        "wandb": ("WandbLogger",),
    },
    submodules=(
        "common",
        "csv",
        "mlflow",
        "monitoring",
        "process",
        "ray",
        "tensorboard",
        "trackio",
        "utils",
        "wandb",
    ),
)

"""Records of experiments: loggers, and transforms that record what happens in environments."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.record.loggers.csv import CSVLogger as CSVLogger
    from flambeau.rl.record.loggers.mlflow import MLFlowLogger as MLFlowLogger
    from flambeau.rl.record.loggers.monitoring import Every as Every
    from flambeau.rl.record.loggers.monitoring import LoggerMonitor as LoggerMonitor
    from flambeau.rl.record.loggers.process import ProcessLogger as ProcessLogger
    from flambeau.rl.record.loggers.ray import RayLogger as RayLogger
    from flambeau.rl.record.loggers.tensorboard import TensorboardLogger as TensorboardLogger
    from flambeau.rl.record.loggers.wandb import WandbLogger as WandbLogger
    from flambeau.rl.record.recorder import PixelRenderTransform as PixelRenderTransform
    from flambeau.rl.record.recorder import TensorDictRecorder as TensorDictRecorder
    from flambeau.rl.record.recorder import VideoRecorder as VideoRecorder

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "loggers.csv": ("CSVLogger",),
        "loggers.mlflow": ("MLFlowLogger",),
        "loggers.monitoring": ("Every", "LoggerMonitor"),
        "loggers.process": ("ProcessLogger",),
        "loggers.ray": ("RayLogger",),
        "loggers.tensorboard": ("TensorboardLogger",),
        "loggers.wandb": ("WandbLogger",),
        "recorder": ("PixelRenderTransform", "TensorDictRecorder", "VideoRecorder"),
    },
    submodules=("loggers", "recorder"),
)

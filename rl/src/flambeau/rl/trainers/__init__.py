"""Training: a loop with hooks, the hooks, and trainers of algorithms."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.trainers.trainers import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "trainers": (
            "BatchSubSampler",
            "ClearCudaCache",
            "CountFramesLog",
            "DefaultOptimizationStepper",
            "EarlyStopping",
            "LRSchedulerHook",
            "LogScalar",
            "LogTiming",
            "LogValidationReward",
            "MixedPrecisionOptimizationStepper",
            "OptimizationStepper",
            "OptimizerHook",
            "ReplayBufferTrainer",
            "RewardNormalizer",
            "SelectKeys",
            "TargetNetUpdaterHook",
            "Trainer",
            "TrainerHookBase",
            "UTDRHook",
            "UpdateWeights",
            "ValueEstimatorHook",
            "mask_batch",
        )
    },
    submodules=("algorithms",),
)

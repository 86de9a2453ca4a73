"""The trainer and its hooks, under upstream's module path."""

from __future__ import annotations

from flambeau.rl.trainers._data_hooks import BatchSubSampler as BatchSubSampler
from flambeau.rl.trainers._data_hooks import ReplayBufferTrainer as ReplayBufferTrainer
from flambeau.rl.trainers._data_hooks import RewardNormalizer as RewardNormalizer
from flambeau.rl.trainers._data_hooks import SelectKeys as SelectKeys
from flambeau.rl.trainers._data_hooks import ValueEstimatorHook as ValueEstimatorHook
from flambeau.rl.trainers._hook_base import REWARD_KEY as REWARD_KEY
from flambeau.rl.trainers._hook_base import TrainerHookBase as TrainerHookBase
from flambeau.rl.trainers._hook_base import flatten_dict as flatten_dict
from flambeau.rl.trainers._hook_base import mask_batch as mask_batch
from flambeau.rl.trainers._log_hooks import CountFramesLog as CountFramesLog
from flambeau.rl.trainers._log_hooks import LogScalar as LogScalar
from flambeau.rl.trainers._log_hooks import LogTiming as LogTiming
from flambeau.rl.trainers._log_hooks import LogValidationReward as LogValidationReward
from flambeau.rl.trainers._log_hooks import UTDRHook as UTDRHook
from flambeau.rl.trainers._optim_hooks import ClearCudaCache as ClearCudaCache
from flambeau.rl.trainers._optim_hooks import DefaultOptimizationStepper as DefaultOptimizationStepper
from flambeau.rl.trainers._optim_hooks import EarlyStopping as EarlyStopping
from flambeau.rl.trainers._optim_hooks import LRSchedulerHook as LRSchedulerHook
from flambeau.rl.trainers._optim_hooks import MixedPrecisionOptimizationStepper as MixedPrecisionOptimizationStepper
from flambeau.rl.trainers._optim_hooks import OptimizationStepper as OptimizationStepper
from flambeau.rl.trainers._optim_hooks import OptimizerHook as OptimizerHook
from flambeau.rl.trainers._optim_hooks import TargetNetUpdaterHook as TargetNetUpdaterHook
from flambeau.rl.trainers._optim_hooks import UpdateWeights as UpdateWeights
from flambeau.rl.trainers._trainer import Trainer as Trainer

__all__ = [
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
    "flatten_dict",
    "mask_batch",
]

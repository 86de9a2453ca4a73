"""Transforms of what environments and replay buffers take and give."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.transforms._action.chunks import ActionChunkTransform as ActionChunkTransform
    from flambeau.rl.envs.transforms._action.discrete import ActionMask as ActionMask
    from flambeau.rl.envs.transforms._action.discrete import DiscreteActionProjection as DiscreteActionProjection
    from flambeau.rl.envs.transforms._action.discretizer import ActionDiscretizer as ActionDiscretizer
    from flambeau.rl.envs.transforms._action.scaling import ActionScaling as ActionScaling
    from flambeau.rl.envs.transforms._action.scaling import FlattenAction as FlattenAction
    from flambeau.rl.envs.transforms._action.several import MultiAction as MultiAction
    from flambeau.rl.envs.transforms._action.tokens import ActionTokenizerTransform as ActionTokenizerTransform
    from flambeau.rl.envs.transforms._base.compose import Compose as Compose
    from flambeau.rl.envs.transforms._base.environment import AutoResetEnv as AutoResetEnv
    from flambeau.rl.envs.transforms._base.environment import TransformedEnv as TransformedEnv
    from flambeau.rl.envs.transforms._base.transform import ObservationTransform as ObservationTransform
    from flambeau.rl.envs.transforms._base.transform import Transform as Transform
    from flambeau.rl.envs.transforms._clip import ClipTransform as ClipTransform
    from flambeau.rl.envs.transforms._conditional import ConditionalPolicySwitch as ConditionalPolicySwitch
    from flambeau.rl.envs.transforms._conditional import ConditionalSkip as ConditionalSkip
    from flambeau.rl.envs.transforms._device import DeviceCastTransform as DeviceCastTransform
    from flambeau.rl.envs.transforms._device import DoubleToFloat as DoubleToFloat
    from flambeau.rl.envs.transforms._device import DTypeCastTransform as DTypeCastTransform
    from flambeau.rl.envs.transforms._env.batches import BatchSizeTransform as BatchSizeTransform
    from flambeau.rl.envs.transforms._env.batches import BurnInTransform as BurnInTransform
    from flambeau.rl.envs.transforms._env.counters import InitTracker as InitTracker
    from flambeau.rl.envs.transforms._env.counters import StepCounter as StepCounter
    from flambeau.rl.envs.transforms._env.counters import TrajCounter as TrajCounter
    from flambeau.rl.envs.transforms._env.ends import AutoResetTransform as AutoResetTransform
    from flambeau.rl.envs.transforms._env.ends import RandomTruncationTransform as RandomTruncationTransform
    from flambeau.rl.envs.transforms._env.ends import TerminateTransform as TerminateTransform
    from flambeau.rl.envs.transforms._env.frames import FrameSkipTransform as FrameSkipTransform
    from flambeau.rl.envs.transforms._env.frames import NoopResetEnv as NoopResetEnv
    from flambeau.rl.envs.transforms._env.primer import TensorDictPrimer as TensorDictPrimer
    from flambeau.rl.envs.transforms._env.primer import gSDENoise as gSDENoise
    from flambeau.rl.envs.transforms._expand_as import ExpandAs as ExpandAs
    from flambeau.rl.envs.transforms._keys import ExcludeTransform as ExcludeTransform
    from flambeau.rl.envs.transforms._keys import RemoveEmptySpecs as RemoveEmptySpecs
    from flambeau.rl.envs.transforms._keys import RenameTransform as RenameTransform
    from flambeau.rl.envs.transforms._keys import SelectTransform as SelectTransform
    from flambeau.rl.envs.transforms._normalization.observation_norm import ObservationNorm as ObservationNorm
    from flambeau.rl.envs.transforms._normalization.reward_scaling import RewardScaling as RewardScaling
    from flambeau.rl.envs.transforms._normalization.vecnorm_sums import VecNorm as VecNorm
    from flambeau.rl.envs.transforms._observation.cat_frames import CatFrames as CatFrames
    from flambeau.rl.envs.transforms._observation.checks import FiniteTensorDictCheck as FiniteTensorDictCheck
    from flambeau.rl.envs.transforms._observation.checks import PinMemoryTransform as PinMemoryTransform
    from flambeau.rl.envs.transforms._observation.images import CenterCrop as CenterCrop
    from flambeau.rl.envs.transforms._observation.images import Crop as Crop
    from flambeau.rl.envs.transforms._observation.images import GrayScale as GrayScale
    from flambeau.rl.envs.transforms._observation.images import Resize as Resize
    from flambeau.rl.envs.transforms._observation.images import ToTensorImage as ToTensorImage
    from flambeau.rl.envs.transforms._observation.next_observation_delta import (
        NextObservationDelta as NextObservationDelta,
    )
    from flambeau.rl.envs.transforms._observation.shapes import FlattenObservation as FlattenObservation
    from flambeau.rl.envs.transforms._observation.shapes import PermuteTransform as PermuteTransform
    from flambeau.rl.envs.transforms._observation.shapes import SqueezeTransform as SqueezeTransform
    from flambeau.rl.envs.transforms._observation.shapes import UnsqueezeTransform as UnsqueezeTransform
    from flambeau.rl.envs.transforms._observation.time_max_pool import TimeMaxPool as TimeMaxPool
    from flambeau.rl.envs.transforms._primitive import MacroAction as MacroAction
    from flambeau.rl.envs.transforms._primitive import MacroPrimitive as MacroPrimitive
    from flambeau.rl.envs.transforms._primitive import MacroPrimitiveTransform as MacroPrimitiveTransform
    from flambeau.rl.envs.transforms._primitive import TargetMacroAction as TargetMacroAction
    from flambeau.rl.envs.transforms._random_crop import RandomCropTensorDict as RandomCropTensorDict
    from flambeau.rl.envs.transforms._reward.combined import LineariseRewards as LineariseRewards
    from flambeau.rl.envs.transforms._reward.combined import SuccessReward as SuccessReward
    from flambeau.rl.envs.transforms._reward.pointwise import BinarizeReward as BinarizeReward
    from flambeau.rl.envs.transforms._reward.pointwise import RewardClipping as RewardClipping
    from flambeau.rl.envs.transforms._reward.pointwise import SignTransform as SignTransform
    from flambeau.rl.envs.transforms._reward.sums import Reward2GoTransform as Reward2GoTransform
    from flambeau.rl.envs.transforms._reward.sums import RewardSum as RewardSum
    from flambeau.rl.envs.transforms._reward.sums import TargetReturn as TargetReturn
    from flambeau.rl.envs.transforms._tensor.cat_tensors import CatTensors as CatTensors
    from flambeau.rl.envs.transforms._tensor.hash import Hash as Hash
    from flambeau.rl.envs.transforms._tensor.stack import Stack as Stack
    from flambeau.rl.envs.transforms._tensor.tokenizer import Tokenizer as Tokenizer
    from flambeau.rl.envs.transforms._tensor.unary import UnaryTransform as UnaryTransform
    from flambeau.rl.envs.transforms._timer import Timer as Timer
    from flambeau.rl.envs.transforms._vec_gym import VecGymEnvTransform as VecGymEnvTransform
    from flambeau.rl.envs.transforms._video import DecodeVideoTransform as DecodeVideoTransform
    from flambeau.rl.envs.transforms.gym_transforms import EndOfLifeTransform as EndOfLifeTransform
    from flambeau.rl.envs.transforms.mean_action_selector import MeanActionSelector as MeanActionSelector
    from flambeau.rl.envs.transforms.module import ModuleTransform as ModuleTransform
    from flambeau.rl.envs.transforms.r3m import R3MTransform as R3MTransform
    from flambeau.rl.envs.transforms.rb_transforms import MultiStepTransform as MultiStepTransform
    from flambeau.rl.envs.transforms.rb_transforms import NextStateReconstructor as NextStateReconstructor
    from flambeau.rl.envs.transforms.rb_transforms import PolicyAgeFilter as PolicyAgeFilter
    from flambeau.rl.envs.transforms.rnd import RNDTransform as RNDTransform
    from flambeau.rl.envs.transforms.rnd import RunningMeanStd as RunningMeanStd
    from flambeau.rl.envs.transforms.vc1 import VC1Transform as VC1Transform
    from flambeau.rl.envs.transforms.vecnorm import VecNormV2 as VecNormV2
    from flambeau.rl.envs.transforms.vip import VIPRewardTransform as VIPRewardTransform
    from flambeau.rl.envs.transforms.vip import VIPTransform as VIPTransform

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_action.chunks": ("ActionChunkTransform",),
        "_primitive": (
            "MacroAction",
            "MacroPrimitive",
            "MacroPrimitiveTransform",
            "TargetMacroAction",
        ),
        "_action.tokens": ("ActionTokenizerTransform",),
        "r3m": ("R3MTransform",),
        "vip": (
            "VIPRewardTransform",
            "VIPTransform",
        ),
        "vc1": ("VC1Transform",),
        "_action.discrete": (
            "ActionMask",
            "DiscreteActionProjection",
        ),
        "_action.discretizer": ("ActionDiscretizer",),
        "_action.scaling": (
            "ActionScaling",
            "FlattenAction",
        ),
        "_action.several": ("MultiAction",),
        "_base.compose": ("Compose",),
        "_base.environment": (
            "AutoResetEnv",
            "TransformedEnv",
        ),
        "_base.transform": (
            "ObservationTransform",
            "Transform",
        ),
        "_tensor.cat_tensors": ("CatTensors",),
        "_clip": ("ClipTransform",),
        "_conditional": (
            "ConditionalPolicySwitch",
            "ConditionalSkip",
        ),
        "_device": (
            "DTypeCastTransform",
            "DeviceCastTransform",
            "DoubleToFloat",
        ),
        "_env.batches": (
            "BatchSizeTransform",
            "BurnInTransform",
        ),
        "_env.counters": (
            "InitTracker",
            "StepCounter",
            "TrajCounter",
        ),
        "_env.ends": (
            "AutoResetTransform",
            "RandomTruncationTransform",
            "TerminateTransform",
        ),
        "_env.frames": (
            "FrameSkipTransform",
            "NoopResetEnv",
        ),
        "_env.primer": (
            "TensorDictPrimer",
            "gSDENoise",
        ),
        "_expand_as": ("ExpandAs",),
        "_tensor.hash": ("Hash",),
        "_keys": (
            "ExcludeTransform",
            "RemoveEmptySpecs",
            "RenameTransform",
            "SelectTransform",
        ),
        "_observation.cat_frames": ("CatFrames",),
        "_observation.checks": (
            "FiniteTensorDictCheck",
            "PinMemoryTransform",
        ),
        "_observation.images": (
            "CenterCrop",
            "Crop",
            "GrayScale",
            "Resize",
            "ToTensorImage",
        ),
        "_observation.shapes": (
            "FlattenObservation",
            "PermuteTransform",
            "SqueezeTransform",
            "UnsqueezeTransform",
        ),
        "_observation.time_max_pool": ("TimeMaxPool",),
        "_normalization.observation_norm": ("ObservationNorm",),
        "_normalization.reward_scaling": ("RewardScaling",),
        "_video": ("DecodeVideoTransform",),
        "_random_crop": ("RandomCropTensorDict",),
        "_reward.combined": (
            "LineariseRewards",
            "SuccessReward",
        ),
        "_reward.pointwise": (
            "BinarizeReward",
            "RewardClipping",
            "SignTransform",
        ),
        "_reward.sums": (
            "Reward2GoTransform",
            "RewardSum",
            "TargetReturn",
        ),
        "_tensor.stack": ("Stack",),
        "_timer": ("Timer",),
        "_tensor.tokenizer": ("Tokenizer",),
        "_tensor.unary": ("UnaryTransform",),
        "_vec_gym": ("VecGymEnvTransform",),
        "_normalization.vecnorm_sums": ("VecNorm",),
        "gym_transforms": ("EndOfLifeTransform",),
        "mean_action_selector": ("MeanActionSelector",),
        "module": ("ModuleTransform",),
        "rb_transforms": (
            "MultiStepTransform",
            "NextStateReconstructor",
            "PolicyAgeFilter",
        ),
        "vecnorm": ("VecNormV2",),
        "rnd": (
            "RNDTransform",
            "RunningMeanStd",
        ),
        "_observation.next_observation_delta": ("NextObservationDelta",),
    },
    submodules=(
        "functional",
        "gym_transforms",
        "mean_action_selector",
        "module",
        "r3m",
        "rb_transforms",
        "transforms",
        "utils",
        "vc1",
        "vecnorm",
        "vip",
    ),
)

"""All transforms, and what those who write transforms need."""

from __future__ import annotations

from flambeau.rl.envs.transforms._action.chunks import ActionChunkTransform
from flambeau.rl.envs.transforms._action.discrete import ActionMask, DiscreteActionProjection
from flambeau.rl.envs.transforms._action.discretizer import ActionDiscretizer
from flambeau.rl.envs.transforms._action.scaling import ActionScaling, FlattenAction
from flambeau.rl.envs.transforms._action.several import MultiAction
from flambeau.rl.envs.transforms._action.tokens import ActionTokenizerTransform
from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._base.environment import AutoResetEnv, TransformedEnv
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite as _apply_to_composite
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite_inv as _apply_to_composite_inv
from flambeau.rl.envs.transforms._base.transform import ObservationTransform, Transform
from flambeau.rl.envs.transforms._base.transform import _CallableTransform as _CallableTransform
from flambeau.rl.envs.transforms._clip import ClipTransform
from flambeau.rl.envs.transforms._conditional import ConditionalPolicySwitch, ConditionalSkip
from flambeau.rl.envs.transforms._device import DeviceCastTransform, DoubleToFloat, DTypeCastTransform
from flambeau.rl.envs.transforms._env.batches import BatchSizeTransform, BurnInTransform
from flambeau.rl.envs.transforms._env.counters import InitTracker, StepCounter, TrajCounter
from flambeau.rl.envs.transforms._env.ends import AutoResetTransform, RandomTruncationTransform, TerminateTransform
from flambeau.rl.envs.transforms._env.frames import FrameSkipTransform, NoopResetEnv
from flambeau.rl.envs.transforms._env.primer import TensorDictPrimer, gSDENoise
from flambeau.rl.envs.transforms._expand_as import ExpandAs
from flambeau.rl.envs.transforms._keys import (
    ExcludeTransform,
    FlattenTensorDict,
    RemoveEmptySpecs,
    RenameTransform,
    SelectTransform,
)
from flambeau.rl.envs.transforms._normalization.observation_norm import ObservationNorm
from flambeau.rl.envs.transforms._normalization.reward_scaling import RewardScaling
from flambeau.rl.envs.transforms._normalization.vecnorm_sums import VecNorm
from flambeau.rl.envs.transforms._observation.cat_frames import CatFrames
from flambeau.rl.envs.transforms._observation.checks import FiniteTensorDictCheck, PinMemoryTransform
from flambeau.rl.envs.transforms._observation.images import CenterCrop, Crop, GrayScale, Resize, ToTensorImage
from flambeau.rl.envs.transforms._observation.next_observation_delta import NextObservationDelta
from flambeau.rl.envs.transforms._observation.shapes import (
    FlattenObservation,
    PermuteTransform,
    SqueezeTransform,
    UnsqueezeTransform,
)
from flambeau.rl.envs.transforms._observation.time_max_pool import TimeMaxPool
from flambeau.rl.envs.transforms._primitive import MacroPrimitive, MacroPrimitiveTransform
from flambeau.rl.envs.transforms._random_crop import RandomCropTensorDict
from flambeau.rl.envs.transforms._reward.combined import LineariseRewards, SuccessReward
from flambeau.rl.envs.transforms._reward.pointwise import BinarizeReward, RewardClipping, SignTransform
from flambeau.rl.envs.transforms._reward.sums import Reward2GoTransform, RewardSum, TargetReturn
from flambeau.rl.envs.transforms._tensor.cat_tensors import CatTensors
from flambeau.rl.envs.transforms._tensor.hash import Hash
from flambeau.rl.envs.transforms._tensor.stack import Stack
from flambeau.rl.envs.transforms._tensor.tokenizer import Tokenizer
from flambeau.rl.envs.transforms._tensor.unary import UnaryTransform
from flambeau.rl.envs.transforms._timer import Timer
from flambeau.rl.envs.transforms._vec_gym import VecGymEnvTransform
from flambeau.rl.envs.transforms._video import DecodeVideoTransform

__all__ = [
    "ActionChunkTransform",
    "ActionDiscretizer",
    "ActionMask",
    "ActionScaling",
    "ActionTokenizerTransform",
    "AutoResetEnv",
    "AutoResetTransform",
    "BatchSizeTransform",
    "BinarizeReward",
    "BurnInTransform",
    "CatFrames",
    "CatTensors",
    "CenterCrop",
    "ClipTransform",
    "Compose",
    "ConditionalPolicySwitch",
    "ConditionalSkip",
    "Crop",
    "DTypeCastTransform",
    "DecodeVideoTransform",
    "DeviceCastTransform",
    "DiscreteActionProjection",
    "DoubleToFloat",
    "ExcludeTransform",
    "ExpandAs",
    "FiniteTensorDictCheck",
    "FlattenAction",
    "FlattenObservation",
    "FlattenTensorDict",
    "FrameSkipTransform",
    "GrayScale",
    "Hash",
    "InitTracker",
    "LineariseRewards",
    "MacroPrimitive",
    "MacroPrimitiveTransform",
    "MultiAction",
    "NextObservationDelta",
    "NoopResetEnv",
    "ObservationNorm",
    "ObservationTransform",
    "PermuteTransform",
    "PinMemoryTransform",
    "RandomCropTensorDict",
    "RandomTruncationTransform",
    "RemoveEmptySpecs",
    "RenameTransform",
    "Resize",
    "Reward2GoTransform",
    "RewardClipping",
    "RewardScaling",
    "RewardSum",
    "SelectTransform",
    "SignTransform",
    "SqueezeTransform",
    "Stack",
    "StepCounter",
    "SuccessReward",
    "TargetReturn",
    "TensorDictPrimer",
    "TerminateTransform",
    "TimeMaxPool",
    "Timer",
    "ToTensorImage",
    "Tokenizer",
    "TrajCounter",
    "Transform",
    "TransformedEnv",
    "UnaryTransform",
    "UnsqueezeTransform",
    "VecGymEnvTransform",
    "VecNorm",
    "gSDENoise",
]

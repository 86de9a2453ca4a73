"""Environments."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.async_envs import AsyncEnvPool as AsyncEnvPool
    from flambeau.rl.envs.async_envs import ProcessorAsyncEnvPool as ProcessorAsyncEnvPool
    from flambeau.rl.envs.async_envs import ThreadingAsyncEnvPool as ThreadingAsyncEnvPool
    from flambeau.rl.envs.batched_envs import ParallelEnv as ParallelEnv
    from flambeau.rl.envs.batched_envs import SerialEnv as SerialEnv
    from flambeau.rl.envs.common import EnvBase as EnvBase
    from flambeau.rl.envs.common import EnvMetaData as EnvMetaData
    from flambeau.rl.envs.common import make_tensordict as make_tensordict
    from flambeau.rl.envs.custom.chess import ChessEnv as ChessEnv
    from flambeau.rl.envs.custom.classic_control import AcrobotEnv as AcrobotEnv
    from flambeau.rl.envs.custom.classic_control import CartPoleEnv as CartPoleEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarContinuousEnv as MountainCarContinuousEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarEnv as MountainCarEnv
    from flambeau.rl.envs.custom.llm import LLMHashingEnv as LLMHashingEnv
    from flambeau.rl.envs.custom.mujoco import AntEnv as AntEnv
    from flambeau.rl.envs.custom.mujoco import CartesianSolver as CartesianSolver
    from flambeau.rl.envs.custom.mujoco import HopperEnv as HopperEnv
    from flambeau.rl.envs.custom.mujoco import HumanoidEnv as HumanoidEnv
    from flambeau.rl.envs.custom.mujoco import HumanoidMacroAction as HumanoidMacroAction
    from flambeau.rl.envs.custom.mujoco import MujocoEnv as MujocoEnv
    from flambeau.rl.envs.custom.mujoco import RobotMacroAction as RobotMacroAction
    from flambeau.rl.envs.custom.mujoco import RobotMacroActionMode as RobotMacroActionMode
    from flambeau.rl.envs.custom.mujoco import SatelliteAttitudeTransform as SatelliteAttitudeTransform
    from flambeau.rl.envs.custom.mujoco import SatelliteEnv as SatelliteEnv
    from flambeau.rl.envs.custom.mujoco import SatelliteMacroAction as SatelliteMacroAction
    from flambeau.rl.envs.custom.mujoco import URScriptPrimitive as URScriptPrimitive
    from flambeau.rl.envs.custom.mujoco import URScriptPrimitiveTransform as URScriptPrimitiveTransform
    from flambeau.rl.envs.custom.mujoco import Walker2dEnv as Walker2dEnv
    from flambeau.rl.envs.custom.pendulum import PendulumEnv as PendulumEnv
    from flambeau.rl.envs.custom.tictactoeenv import TicTacToeEnv as TicTacToeEnv
    from flambeau.rl.envs.custom.trading import FinancialRegimeEnv as FinancialRegimeEnv
    from flambeau.rl.envs.custom.vla import ToyVLAEnv as ToyVLAEnv
    from flambeau.rl.envs.env_creator import EnvCreator as EnvCreator
    from flambeau.rl.envs.env_creator import env_creator as env_creator
    from flambeau.rl.envs.env_creator import get_env_metadata as get_env_metadata
    from flambeau.rl.envs.gym_like import GymLikeEnv as GymLikeEnv
    from flambeau.rl.envs.gym_like import default_info_dict_reader as default_info_dict_reader
    from flambeau.rl.envs.libs.brax import BraxEnv as BraxEnv
    from flambeau.rl.envs.libs.brax import BraxWrapper as BraxWrapper
    from flambeau.rl.envs.libs.dm_control import DMControlEnv as DMControlEnv
    from flambeau.rl.envs.libs.dm_control import DMControlWrapper as DMControlWrapper
    from flambeau.rl.envs.libs.envpool import MultiThreadedEnv as MultiThreadedEnv
    from flambeau.rl.envs.libs.envpool import MultiThreadedEnvWrapper as MultiThreadedEnvWrapper
    from flambeau.rl.envs.libs.gym import GymEnv as GymEnv
    from flambeau.rl.envs.libs.gym import GymWrapper as GymWrapper
    from flambeau.rl.envs.libs.gym import MOGymEnv as MOGymEnv
    from flambeau.rl.envs.libs.gym import MOGymWrapper as MOGymWrapper
    from flambeau.rl.envs.libs.gym import gym_backend as gym_backend
    from flambeau.rl.envs.libs.gym import register_gym_spec_conversion as register_gym_spec_conversion
    from flambeau.rl.envs.libs.gym import set_gym_backend as set_gym_backend
    from flambeau.rl.envs.libs.jumanji import JumanjiEnv as JumanjiEnv
    from flambeau.rl.envs.libs.jumanji import JumanjiWrapper as JumanjiWrapper
    from flambeau.rl.envs.libs.lbforaging import LBForagingEnv as LBForagingEnv
    from flambeau.rl.envs.libs.lbforaging import LBForagingWrapper as LBForagingWrapper
    from flambeau.rl.envs.libs.openspiel import OpenSpielEnv as OpenSpielEnv
    from flambeau.rl.envs.libs.openspiel import OpenSpielWrapper as OpenSpielWrapper
    from flambeau.rl.envs.libs.pettingzoo import PettingZooEnv as PettingZooEnv
    from flambeau.rl.envs.libs.pettingzoo import PettingZooWrapper as PettingZooWrapper
    from flambeau.rl.envs.libs.vmas import VmasEnv as VmasEnv
    from flambeau.rl.envs.libs.vmas import VmasWrapper as VmasWrapper
    from flambeau.rl.envs.model_based import DreamerDecoder as DreamerDecoder
    from flambeau.rl.envs.model_based import DreamerEnv as DreamerEnv
    from flambeau.rl.envs.model_based import ImaginedEnv as ImaginedEnv
    from flambeau.rl.envs.model_based import ModelBasedEnvBase as ModelBasedEnvBase
    from flambeau.rl.envs.model_based import WorldModelEnv as WorldModelEnv
    from flambeau.rl.envs.transforms import ActionChunkTransform as ActionChunkTransform
    from flambeau.rl.envs.transforms import ActionDiscretizer as ActionDiscretizer
    from flambeau.rl.envs.transforms import ActionMask as ActionMask
    from flambeau.rl.envs.transforms import ActionScaling as ActionScaling
    from flambeau.rl.envs.transforms import ActionTokenizerTransform as ActionTokenizerTransform
    from flambeau.rl.envs.transforms import AutoResetEnv as AutoResetEnv
    from flambeau.rl.envs.transforms import AutoResetTransform as AutoResetTransform
    from flambeau.rl.envs.transforms import BatchSizeTransform as BatchSizeTransform
    from flambeau.rl.envs.transforms import BinarizeReward as BinarizeReward
    from flambeau.rl.envs.transforms import BurnInTransform as BurnInTransform
    from flambeau.rl.envs.transforms import CatFrames as CatFrames
    from flambeau.rl.envs.transforms import CatTensors as CatTensors
    from flambeau.rl.envs.transforms import CenterCrop as CenterCrop
    from flambeau.rl.envs.transforms import ClipTransform as ClipTransform
    from flambeau.rl.envs.transforms import Compose as Compose
    from flambeau.rl.envs.transforms import ConditionalPolicySwitch as ConditionalPolicySwitch
    from flambeau.rl.envs.transforms import ConditionalSkip as ConditionalSkip
    from flambeau.rl.envs.transforms import Crop as Crop
    from flambeau.rl.envs.transforms import DeviceCastTransform as DeviceCastTransform
    from flambeau.rl.envs.transforms import DiscreteActionProjection as DiscreteActionProjection
    from flambeau.rl.envs.transforms import DoubleToFloat as DoubleToFloat
    from flambeau.rl.envs.transforms import DTypeCastTransform as DTypeCastTransform
    from flambeau.rl.envs.transforms import EndOfLifeTransform as EndOfLifeTransform
    from flambeau.rl.envs.transforms import ExcludeTransform as ExcludeTransform
    from flambeau.rl.envs.transforms import ExpandAs as ExpandAs
    from flambeau.rl.envs.transforms import FiniteTensorDictCheck as FiniteTensorDictCheck
    from flambeau.rl.envs.transforms import FlattenAction as FlattenAction
    from flambeau.rl.envs.transforms import FlattenObservation as FlattenObservation
    from flambeau.rl.envs.transforms import FrameSkipTransform as FrameSkipTransform
    from flambeau.rl.envs.transforms import GrayScale as GrayScale
    from flambeau.rl.envs.transforms import Hash as Hash
    from flambeau.rl.envs.transforms import InitTracker as InitTracker
    from flambeau.rl.envs.transforms import LineariseRewards as LineariseRewards
    from flambeau.rl.envs.transforms import MacroAction as MacroAction
    from flambeau.rl.envs.transforms import MacroPrimitive as MacroPrimitive
    from flambeau.rl.envs.transforms import MacroPrimitiveTransform as MacroPrimitiveTransform
    from flambeau.rl.envs.transforms import MeanActionSelector as MeanActionSelector
    from flambeau.rl.envs.transforms import MultiAction as MultiAction
    from flambeau.rl.envs.transforms import MultiStepTransform as MultiStepTransform
    from flambeau.rl.envs.transforms import NoopResetEnv as NoopResetEnv
    from flambeau.rl.envs.transforms import ObservationNorm as ObservationNorm
    from flambeau.rl.envs.transforms import ObservationTransform as ObservationTransform
    from flambeau.rl.envs.transforms import PermuteTransform as PermuteTransform
    from flambeau.rl.envs.transforms import PinMemoryTransform as PinMemoryTransform
    from flambeau.rl.envs.transforms import R3MTransform as R3MTransform
    from flambeau.rl.envs.transforms import RandomCropTensorDict as RandomCropTensorDict
    from flambeau.rl.envs.transforms import RandomTruncationTransform as RandomTruncationTransform
    from flambeau.rl.envs.transforms import RemoveEmptySpecs as RemoveEmptySpecs
    from flambeau.rl.envs.transforms import RenameTransform as RenameTransform
    from flambeau.rl.envs.transforms import Resize as Resize
    from flambeau.rl.envs.transforms import Reward2GoTransform as Reward2GoTransform
    from flambeau.rl.envs.transforms import RewardClipping as RewardClipping
    from flambeau.rl.envs.transforms import RewardScaling as RewardScaling
    from flambeau.rl.envs.transforms import RewardSum as RewardSum
    from flambeau.rl.envs.transforms import SelectTransform as SelectTransform
    from flambeau.rl.envs.transforms import SignTransform as SignTransform
    from flambeau.rl.envs.transforms import SqueezeTransform as SqueezeTransform
    from flambeau.rl.envs.transforms import Stack as Stack
    from flambeau.rl.envs.transforms import StepCounter as StepCounter
    from flambeau.rl.envs.transforms import SuccessReward as SuccessReward
    from flambeau.rl.envs.transforms import TargetMacroAction as TargetMacroAction
    from flambeau.rl.envs.transforms import TargetReturn as TargetReturn
    from flambeau.rl.envs.transforms import TensorDictPrimer as TensorDictPrimer
    from flambeau.rl.envs.transforms import TerminateTransform as TerminateTransform
    from flambeau.rl.envs.transforms import TimeMaxPool as TimeMaxPool
    from flambeau.rl.envs.transforms import Timer as Timer
    from flambeau.rl.envs.transforms import Tokenizer as Tokenizer
    from flambeau.rl.envs.transforms import ToTensorImage as ToTensorImage
    from flambeau.rl.envs.transforms import TrajCounter as TrajCounter
    from flambeau.rl.envs.transforms import Transform as Transform
    from flambeau.rl.envs.transforms import TransformedEnv as TransformedEnv
    from flambeau.rl.envs.transforms import UnaryTransform as UnaryTransform
    from flambeau.rl.envs.transforms import UnsqueezeTransform as UnsqueezeTransform
    from flambeau.rl.envs.transforms import VC1Transform as VC1Transform
    from flambeau.rl.envs.transforms import VecGymEnvTransform as VecGymEnvTransform
    from flambeau.rl.envs.transforms import VecNorm as VecNorm
    from flambeau.rl.envs.transforms import VecNormV2 as VecNormV2
    from flambeau.rl.envs.transforms import VIPRewardTransform as VIPRewardTransform
    from flambeau.rl.envs.transforms import VIPTransform as VIPTransform
    from flambeau.rl.envs.transforms import gSDENoise as gSDENoise
    from flambeau.rl.envs.transforms._observation.next_observation_delta import (
        NextObservationDelta as NextObservationDelta,
    )
    from flambeau.rl.envs.transforms._video import DecodeVideoTransform as DecodeVideoTransform
    from flambeau.rl.envs.utils import ExplorationType as ExplorationType
    from flambeau.rl.envs.utils import MarlGroupMapType as MarlGroupMapType
    from flambeau.rl.envs.utils import check_env_specs as check_env_specs
    from flambeau.rl.envs.utils import check_marl_grouping as check_marl_grouping
    from flambeau.rl.envs.utils import exploration_type as exploration_type
    from flambeau.rl.envs.utils import get_available_libraries as get_available_libraries
    from flambeau.rl.envs.utils import make_composite_from_td as make_composite_from_td
    from flambeau.rl.envs.utils import set_exploration_type as set_exploration_type
    from flambeau.rl.envs.utils import step_mdp as step_mdp
    from flambeau.rl.envs.utils import terminated_or_truncated as terminated_or_truncated

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "custom.chess": ("ChessEnv",),
        "custom.llm": ("LLMHashingEnv",),
        "custom.trading": ("FinancialRegimeEnv",),
        "custom.vla": ("ToyVLAEnv",),
        "transforms._observation.next_observation_delta": ("NextObservationDelta",),
        "transforms._video": ("DecodeVideoTransform",),
        "custom.mujoco": (
            "CartesianSolver",
            "RobotMacroAction",
            "RobotMacroActionMode",
            "URScriptPrimitive",
            "URScriptPrimitiveTransform",
            "AntEnv",
            "HopperEnv",
            "HumanoidEnv",
            "HumanoidMacroAction",
            "MujocoEnv",
            "SatelliteAttitudeTransform",
            "SatelliteEnv",
            "SatelliteMacroAction",
            "Walker2dEnv",
        ),
        "async_envs": ("AsyncEnvPool", "ProcessorAsyncEnvPool", "ThreadingAsyncEnvPool"),
        "batched_envs": ("ParallelEnv", "SerialEnv"),
        "common": ("EnvBase", "EnvMetaData", "make_tensordict"),
        "custom.classic_control": ("AcrobotEnv", "CartPoleEnv", "MountainCarContinuousEnv", "MountainCarEnv"),
        "custom.pendulum": ("PendulumEnv",),
        "custom.tictactoeenv": ("TicTacToeEnv",),
        "env_creator": ("EnvCreator", "env_creator", "get_env_metadata"),
        "gym_like": ("GymLikeEnv", "default_info_dict_reader"),
        "libs.brax": ("BraxEnv", "BraxWrapper"),
        "libs.dm_control": ("DMControlEnv", "DMControlWrapper"),
        "libs.envpool": ("MultiThreadedEnv", "MultiThreadedEnvWrapper"),
        "libs.jumanji": ("JumanjiEnv", "JumanjiWrapper"),
        "libs.lbforaging": ("LBForagingEnv", "LBForagingWrapper"),
        "libs.openspiel": ("OpenSpielEnv", "OpenSpielWrapper"),
        "libs.pettingzoo": ("PettingZooEnv", "PettingZooWrapper"),
        "libs.vmas": ("VmasEnv", "VmasWrapper"),
        "libs.gym": (
            "GymEnv",
            "GymWrapper",
            "MOGymEnv",
            "MOGymWrapper",
            "gym_backend",
            "register_gym_spec_conversion",
            "set_gym_backend",
        ),
        "model_based": ("ModelBasedEnvBase", "DreamerDecoder", "DreamerEnv", "ImaginedEnv", "WorldModelEnv"),
        "transforms": (
            "ActionChunkTransform",
            "MacroAction",
            "MacroPrimitive",
            "MacroPrimitiveTransform",
            "TargetMacroAction",
            "ActionTokenizerTransform",
            "R3MTransform",
            "VIPRewardTransform",
            "VIPTransform",
            "VC1Transform",
            "ActionDiscretizer",
            "ActionMask",
            "ActionScaling",
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
            "DeviceCastTransform",
            "DiscreteActionProjection",
            "DoubleToFloat",
            "EndOfLifeTransform",
            "ExcludeTransform",
            "ExpandAs",
            "FiniteTensorDictCheck",
            "FlattenAction",
            "FlattenObservation",
            "FrameSkipTransform",
            "GrayScale",
            "Hash",
            "InitTracker",
            "LineariseRewards",
            "MeanActionSelector",
            "MultiAction",
            "MultiStepTransform",
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
            "VecNormV2",
            "gSDENoise",
        ),
        "utils": (
            "ExplorationType",
            "MarlGroupMapType",
            "check_env_specs",
            "check_marl_grouping",
            "exploration_type",
            "get_available_libraries",
            "make_composite_from_td",
            "set_exploration_type",
            "step_mdp",
            "terminated_or_truncated",
        ),
    },
    submodules=("custom", "libs", "model_based", "transforms"),
)

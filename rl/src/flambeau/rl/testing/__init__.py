"""Environments, policies and helpers to test reinforcement learning with."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.testing.assertions import rand_reset as rand_reset
    from flambeau.rl.testing.assertions import rollout_consistency_assertion as rollout_consistency_assertion
    from flambeau.rl.testing.gym_helpers import BREAKOUT_VERSIONED as BREAKOUT_VERSIONED
    from flambeau.rl.testing.gym_helpers import CARTPOLE_VERSIONED as CARTPOLE_VERSIONED
    from flambeau.rl.testing.gym_helpers import CLIFFWALKING_VERSIONED as CLIFFWALKING_VERSIONED
    from flambeau.rl.testing.gym_helpers import HALFCHEETAH_VERSIONED as HALFCHEETAH_VERSIONED
    from flambeau.rl.testing.gym_helpers import PENDULUM_VERSIONED as PENDULUM_VERSIONED
    from flambeau.rl.testing.gym_helpers import PONG_VERSIONED as PONG_VERSIONED
    from flambeau.rl.testing.mocking_classes import ActionObsMergeLinear as ActionObsMergeLinear
    from flambeau.rl.testing.mocking_classes import AddPixelsTransform as AddPixelsTransform
    from flambeau.rl.testing.mocking_classes import AutoResettingCountingEnv as AutoResettingCountingEnv
    from flambeau.rl.testing.mocking_classes import ContinuousActionConvMockEnv as ContinuousActionConvMockEnv
    from flambeau.rl.testing.mocking_classes import ContinuousActionConvMockEnvNumpy as ContinuousActionConvMockEnvNumpy
    from flambeau.rl.testing.mocking_classes import ContinuousActionVecMockEnv as ContinuousActionVecMockEnv
    from flambeau.rl.testing.mocking_classes import CountingBatchedEnv as CountingBatchedEnv
    from flambeau.rl.testing.mocking_classes import CountingEnv as CountingEnv
    from flambeau.rl.testing.mocking_classes import CountingEnvCountModule as CountingEnvCountModule
    from flambeau.rl.testing.mocking_classes import CountingEnvCountPolicy as CountingEnvCountPolicy
    from flambeau.rl.testing.mocking_classes import CountingEnvWithString as CountingEnvWithString
    from flambeau.rl.testing.mocking_classes import CountingVecNormV2 as CountingVecNormV2
    from flambeau.rl.testing.mocking_classes import DiscreteActionConvMockEnv as DiscreteActionConvMockEnv
    from flambeau.rl.testing.mocking_classes import DiscreteActionConvMockEnvNumpy as DiscreteActionConvMockEnvNumpy
    from flambeau.rl.testing.mocking_classes import DiscreteActionConvPolicy as DiscreteActionConvPolicy
    from flambeau.rl.testing.mocking_classes import DiscreteActionVecMockEnv as DiscreteActionVecMockEnv
    from flambeau.rl.testing.mocking_classes import DiscreteActionVecPolicy as DiscreteActionVecPolicy
    from flambeau.rl.testing.mocking_classes import EnvThatDoesNothing as EnvThatDoesNothing
    from flambeau.rl.testing.mocking_classes import EnvThatErrorsAfter10Iters as EnvThatErrorsAfter10Iters
    from flambeau.rl.testing.mocking_classes import EnvWithMetadata as EnvWithMetadata
    from flambeau.rl.testing.mocking_classes import EnvWithScalarAction as EnvWithScalarAction
    from flambeau.rl.testing.mocking_classes import FastImageEnv as FastImageEnv
    from flambeau.rl.testing.mocking_classes import IncrementingEnv as IncrementingEnv
    from flambeau.rl.testing.mocking_classes import MockBatchedLockedEnv as MockBatchedLockedEnv
    from flambeau.rl.testing.mocking_classes import MockBatchedUnLockedEnv as MockBatchedUnLockedEnv
    from flambeau.rl.testing.mocking_classes import MockSerialEnv as MockSerialEnv
    from flambeau.rl.testing.mocking_classes import MultiAgentCountingEnv as MultiAgentCountingEnv
    from flambeau.rl.testing.mocking_classes import MultiKeyCountingEnv as MultiKeyCountingEnv
    from flambeau.rl.testing.mocking_classes import MultiKeyCountingEnvPolicy as MultiKeyCountingEnvPolicy
    from flambeau.rl.testing.mocking_classes import NestedCountingEnv as NestedCountingEnv
    from flambeau.rl.testing.mocking_classes import StateLessCountingEnv as StateLessCountingEnv
    from flambeau.rl.testing.mocking_classes import Str2StrEnv as Str2StrEnv
    from flambeau.rl.testing.mocking_classes import get_random_string as get_random_string
    from flambeau.rl.testing.mocking_classes import make_spec as make_spec
    from flambeau.rl.testing.modules import BiasModule as BiasModule
    from flambeau.rl.testing.modules import CatLinear as CatLinear
    from flambeau.rl.testing.modules import LSTMNet as LSTMNet
    from flambeau.rl.testing.modules import NonSerializableBiasModule as NonSerializableBiasModule
    from flambeau.rl.testing.modules import call_value_nets as call_value_nets
    from flambeau.rl.testing.utils import IS_WIN as IS_WIN
    from flambeau.rl.testing.utils import PYTHON_3_9 as PYTHON_3_9
    from flambeau.rl.testing.utils import capture_log_records as capture_log_records
    from flambeau.rl.testing.utils import dtype_fixture as dtype_fixture
    from flambeau.rl.testing.utils import generate_seeds as generate_seeds
    from flambeau.rl.testing.utils import get_available_devices as get_available_devices
    from flambeau.rl.testing.utils import get_default_devices as get_default_devices
    from flambeau.rl.testing.utils import make_tc as make_tc
    from flambeau.rl.testing.utils import mp_ctx as mp_ctx
    from flambeau.rl.testing.utils import retry as retry
    from flambeau.rl.testing.utils import set_global_var as set_global_var

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "modules": (
            "BiasModule",
            "CatLinear",
            "LSTMNet",
            "NonSerializableBiasModule",
            "call_value_nets",
        ),
        "mocking_classes": (
            "AddPixelsTransform",
            "CountingVecNormV2",
            "ActionObsMergeLinear",
            "AutoResettingCountingEnv",
            "ContinuousActionConvMockEnv",
            "ContinuousActionConvMockEnvNumpy",
            "ContinuousActionVecMockEnv",
            "CountingBatchedEnv",
            "CountingEnv",
            "CountingEnvCountModule",
            "CountingEnvCountPolicy",
            "CountingEnvWithString",
            "DiscreteActionConvMockEnv",
            "DiscreteActionConvMockEnvNumpy",
            "DiscreteActionConvPolicy",
            "DiscreteActionVecMockEnv",
            "DiscreteActionVecPolicy",
            "EnvThatDoesNothing",
            "EnvThatErrorsAfter10Iters",
            "EnvWithMetadata",
            "EnvWithScalarAction",
            "FastImageEnv",
            "IncrementingEnv",
            "MockBatchedLockedEnv",
            "MockBatchedUnLockedEnv",
            "MockSerialEnv",
            "MultiAgentCountingEnv",
            "MultiKeyCountingEnv",
            "MultiKeyCountingEnvPolicy",
            "NestedCountingEnv",
            "StateLessCountingEnv",
            "Str2StrEnv",
            "get_random_string",
            "make_spec",
        ),
        "utils": (
            "IS_WIN",
            "PYTHON_3_9",
            "dtype_fixture",
            "make_tc",
            "mp_ctx",
            "set_global_var",
            "capture_log_records",
            "generate_seeds",
            "get_available_devices",
            "get_default_devices",
            "retry",
        ),
        "assertions": (
            "rand_reset",
            "rollout_consistency_assertion",
        ),
        "gym_helpers": (
            "BREAKOUT_VERSIONED",
            "CARTPOLE_VERSIONED",
            "CLIFFWALKING_VERSIONED",
            "HALFCHEETAH_VERSIONED",
            "PENDULUM_VERSIONED",
            "PONG_VERSIONED",
        ),
    },
)

"""Environments and policies to test with."""

from __future__ import annotations

from flambeau.rl.testing._agents import MultiAgentCountingEnv, MultiKeyCountingEnv
from flambeau.rl.testing._counting import (
    AutoResettingCountingEnv,
    CountingBatchedEnv,
    CountingEnv,
    CountingEnvWithString,
    IncrementingEnv,
    NestedCountingEnv,
    get_random_string,
)
from flambeau.rl.testing._policies import (
    ActionObsMergeLinear,
    CountingEnvCountModule,
    CountingEnvCountPolicy,
    DiscreteActionConvPolicy,
    DiscreteActionVecPolicy,
    MultiKeyCountingEnvPolicy,
)
from flambeau.rl.testing._special import (
    EnvThatDoesNothing,
    EnvThatErrorsAfter10Iters,
    EnvWithMetadata,
    EnvWithScalarAction,
    FastImageEnv,
    MockBatchedLockedEnv,
    MockBatchedUnLockedEnv,
    MockSerialEnv,
    StateLessCountingEnv,
    Str2StrEnv,
)
from flambeau.rl.testing._unusual import (
    TC,
    AddPixelsTransform,
    CountingVecNormV2,
    EnvThatErrorsBecauseOfStack,
    EnvWithDynamicSpec,
    EnvWithTensorClass,
)
from flambeau.rl.testing._vectors import (
    ContinuousActionConvMockEnv,
    ContinuousActionConvMockEnvNumpy,
    ContinuousActionVecMockEnv,
    DiscreteActionConvMockEnv,
    DiscreteActionConvMockEnvNumpy,
    DiscreteActionVecMockEnv,
    make_spec,
)

__all__ = [
    "TC",
    "ActionObsMergeLinear",
    "AddPixelsTransform",
    "AutoResettingCountingEnv",
    "ContinuousActionConvMockEnv",
    "ContinuousActionConvMockEnvNumpy",
    "ContinuousActionVecMockEnv",
    "CountingBatchedEnv",
    "CountingEnv",
    "CountingEnvCountModule",
    "CountingEnvCountPolicy",
    "CountingEnvWithString",
    "CountingVecNormV2",
    "DiscreteActionConvMockEnv",
    "DiscreteActionConvMockEnvNumpy",
    "DiscreteActionConvPolicy",
    "DiscreteActionVecMockEnv",
    "DiscreteActionVecPolicy",
    "EnvThatDoesNothing",
    "EnvThatErrorsAfter10Iters",
    "EnvThatErrorsBecauseOfStack",
    "EnvWithDynamicSpec",
    "EnvWithMetadata",
    "EnvWithScalarAction",
    "EnvWithTensorClass",
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
]

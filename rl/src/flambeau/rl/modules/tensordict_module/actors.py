"""Policies and values as modules of tensordicts."""

from __future__ import annotations

from flambeau.rl.modules.tensordict_module._actors import Actor as Actor
from flambeau.rl.modules.tensordict_module._actors import ActorCriticOperator as ActorCriticOperator
from flambeau.rl.modules.tensordict_module._actors import ActorCriticWrapper as ActorCriticWrapper
from flambeau.rl.modules.tensordict_module._actors import ActorValueOperator as ActorValueOperator
from flambeau.rl.modules.tensordict_module._actors import LMHeadActorValueOperator as LMHeadActorValueOperator
from flambeau.rl.modules.tensordict_module._actors import ProbabilisticActor as ProbabilisticActor
from flambeau.rl.modules.tensordict_module._actors import ValueOperator as ValueOperator
from flambeau.rl.modules.tensordict_module._chunks import MultiStepActorWrapper as MultiStepActorWrapper
from flambeau.rl.modules.tensordict_module._decision import (
    DecisionTransformerInferenceWrapper as DecisionTransformerInferenceWrapper,
)
from flambeau.rl.modules.tensordict_module._diffusion import DiffusionActor as DiffusionActor
from flambeau.rl.modules.tensordict_module._dreamer_v3 import DreamerV3DiscreteActor as DreamerV3DiscreteActor
from flambeau.rl.modules.tensordict_module._dreamer_v3 import DreamerV3SeededPolicy as DreamerV3SeededPolicy
from flambeau.rl.modules.tensordict_module._qvalue import DistributionalQValueActor as DistributionalQValueActor
from flambeau.rl.modules.tensordict_module._qvalue import DistributionalQValueHook as DistributionalQValueHook
from flambeau.rl.modules.tensordict_module._qvalue import DistributionalQValueModule as DistributionalQValueModule
from flambeau.rl.modules.tensordict_module._qvalue import QValueActor as QValueActor
from flambeau.rl.modules.tensordict_module._qvalue import QValueHook as QValueHook
from flambeau.rl.modules.tensordict_module._qvalue import QValueModule as QValueModule
from flambeau.rl.modules.tensordict_module._tanh import TanhModule as TanhModule

__all__ = [
    "Actor",
    "ActorCriticOperator",
    "ActorCriticWrapper",
    "ActorValueOperator",
    "DecisionTransformerInferenceWrapper",
    "DiffusionActor",
    "DistributionalQValueActor",
    "DistributionalQValueHook",
    "DistributionalQValueModule",
    "DreamerV3DiscreteActor",
    "DreamerV3SeededPolicy",
    "LMHeadActorValueOperator",
    "MultiStepActorWrapper",
    "ProbabilisticActor",
    "QValueActor",
    "QValueHook",
    "QValueModule",
    "TanhModule",
    "ValueOperator",
]

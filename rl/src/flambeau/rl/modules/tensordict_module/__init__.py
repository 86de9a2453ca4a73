"""Policies, values and exploration that read and write tensordicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.rl.modules.tensordict_module.actors import *
    from flambeau.rl.modules.tensordict_module.common import *
    from flambeau.rl.modules.tensordict_module.exploration import *
    from flambeau.rl.modules.tensordict_module.probabilistic import *
    from flambeau.rl.modules.tensordict_module.rnn import *
    from flambeau.rl.modules.tensordict_module.sequence import *
    from flambeau.rl.modules.tensordict_module.world_models import *

__getattr__: Any
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "actors": (
            "Actor",
            "ActorCriticOperator",
            "ActorCriticWrapper",
            "ActorValueOperator",
            "DecisionTransformerInferenceWrapper",
            "DiffusionActor",
            "DreamerV3DiscreteActor",
            "DreamerV3SeededPolicy",
            "DistributionalQValueActor",
            "DistributionalQValueHook",
            "DistributionalQValueModule",
            "LMHeadActorValueOperator",
            "MultiStepActorWrapper",
            "ProbabilisticActor",
            "QValueActor",
            "QValueHook",
            "QValueModule",
            "TanhModule",
            "ValueOperator",
        ),
        "common": ("DistributionalDQNnet", "SafeModule", "VmapModule"),
        "exploration": (
            "AdditiveGaussianModule",
            "AdditiveGaussianWrapper",
            "EGreedyModule",
            "EGreedyWrapper",
            "OrnsteinUhlenbeckProcessModule",
            "OrnsteinUhlenbeckProcessWrapper",
            "RandomPolicy",
            "set_exploration_modules_spec_from_env",
        ),
        "probabilistic": ("SafeProbabilisticModule", "SafeProbabilisticTensorDictSequential"),
        "_rnn_precision": (
            "RecurrentMatmulPrecision",
            "RecurrentMatmulPrecisionUserMode",
            "get_recurrent_matmul_precision",
            "set_recurrent_matmul_precision",
        ),
        "rnn": (
            "GRU",
            "LSTM",
            "GRUCell",
            "GRUModule",
            "LSTMCell",
            "LSTMModule",
            "canonicalize_rnn_subset",
            "recurrent_mode",
            "set_recurrent_mode",
        ),
        "sequence": ("SafeSequential",),
        "world_models": ("WorldModel", "WorldModelWrapper"),
    },
)

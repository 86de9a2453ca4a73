"""Networks, distributions, actors and exploration for reinforcement learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.rl.modules.distributions import *
    from flambeau.rl.modules.functional import *
    from flambeau.rl.modules.mcts import *
    from flambeau.rl.modules.models import *
    from flambeau.rl.modules.planners import *
    from flambeau.rl.modules.tensordict_module import *
    from flambeau.rl.modules.utils import get_env_transforms_from_module as get_env_transforms_from_module
    from flambeau.rl.modules.utils import get_primers_from_module as get_primers_from_module
    from flambeau.rl.modules.value_norm import *
    from flambeau.rl.modules.value_transforms import *

__getattr__: Any
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "distributions": (
            "Delta",
            "IndependentNormal",
            "LLMMaskedCategorical",
            "MaskedCategorical",
            "MaskedOneHotCategorical",
            "NormalParamExtractor",
            "NormalParamWrapper",
            "OneHotCategorical",
            "OneHotOrdinal",
            "Ordinal",
            "ReparamGradientStrategy",
            "TanhDelta",
            "TanhNormal",
            "TruncatedNormal",
            "distributions_maps",
        ),
        "mcts": ("EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore"),
        "models": (
            "MLP",
            "BatchRenorm1d",
            "ConsistentDropout",
            "ConsistentDropoutModule",
            "Conv3dNet",
            "ConvNet",
            "CrossCriticGroupSpec",
            "CrossGroupCritic",
            "DreamerActor",
            "ObsDecoder",
            "ObsEncoder",
            "RSSMPosterior",
            "RSSMPrior",
            "RSSMRollout",
            "SymExpTwoHot",
            "DTActor",
            "DecisionTransformer",
            "OnlineDTActor",
            "DdpgCnnActor",
            "DdpgCnnQNet",
            "DdpgMlpActor",
            "DdpgMlpQNet",
            "DuelingCnnDQNet",
            "MultiAgentConvNet",
            "MultiAgentMLP",
            "MultiAgentNetBase",
            "NoisyLazyLinear",
            "NoisyLinear",
            "QMixer",
            "Squeeze2dLayer",
            "SqueezeLayer",
            "VDNMixer",
            "reset_noise",
        ),
        "functional": ("signed_hyperbolic", "signed_parabolic", "symexp", "symlog"),
        "planners": ("CEMPlanner", "MPCPlannerBase", "MPPIPlanner"),
        "tensordict_module": (
            "Actor",
            "ActorCriticOperator",
            "ActorCriticWrapper",
            "ActorValueOperator",
            "AdditiveGaussianModule",
            "AdditiveGaussianWrapper",
            "DistributionalDQNnet",
            "DecisionTransformerInferenceWrapper",
            "DiffusionActor",
            "DistributionalQValueActor",
            "DistributionalQValueHook",
            "DistributionalQValueModule",
            "EGreedyModule",
            "EGreedyWrapper",
            "GRU",
            "GRUCell",
            "GRUModule",
            "LSTM",
            "LSTMCell",
            "LSTMModule",
            "LMHeadActorValueOperator",
            "OrnsteinUhlenbeckProcessModule",
            "OrnsteinUhlenbeckProcessWrapper",
            "MultiStepActorWrapper",
            "ProbabilisticActor",
            "QValueActor",
            "QValueHook",
            "QValueModule",
            "RandomPolicy",
            "SafeModule",
            "SafeProbabilisticModule",
            "SafeProbabilisticTensorDictSequential",
            "SafeSequential",
            "TanhModule",
            "ValueOperator",
            "VmapModule",
            "WorldModel",
            "WorldModelWrapper",
            "RecurrentMatmulPrecision",
            "RecurrentMatmulPrecisionUserMode",
            "canonicalize_rnn_subset",
            "get_recurrent_matmul_precision",
            "recurrent_mode",
            "set_exploration_modules_spec_from_env",
            "set_recurrent_matmul_precision",
            "set_recurrent_mode",
        ),
        "utils": ("get_env_transforms_from_module", "get_primers_from_module"),
        "value_norm": ("PercentileValueNorm", "PopArtValueNorm", "RunningValueNorm", "ValueNorm"),
        "value_transforms": (
            "ComposeValueTransform",
            "IdentityValueTransform",
            "SignedHyperbolicValueTransform",
            "SymLogValueTransform",
            "ValueTransform",
        ),
    },
)

"""Networks: perceptrons, convolutions, actors and critics, several agents, world models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.rl.modules.models.act import *
    from flambeau.rl.modules.models.batchrenorm import *
    from flambeau.rl.modules.models.cross_group_critic import *
    from flambeau.rl.modules.models.decision_transformer import *
    from flambeau.rl.modules.models.exploration import *
    from flambeau.rl.modules.models.gp import *
    from flambeau.rl.modules.models.llm import *
    from flambeau.rl.modules.models.model_based import *
    from flambeau.rl.modules.models.models import *
    from flambeau.rl.modules.models.multiagent import *
    from flambeau.rl.modules.models.rbf_controller import *
    from flambeau.rl.modules.models.utils import *
    from flambeau.rl.modules.tensordict_module.common import DistributionalDQNnet as DistributionalDQNnet

__getattr__: Any
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "act": ("ACTModel",),
        "batchrenorm": ("BatchRenorm1d",),
        "cross_group_critic": ("CrossCriticGroupSpec", "CrossGroupCritic"),
        "decision_transformer": ("DecisionTransformer",),
        "exploration": (
            "ConsistentDropout",
            "ConsistentDropoutModule",
            "NoisyLazyLinear",
            "NoisyLinear",
            "gSDEModule",
            "LazygSDEModule",
            "reset_noise",
        ),
        "gp": ("GPWorldModel",),
        "llm": ("GPT2RewardModel",),
        "model_based": (
            "DreamerActor",
            "DreamerV3BlockGRU",
            "DreamerV3BlockGRUCell",
            "DreamerV3ImageDecoder",
            "DreamerV3ImageEncoder",
            "DreamerV3MLP",
            "ObsDecoder",
            "ObsEncoder",
            "RSSMPosterior",
            "RSSMPosteriorV3",
            "RSSMPrior",
            "RSSMPriorV3",
            "RSSMRollout",
            "RSSMRolloutV3",
            "RSSMStateEstimatorV3",
            "SymExpTwoHot",
        ),
        "models": (
            "MLP",
            "Conv2dNet",
            "Conv3dNet",
            "ConvNet",
            "DTActor",
            "OnlineDTActor",
            "DdpgCnnActor",
            "DdpgCnnQNet",
            "DdpgMlpActor",
            "DdpgMlpQNet",
            "DuelingCnnDQNet",
            "DuelingMlpDQNet",
        ),
        "multiagent": ("MultiAgentConvNet", "MultiAgentMLP", "MultiAgentNetBase", "QMixer", "VDNMixer"),
        "rbf_controller": ("RBFController",),
        "utils": ("Squeeze2dLayer", "SqueezeLayer"),
        "flambeau.rl.modules.tensordict_module.common": ("DistributionalDQNnet",),
    },
)

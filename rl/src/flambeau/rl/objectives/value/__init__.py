"""Values of states and advantages of actions, estimated from trajectories."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.objectives.value.advantages import GAE as GAE
    from flambeau.rl.objectives.value.advantages import MultiAgentGAE as MultiAgentGAE
    from flambeau.rl.objectives.value.advantages import TD0Estimate as TD0Estimate
    from flambeau.rl.objectives.value.advantages import TD0Estimator as TD0Estimator
    from flambeau.rl.objectives.value.advantages import TD1Estimate as TD1Estimate
    from flambeau.rl.objectives.value.advantages import TD1Estimator as TD1Estimator
    from flambeau.rl.objectives.value.advantages import TDLambdaEstimate as TDLambdaEstimate
    from flambeau.rl.objectives.value.advantages import TDLambdaEstimator as TDLambdaEstimator
    from flambeau.rl.objectives.value.advantages import ValueEstimatorBase as ValueEstimatorBase
    from flambeau.rl.objectives.value.advantages import VTrace as VTrace

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "advantages": (
            "GAE",
            "MultiAgentGAE",
            "TD0Estimate",
            "TD0Estimator",
            "TD1Estimate",
            "TD1Estimator",
            "TDLambdaEstimate",
            "TDLambdaEstimator",
            "VTrace",
            "ValueEstimatorBase",
        )
    },
    submodules=("functional", "utils"),
)

"""Estimators of values and advantages on tensordicts: they call the value network and write what they find."""

from __future__ import annotations

from flambeau.rl.objectives.value._estimator import ValueEstimatorBase as ValueEstimatorBase
from flambeau.rl.objectives.value._generalized_estimators import GAE as GAE
from flambeau.rl.objectives.value._generalized_estimators import MultiAgentGAE as MultiAgentGAE
from flambeau.rl.objectives.value._return_estimators import TD0Estimate as TD0Estimate
from flambeau.rl.objectives.value._return_estimators import TD0Estimator as TD0Estimator
from flambeau.rl.objectives.value._return_estimators import TD1Estimate as TD1Estimate
from flambeau.rl.objectives.value._return_estimators import TD1Estimator as TD1Estimator
from flambeau.rl.objectives.value._return_estimators import TDLambdaEstimate as TDLambdaEstimate
from flambeau.rl.objectives.value._return_estimators import TDLambdaEstimator as TDLambdaEstimator
from flambeau.rl.objectives.value._vtrace import VTrace as VTrace

__all__ = [
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
]

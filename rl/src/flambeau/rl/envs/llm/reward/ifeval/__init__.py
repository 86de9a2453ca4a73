"""Rewards of IFEval: whether responses follow instructions that can be checked."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.llm.reward.ifeval._scorer import IFEvalScoreData as IFEvalScoreData
    from flambeau.rl.envs.llm.reward.ifeval._scorer import IfEvalScorer as IfEvalScorer

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"_scorer": ("IFEvalScoreData", "IfEvalScorer")})

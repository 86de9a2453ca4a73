"""Rewards of language models' responses that can be checked."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.llm.reward.countdown import CountdownRewardParser as CountdownRewardParser
    from flambeau.rl.envs.llm.reward.gsm8k import GSM8KRewardParser as GSM8KRewardParser
    from flambeau.rl.envs.llm.reward.ifeval import IFEvalScoreData as IFEvalScoreData
    from flambeau.rl.envs.llm.reward.ifeval import IfEvalScorer as IfEvalScorer
    from flambeau.rl.envs.llm.reward.math import MATHRewardParser as MATHRewardParser

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "countdown": ("CountdownRewardParser",),
        "gsm8k": ("GSM8KRewardParser",),
        "ifeval": ("IFEvalScoreData", "IfEvalScorer"),
        "math": ("MATHRewardParser",),
    },
)

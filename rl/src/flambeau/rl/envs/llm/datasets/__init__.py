"""Environments of data sets whose answers can be checked."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.llm.datasets.countdown import CountdownEnv as CountdownEnv
    from flambeau.rl.envs.llm.datasets.gsm8k import GSM8KEnv as GSM8KEnv
    from flambeau.rl.envs.llm.datasets.gsm8k import GSM8KPrepareQuestion as GSM8KPrepareQuestion
    from flambeau.rl.envs.llm.datasets.gsm8k import make_gsm8k_env as make_gsm8k_env
    from flambeau.rl.envs.llm.datasets.ifeval import IFEvalData as IFEvalData
    from flambeau.rl.envs.llm.datasets.ifeval import IFEvalEnv as IFEvalEnv
    from flambeau.rl.envs.llm.datasets.ifeval import IfEvalScorer as IfEvalScorer
    from flambeau.rl.envs.llm.datasets.math import MATHEnv as MATHEnv

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "countdown": ("CountdownEnv",),
        "gsm8k": ("GSM8KEnv", "GSM8KPrepareQuestion", "make_gsm8k_env"),
        "ifeval": ("IFEvalData", "IFEvalEnv", "IfEvalScorer"),
        "math": ("MATHEnv",),
    },
)

"""Environments of language models."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.llm.chat import ChatEnv as ChatEnv
    from flambeau.rl.envs.llm.chat import DatasetChatEnv as DatasetChatEnv
    from flambeau.rl.envs.llm.datasets import CountdownEnv as CountdownEnv
    from flambeau.rl.envs.llm.datasets import GSM8KEnv as GSM8KEnv
    from flambeau.rl.envs.llm.datasets import GSM8KPrepareQuestion as GSM8KPrepareQuestion
    from flambeau.rl.envs.llm.datasets import IFEvalData as IFEvalData
    from flambeau.rl.envs.llm.datasets import IFEvalEnv as IFEvalEnv
    from flambeau.rl.envs.llm.datasets import MATHEnv as MATHEnv
    from flambeau.rl.envs.llm.datasets import make_gsm8k_env as make_gsm8k_env
    from flambeau.rl.envs.llm.envs import LLMEnv as LLMEnv
    from flambeau.rl.envs.llm.envs import LLMHashingEnv as LLMHashingEnv
    from flambeau.rl.envs.llm.reward import CountdownRewardParser as CountdownRewardParser
    from flambeau.rl.envs.llm.reward import GSM8KRewardParser as GSM8KRewardParser
    from flambeau.rl.envs.llm.reward import IFEvalScoreData as IFEvalScoreData
    from flambeau.rl.envs.llm.reward import IfEvalScorer as IfEvalScorer
    from flambeau.rl.envs.llm.reward import MATHRewardParser as MATHRewardParser
    from flambeau.rl.envs.llm.transforms import AddThinkingPrompt as AddThinkingPrompt
    from flambeau.rl.envs.llm.transforms import BrowserTransform as BrowserTransform
    from flambeau.rl.envs.llm.transforms import DataLoadingPrimer as DataLoadingPrimer
    from flambeau.rl.envs.llm.transforms import KLComputation as KLComputation
    from flambeau.rl.envs.llm.transforms import KLRewardTransform as KLRewardTransform
    from flambeau.rl.envs.llm.transforms import MCPToolTransform as MCPToolTransform
    from flambeau.rl.envs.llm.transforms import PythonInterpreter as PythonInterpreter
    from flambeau.rl.envs.llm.transforms import RayDataLoadingPrimer as RayDataLoadingPrimer
    from flambeau.rl.envs.llm.transforms import RetrieveKL as RetrieveKL
    from flambeau.rl.envs.llm.transforms import RetrieveLogProb as RetrieveLogProb
    from flambeau.rl.envs.llm.transforms import TemplateTransform as TemplateTransform
    from flambeau.rl.envs.llm.transforms import Tokenizer as Tokenizer
    from flambeau.rl.envs.llm.transforms import as_nested_tensor as as_nested_tensor
    from flambeau.rl.envs.llm.transforms import as_padded_tensor as as_padded_tensor

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "chat": ("ChatEnv", "DatasetChatEnv"),
        "datasets": (
            "CountdownEnv",
            "GSM8KEnv",
            "GSM8KPrepareQuestion",
            "IFEvalData",
            "IFEvalEnv",
            "MATHEnv",
            "make_gsm8k_env",
        ),
        "envs": ("LLMEnv", "LLMHashingEnv"),
        "reward": ("CountdownRewardParser", "GSM8KRewardParser", "IFEvalScoreData", "IfEvalScorer", "MATHRewardParser"),
        "transforms": (
            "AddThinkingPrompt",
            "BrowserTransform",
            "DataLoadingPrimer",
            "KLComputation",
            "KLRewardTransform",
            "MCPToolTransform",
            "PythonInterpreter",
            "RayDataLoadingPrimer",
            "RetrieveKL",
            "RetrieveLogProb",
            "TemplateTransform",
            "Tokenizer",
            "as_nested_tensor",
            "as_padded_tensor",
        ),
    },
)

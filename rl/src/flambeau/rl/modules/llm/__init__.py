"""Language models: policies that write text, and the engines behind them."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.modules.llm.policies import ChatHistory as ChatHistory
    from flambeau.rl.modules.llm.policies import LLMWrapperBase as LLMWrapperBase
    from flambeau.rl.modules.llm.policies import LogProbs as LogProbs
    from flambeau.rl.modules.llm.policies import Masks as Masks
    from flambeau.rl.modules.llm.policies import RemoteTransformersWrapper as RemoteTransformersWrapper
    from flambeau.rl.modules.llm.policies import SGLangWrapper as SGLangWrapper
    from flambeau.rl.modules.llm.policies import Text as Text
    from flambeau.rl.modules.llm.policies import Tokens as Tokens
    from flambeau.rl.modules.llm.policies import TransformersWrapper as TransformersWrapper
    from flambeau.rl.modules.llm.policies import vLLMWrapper as vLLMWrapper

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "policies": (
            "ChatHistory",
            "LLMWrapperBase",
            "LogProbs",
            "Masks",
            "RemoteTransformersWrapper",
            "SGLangWrapper",
            "Text",
            "Tokens",
            "TransformersWrapper",
            "vLLMWrapper",
        ),
    },
    submodules=("backends", "policies", "trl_interop"),
)

"""Language models as policies, whichever engine runs them."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.modules.llm.policies.common import ChatHistory as ChatHistory
    from flambeau.rl.modules.llm.policies.common import LLMWrapperBase as LLMWrapperBase
    from flambeau.rl.modules.llm.policies.common import LogProbs as LogProbs
    from flambeau.rl.modules.llm.policies.common import Masks as Masks
    from flambeau.rl.modules.llm.policies.common import Text as Text
    from flambeau.rl.modules.llm.policies.common import Tokens as Tokens
    from flambeau.rl.modules.llm.policies.sglang_wrapper import SGLangWrapper as SGLangWrapper
    from flambeau.rl.modules.llm.policies.transformers_wrapper import (
        RemoteTransformersWrapper as RemoteTransformersWrapper,
    )
    from flambeau.rl.modules.llm.policies.transformers_wrapper import TransformersWrapper as TransformersWrapper
    from flambeau.rl.modules.llm.policies.vllm_wrapper import vLLMWrapper as vLLMWrapper

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "common": ("ChatHistory", "LLMWrapperBase", "LogProbs", "Masks", "Text", "Tokens"),
        "sglang_wrapper": ("SGLangWrapper",),
        "transformers_wrapper": ("RemoteTransformersWrapper", "TransformersWrapper"),
        "vllm_wrapper": ("vLLMWrapper",),
    },
)

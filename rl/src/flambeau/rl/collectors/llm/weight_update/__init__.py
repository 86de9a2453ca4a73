"""Updaters that bring new weights to engines of language models."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.collectors.llm.weight_update.vllm import vLLMUpdater as vLLMUpdater
    from flambeau.rl.collectors.llm.weight_update.vllm_v2 import vLLMUpdaterV2 as vLLMUpdaterV2

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"vllm": ("vLLMUpdater",), "vllm_v2": ("vLLMUpdaterV2",)})

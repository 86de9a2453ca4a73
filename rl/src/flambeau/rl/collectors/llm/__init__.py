"""Collectors of dialogs of language models."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.collectors.llm.base import LLMCollector as LLMCollector
    from flambeau.rl.collectors.llm.ray_collector import RayLLMCollector as RayLLMCollector
    from flambeau.rl.collectors.llm.weight_update import vLLMUpdater as vLLMUpdater
    from flambeau.rl.collectors.llm.weight_update import vLLMUpdaterV2 as vLLMUpdaterV2

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "base": ("LLMCollector",),
        "ray_collector": ("RayLLMCollector",),
        "weight_update": ("vLLMUpdater", "vLLMUpdaterV2"),
    },
)

"""Engines that answer prompts quickly, and take new weights from a trainer."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "sglang": ("AsyncSGLang", "RLSGLangEngine"),
        "vllm": (
            "AsyncVLLM",
            "LoadBalancer",
            "LocalLLMWrapper",
            "RLvLLMEngine",
            "RayLLMWorker",
            "make_async_vllm_engine",
            "make_vllm_worker",
        ),
    },
    submodules=("sglang", "vllm"),
)

"""Engines of vLLM: with weights that a trainer replaces, in this process or in actors of Ray."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "base": ("RLvLLMEngine",),
        "vllm_async": ("AsyncVLLM", "LoadBalancer", "make_async_vllm_engine"),
        "vllm_sync": ("LocalLLMWrapper", "RayLLMWorker", "make_vllm_worker"),
        "vllm_utils": ("stateless_init_process_group", "stateless_init_process_group_async"),
    },
    submodules=("base", "vllm_async", "vllm_plugin", "vllm_sync", "vllm_utils"),
)

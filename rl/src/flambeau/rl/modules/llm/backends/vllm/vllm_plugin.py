"""Logits of vLLM's models in float32, for log-probabilities that training can compare with.

vLLM loads models in worker processes: the switch is an environment variable, which they inherit, and the models are
registered by vLLM's entry point for plugins, `vllm.general_plugins`.
"""

from __future__ import annotations

import os

__all__ = ["enable_fp32_overrides", "fp32_overrides_enabled", "register_fp32_overrides"]

_VARIABLE = "FLAMBEAU_VLLM_FP32"
_MODELS = {"Qwen3ForCausalLM": "flambeau.rl.modules.llm.backends.vllm._models:Qwen3ForCausalLMFP32"}


def fp32_overrides_enabled() -> bool:
    """Whether logits are computed in float32."""
    return os.environ.get(_VARIABLE) == "1"


def enable_fp32_overrides() -> None:
    """Compute logits in float32, in this process and those that it starts from now on."""
    os.environ[_VARIABLE] = "1"


def register_fp32_overrides() -> None:
    """Tell vLLM the models with such logits, where they are switched on.

    Raises:
        ImportError: vLLM is not installed.
    """
    if not fp32_overrides_enabled():
        return
    from flambeau.rl.modules.llm.backends.vllm.base import imported_vllm

    registry = imported_vllm().ModelRegistry
    for name, path in _MODELS.items():
        registry.register_model(name, path)

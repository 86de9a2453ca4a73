"""Models of vLLM whose logits are computed in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rl.modules.llm.backends.vllm.vllm_plugin import fp32_overrides_enabled

try:
    from vllm.config import VllmConfig
    from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM
except ImportError:  # names of types and a base, without which nothing here is constructed

    class VllmConfig:  # type: ignore[no-redef]
        """vLLM's configuration, where vLLM is not installed."""

    class Qwen3ForCausalLM:  # type: ignore[no-redef]
        """vLLM's model, where vLLM is not installed: refuses to be made.

        Raises:
            ImportError: always.
        """

        def __init__(self, *, vllm_config: Any = None, prefix: str = "") -> None:
            raise ImportError("this model is vLLM's, which is not installed. Run: pip install vllm")


__all__ = ["Qwen3ForCausalLM", "Qwen3ForCausalLMFP32", "VllmConfig", "is_fp32_output_enabled"]


def is_fp32_output_enabled() -> bool:
    """Whether logits are computed in float32."""
    return fp32_overrides_enabled()


class Qwen3ForCausalLMFP32(Qwen3ForCausalLM):  # type: ignore[misc]
    """Qwen 3 with logits in float32.

    Args:
        vllm_config: of vLLM.
        prefix: of the names of its weights.

    Raises:
        ImportError: vLLM is not installed.
    """

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)

    def compute_logits(self, hidden_states: Tensor) -> Tensor | None:
        """The logits of hidden states, (tokens, vocabulary), float32.

        Args:
            hidden_states: (tokens, hidden).
        """
        if is_fp32_output_enabled():
            hidden_states = hidden_states.float()
            self.lm_head.float()
        found: Any = super().compute_logits(hidden_states)
        return None if found is None else found.to(torch.float32)

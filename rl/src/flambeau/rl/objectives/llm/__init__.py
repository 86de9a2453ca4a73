"""Losses of language models that are trained by rewards."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "distillation": ("k3_kl_token_estimate",),
        "grpo": (
            "CISPOLoss",
            "CISPOLossOutput",
            "DAPO",
            "DAPOLossOutput",
            "GRPOLoss",
            "GRPOLossOutput",
            "LLMLossOutput",
        ),
    },
    submodules=("distillation", "grpo"),
)

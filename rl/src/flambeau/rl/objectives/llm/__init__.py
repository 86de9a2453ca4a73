"""Losses of language models: trained by rewards, by examples and by teachers; and advantages within groups."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "distillation": ("DistillationLoss", "DistillationLossOutput", "k3_kl_token_estimate"),
        "grpo": (
            "CISPOLoss",
            "CISPOLossOutput",
            "DAPO",
            "DAPOLossOutput",
            "GRPOLoss",
            "GRPOLossOutput",
            "LLMLossOutput",
            "MCAdvantage",
            "MCAdvantageSelector",
            "RayMCAdvantage",
        ),
        "sft": ("SFTLoss", "SFTLossOutput", "minor_sft_loss", "sft_loss"),
    },
    submodules=("distillation", "grpo", "sft"),
)

"""RoBERTa and XLM-R (Liu et al. 2019, arXiv:1907.11692; Conneau et al. 2019, arXiv:1911.02116)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "builders": ("roberta_base", "roberta_distilled", "roberta_large", "xlmr_base", "xlmr_large"),
        "bundler": (
            "ROBERTA_BASE_ENCODER",
            "ROBERTA_DISTILLED_ENCODER",
            "ROBERTA_LARGE_ENCODER",
            "XLMR_BASE_ENCODER",
            "XLMR_LARGE_ENCODER",
            "RobertaBundle",
        ),
        "model": ("RobertaClassificationHead", "RobertaEncoder", "RobertaEncoderConf", "RobertaModel"),
        "modules": ("PositionalEmbedding", "TransformerEncoder", "TransformerEncoderLayer"),
    },
)

"""RoBERTa and XLM-R (Liu et al. 2019, arXiv:1907.11692; Conneau et al. 2019, arXiv:1911.02116)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "model": ("RobertaClassificationHead", "RobertaEncoder", "RobertaEncoderConf", "RobertaModel"),
        "modules": ("PositionalEmbedding", "TransformerEncoder", "TransformerEncoderLayer"),
    },
)

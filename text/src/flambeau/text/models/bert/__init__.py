"""BERT and the MiniLM sentence encoders (Devlin et al. 2018, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "builders": (
            "bert_base_cased",
            "bert_base_uncased",
            "bert_large_cased",
            "bert_large_uncased",
            "minilm_l6",
            "minilm_l12",
        ),
        "model": ("BertConf", "BertModel"),
        "pooling": ("pool",),
        "preprocessing": ("BertTransform",),
    },
)

"""BERT and the MiniLM sentence encoders (Devlin et al. 2018, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
# isort: off
if TYPE_CHECKING:
    from flambeau.text.models.bert.builders import (
        bert_base_cased as bert_base_cased,
        bert_base_uncased as bert_base_uncased,
        bert_large_cased as bert_large_cased,
        bert_large_uncased as bert_large_uncased,
        minilm_l12 as minilm_l12,
        minilm_l6 as minilm_l6,
    )
    from flambeau.text.models.bert.model import (
        BertConf as BertConf,
        BertModel as BertModel,
    )
    from flambeau.text.models.bert.pooling import pool as pool
    from flambeau.text.models.bert.preprocessing import BertTransform as BertTransform
# isort: on

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

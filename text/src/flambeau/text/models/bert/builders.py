"""BERT and MiniLM by name, with pretrained weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from flambeau.core.weights import WeightsEnum, build_with_weights
from flambeau.text.models._api import register_model
from flambeau.text.models.bert.model import BertConf, BertModel
from flambeau.text.models.bert.pooling import Pooling
from flambeau.text.weights.bert import (
    Bert_Base_Cased_Weights,
    Bert_Base_Uncased_Weights,
    Bert_Large_Cased_Weights,
    Bert_Large_Uncased_Weights,
    MiniLM_L6_Weights,
    MiniLM_L12_Weights,
)

__all__ = [
    "bert_base_cased",
    "bert_base_uncased",
    "bert_large_cased",
    "bert_large_uncased",
    "minilm_l6",
    "minilm_l12",
]

AnyPooling = Pooling | Literal["pooler"] | None

_BASE = BertConf()
_BASE_CASED = replace(_BASE, vocab_size=28996)
_LARGE = replace(_BASE, embedding_dim=1024, ffn_dimension=4096, num_attention_heads=16, num_encoder_layers=24)
_LARGE_CASED = replace(_LARGE, vocab_size=28996)
_MINILM = replace(_BASE, embedding_dim=384, ffn_dimension=1536)
_MINILM_L6 = replace(_MINILM, num_encoder_layers=6)


def _bert(
    conf: BertConf,
    weights: WeightsEnum | None,
    progress: bool,
    pooling: AnyPooling,
    normalize: bool,
    *,
    device: Any = None,
    dtype: Any = None,
    **sizes: Any,
) -> BertModel:
    conf = replace(conf, **sizes)
    return build_with_weights(
        BertModel, weights, conf, pooling, normalize, progress=progress, device=device, dtype=dtype
    )


@register_model(task="text-features", tags=("english",))
def bert_base_uncased(
    *,
    weights: Bert_Base_Uncased_Weights | None = None,
    progress: bool = True,
    pooling: AnyPooling = None,
    normalize: bool = False,
    **kwargs: Any,
) -> BertModel:
    """BERT base for text of lower case: 12 layers, 768 wide (Devlin et al. 2018, arXiv:1810.04805).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        pooling: None gives the features of all tokens; "cls", "mean", "max" and "pooler" one vector of each text.
        normalize: scale vectors to length 1.
        **kwargs: other sizes, as `BertConf`; `device` and `dtype` place the weights without a copy in between.
    """
    return _bert(_BASE, Bert_Base_Uncased_Weights.verify(weights), progress, pooling, normalize, **kwargs)


@register_model(task="text-features", tags=("english",))
def bert_base_cased(
    *,
    weights: Bert_Base_Cased_Weights | None = None,
    progress: bool = True,
    pooling: AnyPooling = None,
    normalize: bool = False,
    **kwargs: Any,
) -> BertModel:
    """BERT base: 12 layers, 768 wide (Devlin et al. 2018, arXiv:1810.04805).

    Arguments as `bert_base_uncased`.
    """
    return _bert(_BASE_CASED, Bert_Base_Cased_Weights.verify(weights), progress, pooling, normalize, **kwargs)


@register_model(task="text-features", tags=("english",))
def bert_large_uncased(
    *,
    weights: Bert_Large_Uncased_Weights | None = None,
    progress: bool = True,
    pooling: AnyPooling = None,
    normalize: bool = False,
    **kwargs: Any,
) -> BertModel:
    """BERT large for text of lower case: 24 layers, 1024 wide (Devlin et al. 2018, arXiv:1810.04805).

    Arguments as `bert_base_uncased`.
    """
    return _bert(_LARGE, Bert_Large_Uncased_Weights.verify(weights), progress, pooling, normalize, **kwargs)


@register_model(task="text-features", tags=("english",))
def bert_large_cased(
    *,
    weights: Bert_Large_Cased_Weights | None = None,
    progress: bool = True,
    pooling: AnyPooling = None,
    normalize: bool = False,
    **kwargs: Any,
) -> BertModel:
    """BERT large: 24 layers, 1024 wide (Devlin et al. 2018, arXiv:1810.04805).

    Arguments as `bert_base_uncased`.
    """
    return _bert(_LARGE_CASED, Bert_Large_Cased_Weights.verify(weights), progress, pooling, normalize, **kwargs)


@register_model(task="sentence-embedding", tags=("english",))
def minilm_l6(
    *,
    weights: MiniLM_L6_Weights | None = None,
    progress: bool = True,
    pooling: AnyPooling = "mean",
    normalize: bool = True,
    **kwargs: Any,
) -> BertModel:
    """MiniLM of 6 layers, 384 wide: a vector of length 1 for each sentence (Wang et al. 2020, arXiv:2002.10957).

    Arguments as `bert_base_uncased`.
    """
    return _bert(
        _MINILM_L6,
        MiniLM_L6_Weights.verify(weights),
        progress,
        pooling,
        normalize,
        **kwargs,
    )


@register_model(task="sentence-embedding", tags=("english",))
def minilm_l12(
    *,
    weights: MiniLM_L12_Weights | None = None,
    progress: bool = True,
    pooling: AnyPooling = "mean",
    normalize: bool = True,
    **kwargs: Any,
) -> BertModel:
    """MiniLM of 12 layers, 384 wide: a vector of length 1 for each sentence (Wang et al. 2020, arXiv:2002.10957).

    Arguments as `bert_base_uncased`.
    """
    return _bert(_MINILM, MiniLM_L12_Weights.verify(weights), progress, pooling, normalize, **kwargs)

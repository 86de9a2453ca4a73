"""RoBERTa and XLM-R by name, with pretrained weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from flambeau.core.weights import WeightsEnum, build_with_weights
from flambeau.text.models._api import register_model
from flambeau.text.models.roberta.bundler import (
    ROBERTA_BASE_ENCODER,
    ROBERTA_DISTILLED_ENCODER,
    ROBERTA_LARGE_ENCODER,
    XLMR_BASE_ENCODER,
    XLMR_LARGE_ENCODER,
    RobertaBundle,
)
from flambeau.text.models.roberta.model import RobertaModel
from flambeau.text.weights.roberta import (
    Roberta_Base_Weights,
    Roberta_Distilled_Weights,
    Roberta_Large_Weights,
    XLMR_Base_Weights,
    XLMR_Large_Weights,
)

__all__ = ["roberta_base", "roberta_distilled", "roberta_large", "xlmr_base", "xlmr_large"]

_TASK = "text-features"


def _roberta(
    bundle: RobertaBundle,
    weights: WeightsEnum | None,
    progress: bool,
    head: nn.Module | None,
    freeze_encoder: bool,
    *,
    device: Any = None,
    dtype: Any = None,
    **sizes: Any,
) -> RobertaModel:
    conf = replace(bundle.encoderConf, **sizes)
    # The head stays out of the loading: it is the caller's, and keeps its values.
    model = build_with_weights(
        RobertaModel, weights, conf, None, freeze_encoder, progress=progress, device=device, dtype=dtype
    )
    model.head = head if head is None else head.to(device=device, dtype=dtype)
    return model


@register_model(task=_TASK, tags=("english",))
def roberta_base(
    *,
    weights: Roberta_Base_Weights | None = None,
    progress: bool = True,
    head: nn.Module | None = None,
    freeze_encoder: bool = False,
    **kwargs: Any,
) -> RobertaModel:
    """RoBERTa base: 12 layers, 768 wide (Liu et al. 2019, arXiv:1907.11692).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        head: goes on the features, as `RobertaClassificationHead` does.
        freeze_encoder: the encoder's parameters get no gradient.
        **kwargs: other sizes, as `RobertaEncoderConf`; `device` and `dtype` place the weights without a copy.
    """
    return _roberta(
        ROBERTA_BASE_ENCODER, Roberta_Base_Weights.verify(weights), progress, head, freeze_encoder, **kwargs
    )


@register_model(task=_TASK, tags=("english",))
def roberta_large(
    *,
    weights: Roberta_Large_Weights | None = None,
    progress: bool = True,
    head: nn.Module | None = None,
    freeze_encoder: bool = False,
    **kwargs: Any,
) -> RobertaModel:
    """RoBERTa large: 24 layers, 1024 wide (Liu et al. 2019, arXiv:1907.11692).

    Arguments as `roberta_base`.
    """
    return _roberta(
        ROBERTA_LARGE_ENCODER, Roberta_Large_Weights.verify(weights), progress, head, freeze_encoder, **kwargs
    )


@register_model(task=_TASK, tags=("english",))
def roberta_distilled(
    *,
    weights: Roberta_Distilled_Weights | None = None,
    progress: bool = True,
    head: nn.Module | None = None,
    freeze_encoder: bool = False,
    **kwargs: Any,
) -> RobertaModel:
    """RoBERTa of 6 layers, 768 wide, distilled (Sanh et al. 2019, arXiv:1910.01108).

    Arguments as `roberta_base`.
    """
    return _roberta(
        ROBERTA_DISTILLED_ENCODER, Roberta_Distilled_Weights.verify(weights), progress, head, freeze_encoder, **kwargs
    )


@register_model(task=_TASK, tags=("multilingual",))
def xlmr_base(
    *,
    weights: XLMR_Base_Weights | None = None,
    progress: bool = True,
    head: nn.Module | None = None,
    freeze_encoder: bool = False,
    **kwargs: Any,
) -> RobertaModel:
    """XLM-R base, 100 languages (Conneau et al. 2019, arXiv:1911.02116).

    Arguments as `roberta_base`.
    """
    return _roberta(XLMR_BASE_ENCODER, XLMR_Base_Weights.verify(weights), progress, head, freeze_encoder, **kwargs)


@register_model(task=_TASK, tags=("multilingual",))
def xlmr_large(
    *,
    weights: XLMR_Large_Weights | None = None,
    progress: bool = True,
    head: nn.Module | None = None,
    freeze_encoder: bool = False,
    **kwargs: Any,
) -> RobertaModel:
    """XLM-R large, 100 languages (Conneau et al. 2019, arXiv:1911.02116).

    Arguments as `roberta_base`.
    """
    return _roberta(XLMR_LARGE_ENCODER, XLMR_Large_Weights.verify(weights), progress, head, freeze_encoder, **kwargs)

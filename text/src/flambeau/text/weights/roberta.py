"""Weights of RoBERTa and XLM-R: where they are, and how texts are prepared."""

from __future__ import annotations

from typing import Any

from flambeau.core.weights import Weights, WeightsEnum, lazy
from flambeau.text.weights._records import published
from flambeau.text.weights.files import BUCKET

__all__ = [
    "Roberta_Base_Weights",
    "Roberta_Distilled_Weights",
    "Roberta_Large_Weights",
    "XLMR_Base_Weights",
    "XLMR_Large_Weights",
]

_TRANSFORMS = "flambeau.text.models.roberta.preprocessing:"
_FAIRSEQ = "https://github.com/pytorch/fairseq/tree/main/examples/"


def _roberta(file: str, truncate: int, **facts: Any) -> Weights:
    defaults = {
        "license": "MIT",
        "recipe": _FAIRSEQ + "roberta#pre-trained-models",
        "paper": "https://arxiv.org/abs/1907.11692",
        "docs": "Trained to fill gaps in 160 GB of English text: books, Wikipedia, news, the web, stories.",
    }
    transforms = lazy(_TRANSFORMS + "roberta_transform", truncate_length=truncate)
    return published(BUCKET + file, transforms, **(defaults | facts))


def _xlmr(file: str, truncate: int, num_params: int) -> Weights:
    return published(
        BUCKET + file,
        lazy(_TRANSFORMS + "xlmr_transform", truncate_length=truncate),
        num_params=num_params,
        license="MIT",
        recipe=_FAIRSEQ + "xlmr#pre-trained-models",
        paper="https://arxiv.org/abs/1911.02116",
        docs="Trained to fill gaps in 2.5 TB of web text in 100 languages.",
    )


class Roberta_Base_Weights(WeightsEnum):
    """Weights of `models.roberta_base`."""

    ENCODER = _roberta("roberta.base.encoder.pt", 254, num_params=124_054_272)
    DEFAULT = ENCODER


class Roberta_Large_Weights(WeightsEnum):
    """Weights of `models.roberta_large`."""

    ENCODER = _roberta("roberta.large.encoder.pt", 510, num_params=354_309_120)
    DEFAULT = ENCODER


class Roberta_Distilled_Weights(WeightsEnum):
    """Weights of `models.roberta_distilled`."""

    ENCODER = _roberta(
        "roberta.distilled.encoder.pt",
        510,
        num_params=81_527_040,
        license="Apache-2.0",
        recipe="https://github.com/huggingface/transformers/tree/main/examples/research_projects/distillation",
        paper="https://arxiv.org/abs/1910.01108",
        docs="Six layers that were trained to answer as RoBERTa base does.",
    )
    DEFAULT = ENCODER


class XLMR_Base_Weights(WeightsEnum):
    """Weights of `models.xlmr_base`."""

    ENCODER = _xlmr("xlmr.base.encoder.pt", 254, num_params=277_452_288)
    DEFAULT = ENCODER


class XLMR_Large_Weights(WeightsEnum):
    """Weights of `models.xlmr_large`."""

    ENCODER = _xlmr("xlmr.large.encoder.pt", 510, num_params=558_839_808)
    DEFAULT = ENCODER

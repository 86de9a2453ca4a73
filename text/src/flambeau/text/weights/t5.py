"""Weights of T5 and Flan-T5: where they are, and how texts are prepared.

Each size has three files: the encoder alone, encoder and decoder, and both with the head that scores the next token.
"""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy
from flambeau.text.weights._records import published
from flambeau.text.weights.files import BUCKET

__all__ = [
    "Flan_T5_Base_Weights",
    "Flan_T5_Large_Weights",
    "Flan_T5_XL_Weights",
    "Flan_T5_XXL_Weights",
    "T5_3B_Weights",
    "T5_11B_Weights",
    "T5_Base_Weights",
    "T5_Large_Weights",
    "T5_Small_Weights",
]

_KINDS = {"encoder": "The encoder alone.", "model": "Encoder and decoder.", "generation": "With the head for text."}


def _t5(file: str, kind: str, num_params: int) -> Weights:
    return published(
        BUCKET + file,
        lazy("flambeau.text.models.t5.preprocessing:t5_transform"),
        num_params=num_params,
        license="Apache-2.0",
        recipe="https://github.com/google-research/text-to-text-transfer-transformer#released-model-checkpoints",
        paper="http://jmlr.org/papers/v21/20-074.html",
        docs=f"{_KINDS[kind]} Trained on the Colossal Clean Crawled Corpus and on tasks written as text.",
        kind=kind,
    )


def _flan(file: str, kind: str, num_params: int) -> Weights:
    return published(
        BUCKET + file,
        lazy("flambeau.text.models.t5.preprocessing:t5_transform"),
        num_params=num_params,
        license="Apache-2.0",
        recipe="https://github.com/google-research/t5x/blob/main/docs/models.md#flan-t5-checkpoints",
        paper="https://arxiv.org/abs/2210.11416",
        docs=f"{_KINDS[kind]} T5 after training on 1,800 tasks that are told as instructions.",
        kind=kind,
    )


class T5_Small_Weights(WeightsEnum):
    """Weights of `models.t5_small`."""

    ENCODER = _t5("t5.small.encoder.v2.pt", "encoder", 35_330_816)
    MODEL = _t5("t5.small.v2.pt", "model", 60_506_624)
    GENERATION = _t5("t5.small.generation.v2.pt", "generation", 76_956_160)
    DEFAULT = GENERATION


class T5_Base_Weights(WeightsEnum):
    """Weights of `models.t5_base`."""

    ENCODER = _t5("t5.base.encoder.v2.pt", "encoder", 109_628_544)
    MODEL = _t5("t5.base.v2.pt", "model", 222_903_552)
    GENERATION = _t5("t5.base.generation.v2.pt", "generation", 247_577_856)
    DEFAULT = GENERATION


class T5_Large_Weights(WeightsEnum):
    """Weights of `models.t5_large`."""

    ENCODER = _t5("t5.large.encoder.v2.pt", "encoder", 334_939_648)
    MODEL = _t5("t5.large.v2.pt", "model", 737_668_096)
    GENERATION = _t5("t5.large.generation.v2.pt", "generation", 770_567_168)
    DEFAULT = GENERATION


class T5_3B_Weights(WeightsEnum):
    """Weights of `models.t5_3b`."""

    ENCODER = _t5("t5.3b.encoder.v2.pt", "encoder", 1_240_909_824)
    MODEL = _t5("t5.3b.v2.pt", "model", 2_851_598_336)
    GENERATION = _t5("t5.3b.generation.v2.pt", "generation", 2_884_497_408)
    DEFAULT = GENERATION


class T5_11B_Weights(WeightsEnum):
    """Weights of `models.t5_11b`."""

    ENCODER = _t5("t5.11b.encoder.v2.pt", "encoder", 4_864_791_552)
    MODEL = _t5("t5.11b.v2.pt", "model", 11_307_321_344)
    GENERATION = _t5("t5.11b.generation.v2.pt", "generation", 11_340_220_416)
    DEFAULT = GENERATION


class Flan_T5_Base_Weights(WeightsEnum):
    """Weights of `models.flan_t5_base`."""

    ENCODER = _flan("t5.flan.base.encoder.pt", "encoder", 109_628_544)
    MODEL = _flan("t5.flan.base.pt", "model", 222_903_552)
    GENERATION = _flan("t5.flan.base.generation.pt", "generation", 247_577_856)
    DEFAULT = GENERATION


class Flan_T5_Large_Weights(WeightsEnum):
    """Weights of `models.flan_t5_large`."""

    ENCODER = _flan("t5.flan.large.encoder.pt", "encoder", 341_231_104)
    MODEL = _flan("t5.flan.large.pt", "model", 750_251_008)
    GENERATION = _flan("t5.flan.large.generation.pt", "generation", 783_150_080)
    DEFAULT = GENERATION


class Flan_T5_XL_Weights(WeightsEnum):
    """Weights of `models.flan_t5_xl`."""

    ENCODER = _flan("t5.flan.xl.encoder.pt", "encoder", 1_223_527_424)
    MODEL = _flan("t5.flan.xl.pt", "model", 2_783_959_040)
    GENERATION = _flan("t5.flan.xl.generation.pt", "generation", 2_849_757_184)
    DEFAULT = GENERATION


class Flan_T5_XXL_Weights(WeightsEnum):
    """Weights of `models.flan_t5_xxl`."""

    ENCODER = _flan("t5.flan.xxl.encoder.pt", "encoder", 4_762_310_656)
    MODEL = _flan("t5.flan.xxl.pt", "model", 11_003_736_064)
    GENERATION = _flan("t5.flan.xxl.generation.pt", "generation", 11_135_332_352)
    DEFAULT = GENERATION

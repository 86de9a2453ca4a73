"""Upstream's module of the wav2vec 2.0 family: networks, factories, and builders of the published sizes."""

from __future__ import annotations

from flambeau.audio.models.wav2vec2.builders import (
    hubert_base,
    hubert_large,
    hubert_xlarge,
    wav2vec2_base,
    wav2vec2_large,
    wav2vec2_large_lv60k,
    wav2vec2_xlsr_1b,
    wav2vec2_xlsr_2b,
    wav2vec2_xlsr_300m,
    wavlm_base,
    wavlm_large,
)
from flambeau.audio.models.wav2vec2.network import (
    HuBERTPretrainModel,
    Wav2Vec2Model,
    hubert_pretrain_model,
    wav2vec2_model,
    wavlm_model,
)
from flambeau.audio.models.wav2vec2.pretraining_builders import (
    hubert_pretrain_base,
    hubert_pretrain_large,
    hubert_pretrain_xlarge,
)

__all__ = [
    "HuBERTPretrainModel",
    "Wav2Vec2Model",
    "hubert_base",
    "hubert_large",
    "hubert_pretrain_base",
    "hubert_pretrain_large",
    "hubert_pretrain_model",
    "hubert_pretrain_xlarge",
    "hubert_xlarge",
    "wav2vec2_base",
    "wav2vec2_large",
    "wav2vec2_large_lv60k",
    "wav2vec2_model",
    "wav2vec2_xlsr_1b",
    "wav2vec2_xlsr_2b",
    "wav2vec2_xlsr_300m",
    "wavlm_base",
    "wavlm_large",
    "wavlm_model",
]

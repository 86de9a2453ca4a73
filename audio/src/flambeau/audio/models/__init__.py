"""Models for speech and music, with upstream's state_dict keys."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        # Networks and their builders
        "_api": (
            "get_model",
            "get_model_builder",
            "get_model_weights",
            "get_weight",
            "list_models",
            "register_model",
        ),
        "wav2vec2.model": (
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
        ),
    },
    submodules=("wav2vec2",),
)

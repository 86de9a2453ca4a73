"""Models that upstream offered as prototypes."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "conformer_wav2vec2": (
            "ConformerWav2Vec2PretrainModel",
            "conformer_wav2vec2_base",
            "conformer_wav2vec2_model",
            "conformer_wav2vec2_pretrain_base",
            "conformer_wav2vec2_pretrain_large",
            "conformer_wav2vec2_pretrain_model",
        ),
        "conv_emformer": ("ConvEmformer",),
        "emformer_hubert": ("emformer_hubert_base", "emformer_hubert_model"),
        "hifi_gan": (
            "HiFiGANVocoder",
            "hifigan_vocoder",
            "hifigan_vocoder_v1",
            "hifigan_vocoder_v2",
            "hifigan_vocoder_v3",
        ),
        "rnnt": (
            "conformer_rnnt_base",
            "conformer_rnnt_biasing",
            "conformer_rnnt_biasing_base",
            "conformer_rnnt_model",
        ),
        "rnnt_decoder": ("Hypothesis", "RNNTBeamSearchBiasing"),
    },
)

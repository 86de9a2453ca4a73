"""Weights of the audio models: enums by family, facts only; nothing here imports torch."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "digit_recognizer": ("Digit_Recognizer_Weights",),
        "embedding": ("VGGish_Weights",),
        "rnnt": ("Emformer_RNNT_Base_Weights",),
        "separation": ("ConvTasNet_Base_Weights", "HDemucs_High_Weights"),
        "squim": ("Squim_Objective_Weights", "Squim_Subjective_Weights"),
        "synthesis": ("HiFiGAN_V3_Weights", "Tacotron2_Weights", "WaveRNN_Weights"),
        "wav2vec2": (
            "HuBERT_Base_Weights",
            "HuBERT_Large_Weights",
            "HuBERT_XLarge_Weights",
            "Wav2Vec2_Base_Weights",
            "Wav2Vec2_Large_LV60K_Weights",
            "Wav2Vec2_Large_Weights",
            "Wav2Vec2_XLSR_1B_Weights",
            "Wav2Vec2_XLSR_2B_Weights",
            "Wav2Vec2_XLSR_300M_Weights",
            "WavLM_Base_Weights",
            "WavLM_Large_Weights",
        ),
    },
)

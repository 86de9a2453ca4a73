"""Pretrained networks with what belongs to them: labels, sample rates, features, text processing, decoders."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "quality": ("SQUIM_OBJECTIVE", "SQUIM_SUBJECTIVE", "SquimObjectiveBundle", "SquimSubjectiveBundle"),
        "rnnt_pipeline": ("EMFORMER_RNNT_BASE_LIBRISPEECH", "RNNTBundle"),
        "separation": (
            "CONVTASNET_BASE_LIBRI2MIX",
            "HDEMUCS_HIGH_MUSDB",
            "HDEMUCS_HIGH_MUSDB_PLUS",
            "SourceSeparationBundle",
        ),
        "tts": (
            "TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH",
            "TACOTRON2_GRIFFINLIM_PHONE_LJSPEECH",
            "TACOTRON2_WAVERNN_CHAR_LJSPEECH",
            "TACOTRON2_WAVERNN_PHONE_LJSPEECH",
            "Tacotron2TTSBundle",
        ),
        "wav2vec2": (
            "HUBERT_ASR_LARGE",
            "HUBERT_ASR_XLARGE",
            "HUBERT_BASE",
            "HUBERT_LARGE",
            "HUBERT_XLARGE",
            "MMS_FA",
            "VOXPOPULI_ASR_BASE_10K_DE",
            "VOXPOPULI_ASR_BASE_10K_EN",
            "VOXPOPULI_ASR_BASE_10K_ES",
            "VOXPOPULI_ASR_BASE_10K_FR",
            "VOXPOPULI_ASR_BASE_10K_IT",
            "WAV2VEC2_ASR_BASE_100H",
            "WAV2VEC2_ASR_BASE_10M",
            "WAV2VEC2_ASR_BASE_960H",
            "WAV2VEC2_ASR_LARGE_100H",
            "WAV2VEC2_ASR_LARGE_10M",
            "WAV2VEC2_ASR_LARGE_960H",
            "WAV2VEC2_ASR_LARGE_LV60K_100H",
            "WAV2VEC2_ASR_LARGE_LV60K_10M",
            "WAV2VEC2_ASR_LARGE_LV60K_960H",
            "WAV2VEC2_BASE",
            "WAV2VEC2_LARGE",
            "WAV2VEC2_LARGE_LV60K",
            "WAV2VEC2_XLSR53",
            "WAV2VEC2_XLSR_1B",
            "WAV2VEC2_XLSR_2B",
            "WAV2VEC2_XLSR_300M",
            "WAVLM_BASE",
            "WAVLM_BASE_PLUS",
            "WAVLM_LARGE",
            "Wav2Vec2ASRBundle",
            "Wav2Vec2Bundle",
            "Wav2Vec2FABundle",
        ),
    },
)

"""Bundles that upstream offered as prototypes."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "hifigan_pipeline": ("HIFIGAN_VOCODER_V3_LJSPEECH", "HiFiGANVocoderBundle"),
        "rnnt_pipeline": ("EMFORMER_RNNT_BASE_MUSTC", "EMFORMER_RNNT_BASE_TEDLIUM3"),
        "vggish": ("VGGISH", "VGGishBundle"),
    },
)

"""Functions for synthesis, rooms and further scales; names follow upstream's prototypes."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "filterbanks": ("barkscale_fbanks", "chroma_filterbank"),
        "image_sources": ("simulate_rir_ism",),
        "_ray_tracing": ("ray_tracing",),
        "synthesis": (
            "adsr_envelope",
            "exp_sigmoid",
            "extend_pitch",
            "filter_waveform",
            "frequency_impulse_response",
            "oscillator_bank",
            "sinc_impulse_response",
        ),
    },
)

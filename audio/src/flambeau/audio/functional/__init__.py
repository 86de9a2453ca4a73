"""Functions on waveforms and spectrograms: stateless, batched, differentiable where the mathematics is."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        # spectra, features, resampling, beamforming
        "augmentation": ("add_noise", "deemphasis", "preemphasis", "speed"),
        "beamforming": (
            "apply_beamforming",
            "mvdr_weights_rtf",
            "mvdr_weights_souden",
            "psd",
            "rtf_evd",
            "rtf_power",
        ),
        "companding": ("mu_law_decoding", "mu_law_encoding"),
        "convolution": ("convolve", "fftconvolve"),
        "decibels": ("DB_to_amplitude", "amplitude_to_DB"),
        "distances": ("frechet_distance",),
        "features": ("compute_deltas", "sliding_window_cmn"),
        "filterbanks": ("create_dct", "linear_fbanks", "melscale_fbanks"),
        "masking": ("mask_along_axis", "mask_along_axis_iid"),
        "resampling": ("resample",),
        "spectral": ("griffinlim", "inverse_spectrogram", "spectral_centroid", "spectrogram"),
        "vocoding": ("phase_vocoder", "pitch_shift"),
        # filters, effects, detection, sequences
        "biquads": (
            "allpass_biquad",
            "band_biquad",
            "bandpass_biquad",
            "bandreject_biquad",
            "bass_biquad",
            "biquad",
            "deemph_biquad",
            "equalizer_biquad",
            "highpass_biquad",
            "lowpass_biquad",
            "riaa_biquad",
            "treble_biquad",
        ),
        "dither": ("dither",),
        "edit_distance": ("edit_distance",),
        "effects": ("contrast", "dcshift", "gain", "overdrive"),
        "forced_align": ("TokenSpan", "forced_align", "merge_tokens"),
        "iir": ("filtfilt", "lfilter"),
        "loudness": ("loudness",),
        "modulation": ("flanger", "phaser"),
        "pitch_detection": ("detect_pitch_frequency",),
        "rnnt_loss": ("rnnt_loss",),
        "vad": ("vad",),
        # codecs
        "codecs": ("apply_codec",),
    },
    submodules=("filtering",),
)

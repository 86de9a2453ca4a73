"""Modules over `flambeau.audio.functional`: banks, windows and kernels are buffers, arguments stay attributes."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "amplitude": ("AmplitudeToDB", "Fade", "Loudness", "MuLawDecoding", "MuLawEncoding", "Vol"),
        "augmentation": ("AddNoise", "Convolve", "Deemphasis", "FFTConvolve", "Preemphasis"),
        "beamforming": ("MVDR", "PSD", "RTFMVDR", "SoudenMVDR"),
        "cepstral": ("LFCC", "MFCC"),
        "features": ("ComputeDeltas", "SlidingWindowCmn"),
        "masking": ("FrequencyMasking", "SpecAugment", "TimeMasking"),
        "mel": ("InverseMelScale", "MelScale", "MelSpectrogram"),
        "recognition": ("RNNTLoss", "Vad"),
        "resampling": ("Resample", "Speed", "SpeedPerturbation"),
        "spectral": ("GriffinLim", "InverseSpectrogram", "SpectralCentroid", "Spectrogram"),
        "vocoding": ("PitchShift", "TimeStretch"),
    },
)

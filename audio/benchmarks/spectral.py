"""Spectra and features beside torchaudio's and librosa's, in one process, on one thread.

python audio/benchmarks/spectral.py [seconds]
"""

from __future__ import annotations

import sys

import torch
from _compare import Comparison, peer

from flambeau.audio import transforms as T

MODULES = {
    "Spectrogram": ({}, 1.0),
    "MelSpectrogram": ({}, 1.0),
    "MFCC": ({}, 1.0),
    "LFCC": ({}, 1.0),
    "SpectralCentroid": ({"sample_rate": 16000}, 1.0),
    "GriffinLim": ({"n_iter": 8}, 1.0),
    "PitchShift": ({"sample_rate": 16000, "n_steps": 4}, 4.0),
    "TimeStretch": ({"fixed_rate": 1.1}, 1.0),
    "ComputeDeltas": ({}, 1.0),
    "SlidingWindowCmn": ({}, 10.0),
    "PSD": ({}, 4.0),
    "MVDR": ({}, 2.0),
}


def inputs(name: str, wave: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a module takes."""
    spectrum = torch.stft(wave[0], 400, 200, window=torch.hann_window(400), return_complex=True)
    if name in ("PSD", "MVDR"):
        channels = torch.stack([spectrum * (1 + 0.1j * channel) for channel in range(4)])[..., :2000]
        return channels + 1e-2 * torch.randn_like(channels), torch.rand(channels.shape[1:])
    if name == "TimeStretch":
        return (spectrum[None],)
    if name == "GriffinLim":
        return (spectrum[None, :, :1000].abs().square(),)
    if name in ("ComputeDeltas", "SlidingWindowCmn"):
        features = spectrum[None, :40].abs()
        return (features if name == "ComputeDeltas" else features.mT[:, :2000],)
    return (wave[:, : 16000 * 10],) if name == "PitchShift" else (wave,)


def main(seconds: float) -> int:
    """Print the table; returns the exit status."""
    theirs, librosa = peer("torchaudio"), peer("librosa")
    table = Comparison("spectral", theirs, librosa)
    wave = torch.randn(1, int(16000 * seconds), generator=torch.Generator().manual_seed(0))
    for name, (arguments, least) in MODULES.items():
        given = inputs(name, wave)
        ours = getattr(T, name)(**arguments)
        peers = theirs and getattr(theirs.transforms, name)(**arguments)
        table.row(
            f"{name}, torchaudio",
            lambda f=ours, x=given: f(*x),
            peers and (lambda f=peers, x=given: f(*x)),
            least=least,
            repetitions=3 if name in ("GriffinLim", "PitchShift", "SlidingWindowCmn") else 7,
        )
    mel = T.MelSpectrogram(n_fft=400, hop_length=200, n_mels=128)
    array = wave[0].numpy()
    table.row(
        "MelSpectrogram, librosa",
        lambda: mel(wave),
        librosa and (lambda: librosa.feature.melspectrogram(y=array, sr=16000, n_fft=400, hop_length=200, n_mels=128)),
        least=1,
    )
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))

"""Transforms, Kaldi's features, prototypes."""

from __future__ import annotations

import importlib

import torch

from flambeau.core.testing.fill import integers, tensor

from .registry import case
from .signals import cplx, wav


def transform_case(name, make, x, rtol=1e-4, atol=1e-5):
    case(f"transforms.{name}", rtol, atol)(lambda audio: make(audio.transforms)(x() if callable(x) else x))


def stereo():
    return wav("w", (2, 8000))


transform_case("Spectrogram", lambda t: t.Spectrogram(), stereo)
transform_case("MelSpectrogram", lambda t: t.MelSpectrogram(), stereo)
transform_case(
    "MelSpectrogram/slaney",
    lambda t: t.MelSpectrogram(
        16000, 1024, 800, 256, 50.0, 7600.0, n_mels=64, norm="slaney", mel_scale="slaney", power=1.0
    ),
    stereo,
)
transform_case("MelScale", lambda t: t.MelScale(40, n_stft=201), lambda: tensor("x", (2, 201, 20)).abs())
for driver in ("gels", "gelsd", "gelss"):  # gelsy has no reproducible answer on a rank-deficient bank
    transform_case(
        f"InverseMelScale/{driver}",
        lambda t, d=driver: t.InverseMelScale(65, 8, driver=d),
        lambda: tensor("x", (2, 8, 20)).abs(),
        1e-2,
        1e-3,
    )
transform_case("MFCC", lambda t: t.MFCC(melkwargs={"n_mels": 64, "n_fft": 512, "hop_length": 160}), stereo, 1e-3, 1e-3)
transform_case("MFCC/log_mels", lambda t: t.MFCC(log_mels=True), stereo, 1e-3, 1e-3)
transform_case("LFCC", lambda t: t.LFCC(), stereo, 1e-3, 1e-3)
transform_case("LFCC/log_lf", lambda t: t.LFCC(log_lf=True, n_lfcc=20), stereo, 1e-3, 1e-3)
transform_case("AmplitudeToDB", lambda t: t.AmplitudeToDB("magnitude", 60.0), lambda: tensor("x", (2, 20, 30)).abs())
transform_case("MuLawEncoding", lambda t: t.MuLawEncoding(), lambda: tensor("x", (100,)))
transform_case("MuLawDecoding", lambda t: t.MuLawDecoding(), lambda: integers("i", (100,), 256))
transform_case("Resample", lambda t: t.Resample(44100, 16000), stereo)
transform_case(
    "Resample/dtype",
    lambda t: t.Resample(44100, 16000, dtype=torch.float64),
    lambda: wav("w", (2, 8000), torch.float64),
)
transform_case("ComputeDeltas", lambda t: t.ComputeDeltas(7), lambda: tensor("x", (2, 20, 30)))
transform_case(
    "TimeStretch", lambda t: t.TimeStretch(n_freq=129, fixed_rate=1.2), lambda: cplx("c", (2, 129, 30)), 1e-3, 1e-3
)
for shape in ("linear", "exponential", "logarithmic", "quarter_sine", "half_sine"):
    transform_case(f"Fade/{shape}", lambda t, s=shape: t.Fade(100, 200, s), lambda: torch.ones(2, 1000))
transform_case("Vol/amplitude", lambda t: t.Vol(2.0), lambda: tensor("x", (2, 50)))
transform_case("Vol/power", lambda t: t.Vol(4.0, "power"), lambda: tensor("x", (2, 50)))
transform_case("Vol/db", lambda t: t.Vol(-6.0, "db"), lambda: tensor("x", (2, 50)))
transform_case("SlidingWindowCmn", lambda t: t.SlidingWindowCmn(15, 5), lambda: tensor("x", (2, 40, 8)), 1e-3, 1e-4)
transform_case("SpectralCentroid", lambda t: t.SpectralCentroid(16000), stereo)
transform_case("Loudness", lambda t: t.Loudness(16000), lambda: wav("w", (2, 16000)))
transform_case("PitchShift", lambda t: t.PitchShift(16000, 5), stereo, 1e-2, 1e-3)
transform_case("Preemphasis", lambda t: t.Preemphasis(), stereo)
transform_case("Deemphasis", lambda t: t.Deemphasis(), stereo)
transform_case(
    "RNNTLoss",
    lambda t: (
        lambda x: t.RNNTLoss(blank=0)(
            x,
            1 + integers("t", (2, 3), 6).int(),
            torch.tensor([6, 5], dtype=torch.int32),
            torch.tensor([3, 2], dtype=torch.int32),
        )
    ),
    lambda: tensor("logits", (2, 6, 4, 7)),
)
transform_case(
    "FFTConvolve", lambda t: lambda x: t.FFTConvolve("same")(x, tensor("y", (2, 33))), lambda: tensor("x", (2, 50))
)
transform_case("Speed", lambda t: lambda x: t.Speed(16000, 1.25)(x)[0], stereo)
transform_case(
    "GriffinLim", lambda t: t.GriffinLim(n_iter=2, rand_init=False), lambda: tensor("x", (1, 201, 30)).abs(), 1e-2, 1e-3
)
transform_case("InverseSpectrogram", lambda t: t.InverseSpectrogram(), lambda: cplx("c", (2, 201, 20)))


def kw():
    return wav("w", (1, 6000)) * 2**15


def K(audio):
    return importlib.import_module(audio.__name__ + ".compliance.kaldi")


case("kaldi.spectrogram", 1e-3, 1e-2)(lambda audio: K(audio).spectrogram(kw()))
case("kaldi.spectrogram/hamming,no snip", 1e-3, 1e-2)(
    lambda audio: K(audio).spectrogram(
        kw(), window_type="hamming", snip_edges=False, raw_energy=False, subtract_mean=True
    )
)
for window in ("hanning", "hamming", "povey", "rectangular", "blackman"):
    case(f"kaldi.fbank/{window}", 1e-3, 1e-2)(
        lambda audio, w=window: K(audio).fbank(kw(), window_type=w, num_mel_bins=40)
    )
case("kaldi.fbank/energy,htk", 1e-3, 1e-2)(
    lambda audio: K(audio).fbank(kw(), use_energy=True, htk_compat=True, energy_floor=0.1)
)
case("kaldi.fbank/vtln", 1e-3, 1e-2)(
    lambda audio: K(audio).fbank(kw(), vtln_warp=1.1, vtln_high=7000.0, num_mel_bins=30)
)
case("kaldi.fbank/8k,no snip,no log", 1e-3, 1e-1)(
    lambda audio: K(audio).fbank(kw(), sample_frequency=8000.0, snip_edges=False, use_log_fbank=False, use_power=False)
)
case("kaldi.mfcc", 1e-3, 1e-2)(lambda audio: K(audio).mfcc(kw()))
case("kaldi.mfcc/energy,lifter=0", 1e-3, 1e-2)(
    lambda audio: K(audio).mfcc(
        kw(), use_energy=True, cepstral_lifter=0.0, num_ceps=20, num_mel_bins=30, subtract_mean=True
    )
)
case("kaldi.get_mel_banks")(lambda audio: K(audio).get_mel_banks(23, 512, 16000.0, 20.0, 0.0, 100.0, -500.0, 1.0))


def functional(audio):
    return importlib.import_module(audio.__name__ + ".prototype.functional")


def transforms(audio):
    return importlib.import_module(audio.__name__ + ".prototype.transforms")


case("prototype.oscillator_bank", 1e-3, 1e-4)(
    lambda audio: functional(audio).oscillator_bank(
        200 + 100 * tensor("f", (1000, 3)), tensor("a", (1000, 3)).abs(), 16000.0
    )
)
case("prototype.adsr_envelope")(
    lambda audio: functional(audio).adsr_envelope(
        200, attack=0.2, hold=0.1, decay=0.2, sustain=0.6, release=0.3, n_decay=3
    )
)
case("prototype.extend_pitch")(
    lambda audio: functional(audio).extend_pitch(tensor("f", (20, 1)).abs(), [1.0, 2.0, 3.5])
)
case("prototype.sinc_impulse_response")(
    lambda audio: functional(audio).sinc_impulse_response(tensor("c", (5,)).abs() * 0.8 + 0.1, 65)
)
case("prototype.sinc_impulse_response/high")(
    lambda audio: functional(audio).sinc_impulse_response(tensor("c", (5,)).abs() * 0.8 + 0.1, 65, True)
)
case("prototype.frequency_impulse_response")(
    lambda audio: functional(audio).frequency_impulse_response(tensor("m", (4, 33)).abs())
)
case("prototype.filter_waveform")(
    lambda audio: functional(audio).filter_waveform(tensor("x", (2, 400)), tensor("k", (8, 31)))
)
case("prototype.exp_sigmoid")(lambda audio: functional(audio).exp_sigmoid(5 * tensor("x", (50,))))
for scale in ("traunmuller", "schroeder", "wang"):
    case(f"prototype.barkscale_fbanks/{scale}")(
        lambda audio, s=scale: functional(audio).barkscale_fbanks(201, 0.0, 8000.0, 24, 16000, s)
    )
case("prototype.chroma_filterbank")(lambda audio: functional(audio).chroma_filterbank(16000, 201, 12))
case("prototype.simulate_rir_ism", 1e-3, 1e-4)(
    lambda audio: functional(audio).simulate_rir_ism(
        torch.tensor([5.0, 4.0, 3.0]),
        torch.tensor([1.0, 2.0, 1.5]),
        torch.tensor([[2.0, 1.0, 1.0], [3.0, 2.0, 1.2]]),
        3,
        0.3,
    )
)
case("prototype.simulate_rir_ism/bands", 1e-3, 1e-4)(
    lambda audio: functional(audio).simulate_rir_ism(
        torch.tensor([5.0, 4.0, 3.0]),
        torch.tensor([1.0, 2.0, 1.5]),
        torch.tensor([[2.0, 1.0, 1.0]]),
        2,
        0.2 + 0.1 * tensor("ab", (7, 6)).abs(),
        center_frequency=torch.tensor([125.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0]),
    )
)
case("prototype.BarkSpectrogram")(lambda audio: transforms(audio).BarkSpectrogram()(stereo()))
case("prototype.ChromaSpectrogram")(lambda audio: transforms(audio).ChromaSpectrogram(16000, 512)(stereo()))

"""Filters and effects."""

from __future__ import annotations

import torch

from flambeau.core.testing.fill import tensor

from .registry import case
from .signals import grad, wav


def sig():
    return wav("w", (2, 2000))


BIQUADS = {
    "allpass_biquad": (1000.0,),
    "band_biquad": (1000.0,),
    "bandpass_biquad": (1000.0,),
    "bandreject_biquad": (1000.0,),
    "bass_biquad": (6.0,),
    "equalizer_biquad": (1000.0, 6.0),
    "highpass_biquad": (1000.0,),
    "lowpass_biquad": (1000.0,),
    "treble_biquad": (-6.0,),
}
for name, args in BIQUADS.items():
    case(f"{name}")(lambda audio, n=name, a=args: getattr(audio.functional, n)(sig(), 16000, *a))
    case(f"{name}/Q=2")(lambda audio, n=name, a=args: getattr(audio.functional, n)(sig(), 44100, *a, Q=2.0))
case("band_biquad/noise")(lambda audio: audio.functional.band_biquad(sig(), 16000, 1000.0, noise=True))
case("bandpass_biquad/const_skirt_gain")(
    lambda audio: audio.functional.bandpass_biquad(sig(), 16000, 1000.0, const_skirt_gain=True)
)
case("lowpass_biquad/grad")(
    lambda audio: grad(lambda x: audio.functional.lowpass_biquad(x, 16000, 800.0), wav("w", (1, 400)))
)
for rate in (44100, 48000):
    case(f"deemph_biquad/{rate}")(lambda audio, r=rate: audio.functional.deemph_biquad(sig(), r))
for rate in (44100, 48000, 88200, 96000):
    case(f"riaa_biquad/{rate}")(lambda audio, r=rate: audio.functional.riaa_biquad(sig(), r))
case("biquad")(lambda audio: audio.functional.biquad(sig(), 0.4, 0.2, 0.9, 1.0, 0.2, 0.6))
for clamp in (True, False):
    case(f"lfilter/order3,clamp={clamp}")(
        lambda audio, c=clamp: audio.functional.lfilter(
            3 * sig(), torch.tensor([1.0, -0.5, 0.25, -0.1]), torch.tensor([0.6, 0.3, -0.2, 0.1]), c
        )
    )
case("lfilter/bank,batching=True")(
    lambda audio: audio.functional.lfilter(
        wav("w", (2, 3, 300)), 0.3 * tensor("a", (3, 3)) + torch.tensor([1.0, 0, 0]), tensor("b", (3, 3)), False, True
    )
)
case("lfilter/bank,batching=False")(
    lambda audio: audio.functional.lfilter(
        wav("w", (2, 300)), 0.3 * tensor("a", (3, 3)) + torch.tensor([1.0, 0, 0]), tensor("b", (3, 3)), False, False
    )
)
case("lfilter/a0=2,float64")(
    lambda audio: audio.functional.lfilter(
        wav("w", (300,), torch.float64),
        torch.tensor([2.0, -0.5, 0.3], dtype=torch.float64),
        torch.tensor([0.5, 0.3, 0.1], dtype=torch.float64),
    )
)
case("lfilter/grad waveform")(
    lambda audio: grad(
        lambda x: audio.functional.lfilter(x, torch.tensor([1.0, -0.5, 0.25]), torch.tensor([0.6, 0.3, -0.2]), False),
        wav("w", (2, 200)),
    )
)
case("lfilter/grad a")(
    lambda audio: grad(
        lambda a: audio.functional.lfilter(wav("w", (2, 200)), a, torch.tensor([0.6, 0.3, -0.2]), False),
        torch.tensor([1.5, -0.5, 0.25]),
    )
)
case("lfilter/grad b")(
    lambda audio: grad(
        lambda b: audio.functional.lfilter(wav("w", (2, 200)), torch.tensor([1.5, -0.5, 0.25]), b, False),
        torch.tensor([0.6, 0.3, -0.2]),
    )
)
case("filtfilt")(
    lambda audio: audio.functional.filtfilt(sig(), torch.tensor([1.0, -0.5, 0.25]), torch.tensor([0.6, 0.3, -0.2]))
)
case("contrast")(lambda audio: audio.functional.contrast(sig(), 60.0))
case("dcshift")(lambda audio: audio.functional.dcshift(sig(), 0.3))
case("dcshift/limiter")(lambda audio: audio.functional.dcshift(2 * sig(), 0.5, 0.05))
case("overdrive", 1e-3, 1e-4)(lambda audio: audio.functional.overdrive(sig(), 30.0, 20.0))
case("gain")(lambda audio: audio.functional.gain(sig(), -3.0))
for sinusoidal in (True, False):
    case(f"phaser/sinusoidal={sinusoidal}", 1e-3, 1e-4)(
        lambda audio, s=sinusoidal: audio.functional.phaser(sig(), 16000, sinusoidal=s)
    )
for modulation in ("sinusoidal", "triangular"):
    for interpolation in ("linear", "quadratic"):
        case(f"flanger/{modulation}/{interpolation}", 1e-3, 1e-4)(
            lambda audio, m=modulation, i=interpolation: audio.functional.flanger(
                sig(), 16000, delay=2.0, regen=20.0, modulation=m, interpolation=i
            )
        )
case("vad", 1e-3, 1e-4)(
    lambda audio: audio.functional.vad(torch.cat([0.0005 * tensor("q", (1, 16000)), wav("w", (1, 16000))], 1), 16000)
)
case("vad/two channels,pre_trigger", 1e-3, 1e-4)(
    lambda audio: audio.functional.vad(
        torch.cat([0.0005 * tensor("q", (2, 16000)), wav("w", (2, 16000))], 1), 16000, pre_trigger_time=0.1
    )
)

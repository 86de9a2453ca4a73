"""Spectra, mel banks, resampling, convolutions."""

from __future__ import annotations

import math

import torch

from flambeau.core.testing.fill import integers, tensor

from .registry import case
from .signals import cplx, grad, wav

for power in (None, 1.0, 2.0):
    for normalized in (False, True, "frame_length"):
        case(f"spectrogram/power={power}/normalized={normalized}")(
            lambda audio, p=power, z=normalized: audio.functional.spectrogram(
                wav("w", (2, 4000)), 0, torch.hann_window(400), 400, 160, 400, p, z
            )
        )
case("spectrogram/pad=10,center=False")(
    lambda audio: audio.functional.spectrogram(
        wav("w", (4000,)), 10, torch.hann_window(320), 512, 160, 320, 2.0, False, center=False
    )
)
case("spectrogram/twosided,reflect->constant")(
    lambda audio: audio.functional.spectrogram(
        wav("w", (4000,)), 0, torch.hann_window(400), 400, 200, 400, 2.0, False, pad_mode="constant", onesided=False
    )
)
case("spectrogram/grad")(
    lambda audio: grad(
        lambda x: audio.functional.spectrogram(x, 0, torch.hann_window(400), 400, 160, 400, 2.0, False),
        wav("w", (1, 2000)),
    )
)
case("spectrogram/float64")(
    lambda audio: audio.functional.spectrogram(
        wav("w", (2000,), torch.float64), 0, torch.hann_window(400).double(), 400, 160, 400, 2.0, False
    )
)
for normalized in (False, True, "frame_length"):

    def inv(audio, z=normalized):
        s = audio.functional.spectrogram(wav("w", (2, 4000)), 0, torch.hann_window(400), 400, 160, 400, None, z)
        return audio.functional.inverse_spectrogram(s, 4000, 0, torch.hann_window(400), 400, 160, 400, z)

    case(f"inverse_spectrogram/normalized={normalized}")(inv)
case("griffinlim/rand_init=False", 1e-2, 1e-3)(
    lambda audio: audio.functional.griffinlim(
        audio.functional.spectrogram(wav("w", (1, 4000)), 0, torch.hann_window(400), 400, 160, 400, 2.0, False),
        torch.hann_window(400),
        400,
        160,
        400,
        2.0,
        4,
        0.99,
        4000,
        False,
    )
)
case("griffinlim/momentum=0,power=1", 1e-2, 1e-3)(
    lambda audio: audio.functional.griffinlim(
        audio.functional.spectrogram(wav("w", (4000,)), 0, torch.hann_window(400), 400, 160, 400, 1.0, False),
        torch.hann_window(400),
        400,
        160,
        400,
        1.0,
        3,
        0.0,
        None,
        False,
    )
)
case("amplitude_to_DB/power,top_db=80")(
    lambda audio: audio.functional.amplitude_to_DB(tensor("x", (2, 3, 20, 30)).abs() * 10, 10.0, 1e-10, 0.0, 80.0)
)
case("amplitude_to_DB/magnitude,top_db=20,3d")(
    lambda audio: audio.functional.amplitude_to_DB(tensor("x", (3, 20, 30)).abs() ** 8, 20.0, 1e-10, 0.3, 20.0)
)
case("amplitude_to_DB/no top_db")(
    lambda audio: audio.functional.amplitude_to_DB(tensor("x", (20, 30)).abs(), 20.0, 1e-5, 0.0)
)
case("DB_to_amplitude")(lambda audio: audio.functional.DB_to_amplitude(tensor("x", (2, 20)) * 40, 2.0, 0.5))
for norm in (None, "slaney"):
    for scale in ("htk", "slaney"):
        case(f"melscale_fbanks/{norm}/{scale}")(
            lambda audio, n=norm, s=scale: audio.functional.melscale_fbanks(201, 0.0, 8000.0, 40, 16000, n, s)
        )
case("linear_fbanks")(lambda audio: audio.functional.linear_fbanks(201, 100.0, 7600.0, 30, 16000))
for norm in (None, "ortho"):
    case(f"create_dct/{norm}")(lambda audio, n=norm: audio.functional.create_dct(13, 40, n))
case("mu_law_encoding")(lambda audio: audio.functional.mu_law_encoding(tensor("x", (2, 100)), 256))
case("mu_law_decoding")(lambda audio: audio.functional.mu_law_decoding(integers("i", (2, 100), 256), 256))
case("phase_vocoder/0.7", 1e-3, 1e-3)(
    lambda audio: audio.functional.phase_vocoder(
        cplx("c", (2, 129, 30)), 0.7, torch.linspace(0, math.pi * 128, 129)[..., None]
    )
)
case("phase_vocoder/1.3", 1e-3, 1e-3)(
    lambda audio: audio.functional.phase_vocoder(
        cplx("c", (129, 30), torch.complex128),
        1.3,
        torch.linspace(0, math.pi * 128, 129, dtype=torch.float64)[..., None],
    )
)
case("compute_deltas/5")(lambda audio: audio.functional.compute_deltas(tensor("x", (2, 3, 40)), 5))
case("compute_deltas/3,constant")(lambda audio: audio.functional.compute_deltas(tensor("x", (3, 40)), 3, "constant"))
case("detect_pitch_frequency")(lambda audio: audio.functional.detect_pitch_frequency(wav("w", (2, 16000)), 16000))
for center in (False, True):
    for norm_vars in (False, True):
        case(f"sliding_window_cmn/center={center}/norm_vars={norm_vars}", 1e-3, 1e-4)(
            lambda audio, c=center, n=norm_vars: audio.functional.sliding_window_cmn(
                tensor("x", (2, 60, 8)), 21, 7, c, n
            )
        )
case("spectral_centroid")(
    lambda audio: audio.functional.spectral_centroid(
        wav("w", (2, 4000)), 16000, 0, torch.hann_window(400), 400, 160, 400
    )
)
case("pitch_shift/+4", 1e-2, 1e-3)(lambda audio: audio.functional.pitch_shift(wav("w", (1, 8000)), 16000, 4))
case("pitch_shift/-3,bins=24", 1e-2, 1e-3)(
    lambda audio: audio.functional.pitch_shift(wav("w", (1, 8000)), 16000, -3, 24)
)
case("loudness/mono")(lambda audio: audio.functional.loudness(wav("w", (1, 48000)), 16000))
case("loudness/batch,5 channels")(lambda audio: audio.functional.loudness(wav("w", (2, 5, 48000)), 48000))
case("edit_distance")(
    lambda audio: [
        audio.functional.edit_distance("kitten", "sitting"),
        audio.functional.edit_distance(["a", "b", "c"], ["b", "c", "d", "e"]),
        audio.functional.edit_distance("", "abc"),
        audio.functional.edit_distance([1, 2, 3], [1, 2, 3]),
    ]
)
for method in ("sinc_interp_hann", "sinc_interp_kaiser"):
    for o, n in ((48000, 16000), (44100, 16000), (16000, 44100), (8000, 16000), (16000, 16000), (3, 2)):
        case(f"resample/{o}->{n}/{method}")(
            lambda audio, o=o, n=n, m=method: audio.functional.resample(wav("w", (2, 3001)), o, n, resampling_method=m)
        )
case("resample/width=64,rolloff=.9475,beta=14.77")(
    lambda audio: audio.functional.resample(
        wav("w", (2, 3000)),
        48000,
        16000,
        lowpass_filter_width=64,
        rolloff=0.9475937167399596,
        resampling_method="sinc_interp_kaiser",
        beta=14.769656459379492,
    )
)
case("resample/float64")(lambda audio: audio.functional.resample(wav("w", (3000,), torch.float64), 44100, 48000))
case("resample/grad")(lambda audio: grad(lambda x: audio.functional.resample(x, 48000, 16000), wav("w", (1, 600))))
case("preemphasis")(lambda audio: audio.functional.preemphasis(wav("w", (2, 400)), 0.95))
case("deemphasis")(lambda audio: audio.functional.deemphasis(wav("w", (2, 400)), 0.95))
for mode in ("full", "valid", "same"):
    case(f"convolve/{mode}")(
        lambda audio, m=mode: audio.functional.convolve(tensor("x", (2, 3, 50)), tensor("y", (2, 3, 17)), m)
    )
    case(f"fftconvolve/{mode}")(
        lambda audio, m=mode: audio.functional.fftconvolve(tensor("x", (2, 3, 50)), tensor("y", (2, 3, 17)), m)
    )
case("fftconvolve/broadcast,y longer")(
    lambda audio: audio.functional.fftconvolve(tensor("x", (2, 1, 20)), tensor("y", (1, 3, 33)), "valid")
)
case("add_noise/lengths")(
    lambda audio: audio.functional.add_noise(
        wav("w", (2, 3, 500)),
        tensor("n", (2, 3, 500)),
        10 * tensor("s", (2, 3)),
        torch.tensor([[500, 400, 300], [200, 100, 500]]),
    )
)
case("add_noise")(
    lambda audio: audio.functional.add_noise(
        wav("w", (4, 500)), tensor("n", (4, 500)), torch.tensor([0.0, 5.0, 10.0, -5.0])
    )
)
case("speed/0.9")(lambda audio: audio.functional.speed(wav("w", (2, 1600)), 16000, 0.9, torch.tensor([1600, 1200])))
case("speed/1.1,no lengths")(lambda audio: audio.functional.speed(wav("w", (2, 1600)), 16000, 1.1)[0])
case("frechet_distance", 1e-3, 1e-3)(
    lambda audio: audio.functional.frechet_distance(
        tensor("m1", (6,), torch.float64), _spd("s1", 6), tensor("m2", (6,), torch.float64), _spd("s2", 6)
    )
)


def _spd(name, n):
    m = tensor(name, (n, n), torch.float64)
    return m @ m.T + torch.eye(n, dtype=torch.float64)

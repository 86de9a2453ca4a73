"""Beamforming."""

from __future__ import annotations

import torch

from flambeau.core.testing.fill import tensor

from .registry import case
from .signals import cplx, grad


def spec():
    return cplx("spec", (2, 4, 17, 25), torch.complex128)


def psds(audio):
    s = audio.functional.psd(spec(), tensor("ms", (2, 17, 25), torch.float64).abs())
    n = audio.functional.psd(spec(), tensor("mn", (2, 17, 25), torch.float64).abs())
    return s, n


ref = torch.tensor([0.2, 0.5, 0.2, 0.1], dtype=torch.float64)
case("psd/no mask")(lambda audio: audio.functional.psd(spec()))
case("psd/mask")(lambda audio: psds(audio)[0])
case("psd/mask,normalize=False")(
    lambda audio: audio.functional.psd(spec(), tensor("ms", (2, 17, 25), torch.float64).abs(), False)
)
for r in (0, 2):
    case(f"mvdr_weights_souden/ref={r}")(lambda audio, r=r: audio.functional.mvdr_weights_souden(*psds(audio), r))
case("mvdr_weights_souden/ref=tensor,no loading")(
    lambda audio: audio.functional.mvdr_weights_souden(*psds(audio), ref.expand(2, 4), False)
)
case("rtf_evd (magnitude)")(lambda audio: audio.functional.rtf_evd(psds(audio)[0]).abs())
for n_iter in (1, 2, 3):
    case(f"rtf_power/ref=0/n_iter={n_iter}")(lambda audio, n=n_iter: audio.functional.rtf_power(*psds(audio), 0, n))
case("rtf_power/ref=tensor")(lambda audio: audio.functional.rtf_power(*psds(audio), ref.expand(2, 4)))
case("mvdr_weights_rtf/ref=1")(
    lambda audio: audio.functional.mvdr_weights_rtf(audio.functional.rtf_power(*psds(audio), 1), psds(audio)[1], 1)
)
case("mvdr_weights_rtf/ref=None")(
    lambda audio: audio.functional.mvdr_weights_rtf(audio.functional.rtf_power(*psds(audio), 1), psds(audio)[1])
)
case("apply_beamforming")(
    lambda audio: audio.functional.apply_beamforming(audio.functional.mvdr_weights_souden(*psds(audio), 0), spec())
)
for solution in ("ref_channel", "stv_power"):
    case(f"MVDR/{solution}")(
        lambda audio, s=solution: audio.transforms.MVDR(solution=s)(
            spec(), tensor("ms", (2, 17, 25), torch.float64).abs(), tensor("mn", (2, 17, 25), torch.float64).abs()
        )
    )
case("MVDR/multi_mask")(
    lambda audio: audio.transforms.MVDR(multi_mask=True)(
        spec(), tensor("ms", (2, 4, 17, 25), torch.float64).abs(), tensor("mn", (2, 4, 17, 25), torch.float64).abs()
    )
)


def mvdr_online(audio):
    m = audio.transforms.MVDR(online=True)
    return [
        m(
            spec()[..., i : i + 5],
            tensor(f"ms{i}", (2, 17, 5), torch.float64).abs(),
            tensor(f"mn{i}", (2, 17, 5), torch.float64).abs(),
        )
        for i in (0, 5, 10)
    ]


case("MVDR/online")(mvdr_online)
case("PSD/multi_mask")(
    lambda audio: audio.transforms.PSD(multi_mask=True)(spec(), tensor("ms", (2, 4, 17, 25), torch.float64).abs())
)
case("SoudenMVDR")(lambda audio: audio.transforms.SoudenMVDR()(spec(), *psds(audio), 0))
case("RTFMVDR")(
    lambda audio: audio.transforms.RTFMVDR()(spec(), audio.functional.rtf_power(*psds(audio), 0), psds(audio)[1], 0)
)
case("SoudenMVDR/grad")(
    lambda audio: {
        k: (v if k == "out" else torch.view_as_real(v))
        for k, v in grad(
            lambda x: audio.transforms.SoudenMVDR()(x, audio.functional.psd(x), psds(audio)[1], 0), spec()
        ).items()
    }
)

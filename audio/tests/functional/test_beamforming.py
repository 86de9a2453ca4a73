"""Beamforming: what passes, what is lowered, and where upstream's weights come from."""

from __future__ import annotations

import pytest
import torch

from flambeau.audio import functional as F
from flambeau.audio.transforms import MVDR, PSD

DOUBLE = torch.complex128


def scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Speech and noise at 4 microphones, and how the speech reaches each; (4, 6, 400) twice and (6, 4)."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=DOUBLE)

    path = random(6, 4)
    speech = path.T.unsqueeze(-1) * random(6, 400)
    noise = random(4, 6).unsqueeze(-1) * random(6, 400) + 0.1 * random(4, 6, 400)
    return speech, noise, path


def test_covariances_are_hermitian_and_sum_what_the_mask_lets_through():
    speech, noise, _ = scene()
    mask = torch.linspace(0, 1, 6 * 400, dtype=torch.float64).reshape(6, 400)
    covariance = F.psd(speech + noise, mask, normalize=False)
    x = (speech + noise).transpose(0, 1)
    want = torch.einsum("ft,fct,fdt->fcd", mask.to(DOUBLE), x, x.conj())
    torch.testing.assert_close(covariance, want)
    torch.testing.assert_close(covariance, covariance.mH)


@pytest.mark.parametrize("reference", [0, 2])
@pytest.mark.parametrize("by", ["souden", "evd", "power"])
def test_speech_passes_as_the_reference_hears_it_and_noise_is_lowered(by, reference):
    speech, noise, _ = scene()
    psd_s, psd_n = F.psd(speech), F.psd(noise)
    if by == "souden":
        weights = F.mvdr_weights_souden(psd_s, psd_n, reference)
    else:
        rtf = F.rtf_evd(psd_s) if by == "evd" else F.rtf_power(psd_s, psd_n, reference)
        weights = F.mvdr_weights_rtf(rtf, psd_n, reference)
    kept = F.apply_beamforming(weights, speech)
    torch.testing.assert_close(kept, speech[reference], rtol=1e-3, atol=1e-3)
    left = F.apply_beamforming(weights, noise)
    assert left.abs().square().mean() < 0.1 * noise[reference].abs().square().mean()


def test_a_one_hot_reference_is_the_index():
    speech, noise, _ = scene()
    psd_s, psd_n = F.psd(speech), F.psd(noise)
    one = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(F.mvdr_weights_souden(psd_s, psd_n, one), F.mvdr_weights_souden(psd_s, psd_n, 1))
    torch.testing.assert_close(F.rtf_power(psd_s, psd_n, one), F.rtf_power(psd_s, psd_n, 1))
    rtf = F.rtf_power(psd_s, psd_n, 1)
    torch.testing.assert_close(F.mvdr_weights_rtf(rtf, psd_n, one), F.mvdr_weights_rtf(rtf, psd_n, 1))


def test_the_eigenvector_points_where_the_speech_comes_from():
    speech, _, path = scene()
    rtf = F.rtf_evd(F.psd(speech))
    along = (rtf.conj() * path).sum(-1).abs() / path.norm(dim=-1)
    torch.testing.assert_close(along, torch.ones_like(along))


def test_masks_with_channels_are_averaged():
    speech, _, _ = scene()
    masks = torch.linspace(0.1, 1, 4 * 6 * 400, dtype=torch.float64).reshape(4, 6, 400)
    torch.testing.assert_close(PSD(multi_mask=True)(speech, masks), PSD()(speech, masks.mean(0)))


def test_the_precision_of_a_spectrogram_is_kept_and_a_recording_can_begin_anew():
    speech, noise, _ = scene()
    mask = torch.full((6, 400), 0.5)
    module = MVDR(online=True)
    first = module((speech + noise).to(torch.complex64), mask)
    assert first.dtype == torch.complex64
    second = module((speech + noise).to(torch.complex64), mask)
    module.reset()
    torch.testing.assert_close(module((speech + noise).to(torch.complex64), mask), first)
    assert second.shape == first.shape


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s, p: F.psd(s[0]), "psd: specgram has shape"),
        (lambda s, p: F.psd(s, torch.ones(5, 400)), "mask has shape"),
        (lambda s, p: F.mvdr_weights_souden(p, p[:3], 0), "expected equal"),
        (lambda s, p: F.rtf_power(p, p, 0, 0), "n_iter is 0"),
        (lambda s, p: F.apply_beamforming(p[:5, :, 0], s), "beamform_weights"),
        (lambda s, p: MVDR(solution="best"), "solution is 'best'"),
        (lambda s, p: MVDR()(s.real, torch.ones(6, 400)), "MVDR: specgram"),
    ],
)
def test_bad_arguments_are_named(call, said):
    speech, _, _ = scene()
    with pytest.raises(ValueError, match=said):
        call(speech, F.psd(speech))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s, p: F.mvdr_weights_souden(p, p.real, 0), "psd_n is torch.float64, expected complex"),
        (lambda s, p: F.mvdr_weights_souden(p, p, "first"), "reference_channel is a str"),
        (lambda s, p: F.mvdr_weights_rtf(p[..., 0].real, p), "rtf is"),
        (lambda s, p: F.rtf_evd(p.real), "psd_s is"),
        (lambda s, p: F.apply_beamforming(p[..., 0], s.real), "specgram is"),
    ],
)
def test_real_arguments_are_a_type_error(call, said):
    speech, _, _ = scene()
    with pytest.raises(TypeError, match=said):
        call(speech, F.psd(speech))


def test_the_covariance_of_real_channels_is_real():
    speech, _, _ = scene()
    torch.testing.assert_close(F.psd(speech.real), F.psd(speech.real.to(DOUBLE)).real)

"""Kaldi's features: batches, gradients, options, compilation. Recorded values are in tests/parity."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from flambeau.audio.compliance import kaldi

FEATURES = {
    "spectrogram": kaldi.spectrogram,
    "fbank": kaldi.fbank,
    "fbank energy htk": lambda x: kaldi.fbank(x, use_energy=True, htk_compat=True),
    "mfcc": kaldi.mfcc,
    "mfcc energy": lambda x: kaldi.mfcc(x, use_energy=True, subtract_mean=True),
}
every_feature = pytest.mark.parametrize("feature", FEATURES.values(), ids=FEATURES)


def speech(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return (1000 * torch.randn(*shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)).to(dtype)


@every_feature
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_gives_what_its_items_give(feature, dtype):
    batch = speech(2, 3, 1, 2000, dtype=dtype)
    whole = feature(batch)
    assert whole.dtype == dtype
    # A cepstrum is a sum of logarithms of about 15, in an order that depends on the shape and the number of threads.
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(whole[1, 2], feature(batch[1, 2]), **tolerance)


@every_feature
def test_gradients_are_exact(feature):
    waveform = speech(1, 480).requires_grad_()
    assert torch.autograd.gradcheck(feature, (waveform,), eps=1e-3, atol=1e-5)


@every_feature
def test_it_compiles_without_breaks(feature):
    waveform = speech(1, 2000)
    torch.testing.assert_close(torch.compile(feature, fullgraph=True, backend="eager")(waveform), feature(waveform))


@pytest.mark.parametrize(("snip", "frames"), [(True, 1 + (1650 - 400) // 160), (False, (1650 + 80) // 160)])
def test_the_number_of_frames_follows_the_edges(snip, frames):
    assert kaldi.fbank(speech(1, 1650), snip_edges=snip).shape == (frames, 23)


def test_filters_serve_gradients_after_they_were_made_without():
    bank = {"num_mel_bins": 17}
    with torch.inference_mode():
        kaldi.fbank(speech(1, 800), **bank)
    waveform = speech(1, 800).requires_grad_()
    kaldi.fbank(waveform, **bank).sum().backward()
    assert waveform.grad is not None


def test_dither_adds_noise_of_the_given_strength():
    torch.manual_seed(0)
    options = {"window_type": "rectangular", "preemphasis_coefficient": 0.0, "remove_dc_offset": False}
    silence = torch.zeros(1, 40_000, dtype=torch.float64)
    features = kaldi.spectrogram(silence, dither=3.0, **options)
    assert features[:, 0].exp().mean().item() == pytest.approx(9.0 * 400, rel=0.05)


def test_too_short_a_recording_gives_no_frames():
    assert kaldi.fbank(speech(1, 1600), min_duration=1.0).numel() == 0
    assert kaldi.mfcc(speech(1, 1600), min_duration=1.0).numel() == 0


def test_the_mel_scale_and_back_is_the_identity():
    hertz = torch.tensor([0.0, 20.0, 700.0, 8000.0], dtype=torch.float64)
    torch.testing.assert_close(kaldi.inverse_mel_scale(kaldi.mel_scale(hertz)), hertz)
    assert kaldi.mel_scale_scalar(700.0) == pytest.approx(1127 * math.log(2))
    assert kaldi.inverse_mel_scale_scalar(kaldi.mel_scale_scalar(440.0)) == pytest.approx(440.0)


def test_warping_keeps_the_ends_of_the_range_and_is_continuous():
    hertz = torch.linspace(0, 8000, 4001, dtype=torch.float64)
    warped = kaldi.vtln_warp_freq(100.0, 7000.0, 20.0, 7800.0, 1.1, hertz)
    assert torch.equal(warped[hertz < 20], hertz[hertz < 20]) and torch.equal(warped[hertz > 7800], hertz[hertz > 7800])
    assert warped.diff().max() < 5.0 and warped.diff().min() > 0
    torch.testing.assert_close(
        kaldi.vtln_warp_mel_freq(100.0, 7000.0, 20.0, 7800.0, 1.1, kaldi.mel_scale(hertz)), kaldi.mel_scale(warped)
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"channel": 1}, "channel is 1"),
        ({"frame_length": 300.0}, "frame_length"),
        ({"frame_shift": 0.0}, "frame_shift"),
        ({"sample_frequency": 0.0}, "sample_frequency"),
        ({"preemphasis_coefficient": 1.5}, "preemphasis_coefficient"),
        ({"frame_length": 25.07, "round_to_power_of_two": False}, "odd"),
        ({"window_type": "triangle"}, "'triangle'"),
        ({"num_mel_bins": 3}, "3 filters"),
        ({"low_freq": 9000.0}, "9000.0"),
        ({"vtln_warp": 1.1, "vtln_low": 5.0}, "cutoffs 5.0"),
    ],
)
def test_options_outside_their_range_are_refused(options, word):
    with pytest.raises(ValueError, match=word):
        kaldi.fbank(speech(1, 1600), **options)


def test_more_cepstra_than_filters_are_refused():
    with pytest.raises(ValueError, match="num_ceps is 24"):
        kaldi.mfcc(speech(1, 1600), num_ceps=24)

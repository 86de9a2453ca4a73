"""Power spectra of frames, Kaldi's features and filters over frequencies by native kernels."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flambeau.audio import transforms
from flambeau.audio.compliance import kaldi
from flambeau.audio.functional import _spectra as spectra
from flambeau.audio.functional import spectral

LENGTHS = (2, 4, 6, 10, 16, 18, 30, 50, 128, 150, 400, 512)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def discrete_fourier_transform(frames: Tensor) -> Tensor:
    """By its definition, in float64: (..., n) to squared magnitudes (..., n / 2 + 1)."""
    n = frames.shape[-1]
    places = torch.arange(n, dtype=torch.float64)
    angles = -2 * math.pi / n * places * torch.arange(n // 2 + 1, dtype=torch.float64)[:, None]
    frames = frames.double()
    return (frames @ torch.cos(angles).T).square() + (frames @ torch.sin(angles).T).square()


@pytest.mark.parametrize("n_fft", LENGTHS)
@pytest.mark.parametrize("tier", [spectra.power_spectrogram, spectra._native_spectrogram, spectra._plain_spectrogram])
def test_each_tier_transforms_by_the_definition(tier, n_fft):
    waveform, window, hop = noise(2, 9 * n_fft + 5), noise(n_fft, seed=1), max(1, n_fft // 3)
    wanted = discrete_fourier_transform(waveform.unfold(-1, n_fft, hop) * window).mT
    torch.testing.assert_close(tier(waveform, window, n_fft, hop, False).double(), wanted, rtol=2e-5, atol=1e-4)
    torch.testing.assert_close(tier(waveform, window, n_fft, hop, True).double(), wanted.sqrt(), rtol=2e-5, atol=1e-4)


@given(
    rows=st.integers(1, 3),
    size=st.integers(1, 32),
    more=st.integers(0, 300),
    hop=st.integers(1, 40),
    bands=st.none() | st.integers(0, 9),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    preemphasis=st.sampled_from([0.0, 0.5, 0.97]),
)
@settings(max_examples=60)
@pytest.mark.parametrize("tier", [torch.ops.flambeau_audio.kaldi_spectra, spectra._native_kaldi])
def test_kaldis_features_are_the_references(tier, rows, size, more, hop, bands, flags, preemphasis):
    waveform, window = noise(rows, size + more), noise(size, seed=1)
    filters = None if bands is None else noise(17, bands, seed=2).relu()
    how = spectra.KaldiFrames(32, hop, preemphasis, *flags)
    found = tier(waveform, window, filters, *how)
    wanted = spectra._plain_kaldi(waveform, window, filters, *how)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)


@given(frequencies=st.integers(1, 40), frames=st.integers(0, 100), bands=st.integers(0, 9), share=st.floats(0, 1))
@settings(max_examples=60)
@pytest.mark.parametrize("tier", [spectra.filter_bank, spectra._native_bank])
def test_filters_sum_what_a_product_of_matrices_sums(tier, frequencies, frames, bands, share):
    spectrogram, filters = noise(2, frequencies, frames), noise(frequencies, bands, seed=1)
    filters = filters * (noise(frequencies, bands, seed=2) < share)
    torch.testing.assert_close(tier(spectrogram, filters), filters.mT @ spectrogram, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 33, 0), (0, 33, 5), (0, 33, 0), (33, 5)])
def test_spectrograms_without_frames_or_items_have_as_many_filtered(shape):
    assert transforms.MelScale(10, 8000, n_stft=33)(noise(*shape)).shape == (*shape[:-2], 10, shape[-1])


def test_the_operators_keep_torchs_contract():
    ops, window = torch.ops.flambeau_audio, noise(16)
    torch.library.opcheck(ops.power_spectrogram, (noise(2, 100), window, 16, 5, True))
    torch.library.opcheck(ops.kaldi_spectra, (noise(2, 100), window[:13], noise(8, 3), 16, 5, 0.97, True, True, False))
    torch.library.opcheck(ops.kaldi_spectra, (noise(2, 100), window[:13], None, 16, 5, 0.97, False, False, True))
    torch.library.opcheck(ops.filter_bank, (noise(2, 9, 20), noise(9, 3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda op: op.power_spectrogram(noise(100), noise(16), 16, 4, False), "expected float32"),
        (lambda op: op.power_spectrogram(noise(1, 100).double(), noise(16), 16, 4, False), "expected float32"),
        (lambda op: op.power_spectrogram(noise(1, 100), noise(14), 14, 4, False), "product of 2, 3 and 5"),
        (lambda op: op.power_spectrogram(noise(1, 100), noise(8), 16, 4, False), "expected n_fft"),
        (lambda op: op.power_spectrogram(noise(1, 10), noise(16), 16, 4, False), "expected at least 1"),
        (lambda op: op.power_spectrogram(noise(1, 100), noise(16), 16, 0, False), "expected at least 1"),
        (lambda op: op.kaldi_spectra(noise(1, 99), noise(16), noise(10, 2), 16, 4, 0.0, True, True, True), "at most 9"),
        (lambda op: op.filter_bank(noise(9, 20), noise(9, 3)), "rows, frequencies, frames"),
        (lambda op: op.filter_bank(noise(1, 9, 20), noise(8, 3)), "one row for each of 9"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_does_not_fit_is_refused_with_and_without_data(call, message, device):
    with pytest.raises(RuntimeError, match=message), torch.device(device):
        call(torch.ops.flambeau_audio)


FEATURES = {
    "mel": transforms.MelSpectrogram(16000, n_fft=64, hop_length=20, n_mels=8, f_max=8000.0),
    "mfcc": transforms.MFCC(16000, n_mfcc=5, melkwargs={"n_fft": 64, "hop_length": 20, "n_mels": 8}),
    "lfcc": transforms.LFCC(16000, n_filter=16, n_lfcc=5, speckwargs={"n_fft": 64, "hop_length": 20}),
    "magnitude": transforms.Spectrogram(64, win_length=50, power=1.0, pad=3, normalized=True, pad_mode="constant"),
    "unit frames": transforms.Spectrogram(64, power=2.0, normalized="frame_length", center=False),
    "fbank": lambda x: kaldi.fbank(x, frame_length=4.0, frame_shift=1.25, num_mel_bins=8),
    "fbank to both ends": lambda x: kaldi.fbank(x, frame_length=4.0, num_mel_bins=8, snip_edges=False, use_energy=True),
    "kaldi's mfcc": lambda x: kaldi.mfcc(x, frame_length=4.0, num_mel_bins=8, num_ceps=5, use_energy=True),
    "kaldi's spectrogram": lambda x: kaldi.spectrogram(x, frame_length=4.0, raw_energy=False),
}


@pytest.mark.filterwarnings("ignore:.* filters are zero throughout")
@pytest.mark.parametrize("name", FEATURES)
def test_features_that_gradients_flow_through_are_the_same(name):
    feature, waveform = FEATURES[name], 1000 * noise(2, 1, 800)
    plain = feature(waveform.clone().requires_grad_())
    assert plain.requires_grad
    torch.testing.assert_close(feature(waveform), plain.detach(), rtol=1e-4, atol=1e-2)


# torch itself scripts the derivatives it takes forwards.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning", "ignore:There is a performance drop")
@pytest.mark.parametrize("name", ["mel", "fbank"])
def test_features_go_through_torchs_transforms(name):
    feature, waveform = FEATURES[name], 1000 * noise(2, 1, 800)
    wanted = feature(waveform)
    torch.testing.assert_close(torch.func.vmap(feature)(waveform), wanted, rtol=1e-4, atol=1e-2)
    _, tangent = torch.func.jvp(feature, (waveform,), (waveform,))
    assert tangent.abs().max() > 0
    compiled = torch.compile(feature, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(waveform), wanted)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(waveform, waveform)
        assert torch.autograd.forward_ad.unpack_dual(feature(dual)).tangent is not None


def test_modules_of_features_are_traced():
    traced = torch.fx.symbolic_trace(FEATURES["mel"])
    waveform = noise(1, 800)
    torch.testing.assert_close(traced(waveform), FEATURES["mel"](waveform), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_fft", [14, 33, 64])
def test_any_length_of_frames_is_transformed(n_fft):
    waveform, window = noise(3, 200), torch.hann_window(n_fft)
    found = spectral.spectrogram(waveform, 0, window, n_fft, 7, n_fft, 2.0, False)
    wanted = torch.stft(waveform, n_fft, 7, n_fft, window, return_complex=True).abs().square()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_results_do_not_depend_on_threads(threads):
    waveform, feature = noise(1, 60000), transforms.MelSpectrogram(16000, n_mels=20)
    before = torch.get_num_threads()
    wanted = feature(waveform)
    torch.set_num_threads(threads)
    try:
        assert torch.equal(feature(waveform), wanted)
    finally:
        torch.set_num_threads(before)

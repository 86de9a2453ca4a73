"""Synthesis: tones, envelopes and filters are what their numbers say; scales have their filters in place."""

from __future__ import annotations

import math

import pytest
import torch

from flambeau.audio.prototype import functional as P


def test_a_constant_oscillator_is_a_sine():
    frequency = torch.full((800, 1), 100.0)
    got = P.oscillator_bank(frequency, torch.ones(800, 1), 8000.0)
    want = torch.sin(2 * math.pi * 100 * torch.arange(1, 801, dtype=torch.float64) / 8000).float()
    torch.testing.assert_close(got, want, rtol=0, atol=1e-4)


def test_reductions_agree():
    frequency, amplitude = torch.rand(50, 3) * 100, torch.rand(50, 3)
    each = P.oscillator_bank(frequency, amplitude, 8000.0, "none")
    torch.testing.assert_close(P.oscillator_bank(frequency, amplitude, 8000.0), each.sum(-1))
    torch.testing.assert_close(P.oscillator_bank(frequency, amplitude, 8000.0, "mean"), each.mean(-1))


def test_oscillators_that_cannot_be_heard_are_silent_and_told_of():
    frequency = torch.tensor([[100.0, 5000.0]]).expand(20, 2)
    with pytest.warns(UserWarning, match="half the sample rate"):
        each = P.oscillator_bank(frequency, torch.ones(20, 2), 8000.0, "none")
    assert (each[:, 1] == 0).all()
    assert (each[:, 0] != 0).any()


def test_an_envelope_goes_through_its_levels():
    level = P.adsr_envelope(101, attack=0.1, hold=0.2, decay=0.2, sustain=0.5, release=0.4)
    assert level[0] == 0
    assert (level[10:31] == 1).all()
    assert (level[50:61] == 0.5).all()
    assert level[-1] == 0
    assert (level[10:].diff() <= 0).all()


def test_a_number_of_harmonics_stands_for_their_multiples():
    base = torch.tensor([[100.0], [200.0]])
    assert torch.equal(P.extend_pitch(base, 3), P.extend_pitch(base, [1.0, 2.0, 3.0]))
    assert torch.equal(P.extend_pitch(base, torch.tensor([1.0, 2.0, 3.0])), P.extend_pitch(base, 3))


@pytest.mark.parametrize("high", [False, True])
def test_a_sinc_passes_one_side_of_its_cutoff(high):
    taps = P.sinc_impulse_response(torch.tensor([0.25, 0.5]), 129, high)
    gain = torch.fft.rfft(taps, 1024).abs()
    for row, cutoff in zip(gain, (128, 256), strict=True):
        below, above = row[: cutoff - 30], row[cutoff + 30 :]
        passed, stopped = (above, below) if high else (below, above)
        assert passed.min() > 0.98
        assert stopped.max() < 0.02


def test_a_filters_magnitudes_are_those_asked_for():
    wanted = torch.linspace(0, 3, 65).sin().abs() + 1
    taps = P.frequency_impulse_response(wanted)
    assert taps.shape == (128,)
    torch.testing.assert_close(torch.fft.rfft(taps).abs(), wanted, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("samples", [40, 41, 47])
def test_a_unit_pulse_for_every_stretch_changes_nothing(samples):
    waveform = torch.linspace(-1, 1, samples).sin().expand(2, samples)
    kernels = torch.zeros(8, 5)
    kernels[:, 2] = 1
    torch.testing.assert_close(P.filter_waveform(waveform, kernels), waveform)
    torch.testing.assert_close(P.filter_waveform(waveform, kernels, 0)[:, 2:], waveform[:, :-2])


def test_each_stretch_has_taps_of_its_own():
    kernels = torch.zeros(2, 3)
    kernels[0, 1], kernels[1, 1] = 1, 5
    assert torch.equal(P.filter_waveform(torch.ones(8), kernels).round(), torch.tensor([1.0] * 4 + [5.0] * 4))


@pytest.mark.parametrize("scale", ["traunmuller", "schroeder", "wang"])
def test_bark_filters_rise_in_frequency_and_are_triangles(scale):
    bank = P.barkscale_fbanks(513, 300.0, 7000.0, 16, 16000, scale)
    peaks = bank.argmax(0)
    assert (peaks.diff() > 0).all()
    assert bank.min() == 0
    assert bank.max() <= 1
    outside = torch.linspace(0, 8000, 513)
    assert (bank[(outside < 300) | (outside > 7000)] == 0).all()


def test_pitch_classes_are_found_in_every_octave():
    bank = P.chroma_filterbank(16000, 4097, 12)
    for octave in (1, 2, 4):
        a = round(440 * octave / 8000 * 4096)
        assert int(bank[a].argmax()) == 9  # C, C#, ... A


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: P.oscillator_bank(torch.ones(3, 1), torch.ones(3, 2), 8000.0), "expected the same"),
        (lambda: P.oscillator_bank(torch.ones(3, 1), torch.ones(3, 1), 8000.0, "max"), "reduction is 'max'"),
        (lambda: P.adsr_envelope(10, attack=1.5), "attack is 1.5"),
        (lambda: P.adsr_envelope(10, attack=0.6, release=0.6), "1.2 together"),
        (lambda: P.sinc_impulse_response(torch.ones(1), 8), "window_size is 8"),
        (lambda: P.filter_waveform(torch.ones(3), torch.ones(5, 2)), "5 filters for 3 samples"),
        (lambda: P.filter_waveform(torch.ones(2, 30), torch.ones(4, 5, 3, 2)), "kernels has shape"),
        (lambda: P.barkscale_fbanks(10, 0.0, 10.0, 2, 100, "zwicker"), "'zwicker'"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()

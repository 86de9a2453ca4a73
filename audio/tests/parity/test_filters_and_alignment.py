"""Filters, effects, detectors, the transducer loss, alignment and Kaldi's features beside the recorded values."""

from __future__ import annotations

import pytest
import torch

import flambeau.audio
from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module

GROUPS = (
    "allpass_biquad", "band_biquad", "bandpass_biquad", "bandreject_biquad", "bass_biquad", "biquad", "contrast",
    "dcshift", "deemph_biquad", "detect_pitch_frequency", "edit_distance", "equalizer_biquad", "filtfilt", "flanger",
    "forced_align", "gain", "highpass_biquad", "kaldi.fbank", "kaldi.get_mel_banks", "kaldi.mfcc", "kaldi.spectrogram",
    "lfilter", "loudness", "lowpass_biquad", "overdrive", "phaser", "riaa_biquad", "rnnt_loss", "treble_biquad", "vad",
)  # fmt: skip

STORED = golden_values("functional", __file__)["cases"]
CASES = sorted(name for name in STORED if name.partition("/")[0] in GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_has_a_recorded_case(group):
    assert any(name.partition("/")[0] == group for name in CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_the_recorded_one(name):
    cases = parity_module("cases", __file__)
    compute, _, _ = cases.FUNCTIONAL[name]
    record = STORED[name]
    torch.manual_seed(0)
    assert fill.matches(compute(flambeau.audio), record["value"], record["rtol"], record["atol"]) is None

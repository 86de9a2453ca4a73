"""Spectra, features, resampling, beamforming, transforms and prototypes beside the recorded values."""

from __future__ import annotations

import pytest
import torch

import flambeau.audio
from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module

GROUPS = (
    "DB_to_amplitude", "MVDR", "PSD", "RTFMVDR", "SoudenMVDR", "add_noise", "amplitude_to_DB", "apply_beamforming",
    "compute_deltas", "convolve", "create_dct", "deemphasis", "fftconvolve", "frechet_distance", "griffinlim",
    "inverse_spectrogram", "linear_fbanks", "melscale_fbanks", "mu_law_decoding", "mu_law_encoding",
    "mvdr_weights_rtf", "mvdr_weights_souden", "phase_vocoder", "pitch_shift", "preemphasis", "psd", "resample",
    "rtf_evd (magnitude)", "rtf_power", "sliding_window_cmn", "spectral_centroid", "spectrogram", "speed",
)  # fmt: skip

STORED = golden_values("functional", __file__)["cases"]
CASES = sorted(
    name for name in STORED if name.partition("/")[0] in GROUPS or name.startswith(("prototype.", "transforms."))
)


@pytest.mark.parametrize("group", [*GROUPS, "prototype.filter_waveform", "transforms.MFCC"])
def test_each_group_has_a_recorded_case(group):
    assert any(name.partition("/")[0] == group for name in CASES)


@pytest.mark.filterwarnings("ignore:.* filters are zero throughout")
@pytest.mark.filterwarnings("ignore:frequency_impulse_response")
@pytest.mark.parametrize("name", CASES)
def test_the_result_is_the_recorded_one(name):
    cases = parity_module("cases", __file__)
    compute, _, _ = cases.FUNCTIONAL[name]
    record = STORED[name]
    torch.manual_seed(0)
    assert fill.matches(compute(flambeau.audio), record["value"], record["rtol"], record["atol"]) is None

"""Speech, pitch, loudness and the distance of sequences."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import flambeau.audio.functional as F
from flambeau.audio.functional import edit_distance as distance_function
from flambeau.audio.functional.edit_distance import _reference as plain_distance
from flambeau.audio.functional.pitch_detection import _native, _reference

RATE = 16000


def tone(frequency: float, seconds: float, amplitude: float = 0.5, rate: int = RATE) -> Tensor:
    return amplitude * torch.sin(2 * math.pi * frequency * torch.arange(int(seconds * rate)) / rate)


def voice(seconds: float) -> Tensor:
    """Harmonics of 150 Hz, as of a vowel."""
    return sum(tone(150.0 * k, seconds, 0.3 / k) for k in range(1, 15))


def hiss(seconds: float) -> Tensor:
    return 0.0005 * torch.randn(int(seconds * RATE), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("pitch", [100.0, 150.0, 220.0, 400.0])
def test_the_pitch_of_a_tone_is_found(pitch):
    found = F.detect_pitch_frequency(tone(pitch, 1.0), RATE)
    assert found[20:-20].median().item() == pytest.approx(pitch, rel=0.03)


def test_pitch_keeps_leading_dimensions():
    waveform = torch.stack([tone(100.0, 0.5), tone(200.0, 0.5)]).reshape(2, 1, -1)
    found = F.detect_pitch_frequency(waveform, RATE)
    torch.testing.assert_close(found[1, 0], F.detect_pitch_frequency(waveform[1, 0], RATE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("time", [1, 99, 100, 1234])
@pytest.mark.parametrize("tier", [_native, _reference])
def test_lower_tiers_of_the_correlation_agree_with_the_dispatcher(dtype, time, tier):
    waveform = torch.randn(2, time, generator=torch.Generator().manual_seed(0), dtype=dtype)
    served = torch.ops.flambeau_audio.nccf(waveform, 100, 37)
    torch.testing.assert_close(tier(waveform, 100, 37), served, rtol=1e-4, atol=1e-6)


def test_the_correlation_keeps_torchs_contract():
    torch.library.opcheck(torch.ops.flambeau_audio.nccf, (torch.randn(2, 400), 100, 37))


def test_pitch_detection_compiles_without_breaks():
    waveform = tone(200.0, 0.5)
    compiled = torch.compile(F.detect_pitch_frequency, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(waveform, RATE), F.detect_pitch_frequency(waveform, RATE))


@pytest.mark.parametrize(
    ("waveform", "options"), [(tone(200.0, 0.1), {}), (tone(200.0, 1.0), {"freq_low": 2000, "freq_high": 3400})]
)
def test_pitch_that_cannot_be_looked_for_is_refused(waveform, options):
    with pytest.raises(ValueError, match="too few"):
        F.detect_pitch_frequency(waveform, RATE, **options)


@pytest.mark.parametrize("silence", [0.5, 1.5, 3.0])
def test_what_comes_before_speech_is_cut(silence):
    waveform = torch.cat([hiss(silence), voice(1.0)])
    cut = F.vad(waveform, RATE)
    begin = (len(waveform) - len(cut)) / RATE
    assert silence - 0.25 < begin < silence + 0.15
    assert torch.equal(cut, waveform[len(waveform) - len(cut) :])


def test_a_margin_before_speech_is_kept():
    waveform = torch.cat([hiss(2.0), voice(1.0)])
    assert len(F.vad(waveform, RATE, pre_trigger_time=0.2)) == len(F.vad(waveform, RATE)) + 3200


def test_speech_in_any_channel_counts_and_channels_stay_together():
    waveform = torch.stack([hiss(3.0), torch.cat([hiss(2.0), voice(1.0)])])
    cut = F.vad(waveform, RATE)
    assert cut.shape[0] == 2 and torch.equal(cut, waveform[:, -cut.shape[1] :])
    assert cut.shape[1] == len(F.vad(waveform[1], RATE))


@pytest.mark.parametrize("waveform", [hiss(2.0), torch.zeros(1000), torch.zeros(2, 0)])
def test_without_speech_nothing_stays(waveform):
    assert F.vad(waveform, RATE).shape == (*waveform.shape[:-1], 0)


def test_the_rows_of_a_batch_are_channels_of_one_recording():
    quiet, speech = hiss(2.0), torch.cat([hiss(1.0), voice(1.0)])
    with pytest.warns(UserWarning, match="several lengths"):
        cut = F.vad(torch.stack([quiet, speech]).reshape(2, 1, -1), RATE)
    assert torch.equal(cut, F.vad(torch.stack([quiet, speech]), RATE).unsqueeze(1))
    with pytest.warns(UserWarning, match="several lengths"):
        assert F.vad(torch.zeros(0, 2, 32000), RATE).shape == (0, 2, 0)


def test_integers_are_heard_like_what_they_stand_for():
    speech = (torch.cat([hiss(1.0), voice(1.0)]) * 8000).to(torch.int16)
    assert torch.equal(F.vad(speech, RATE), F.vad(speech.float(), RATE).to(torch.int16))


def test_lifters_without_pitch_are_refused():
    with pytest.raises(ValueError, match="move them apart"):
        F.vad(hiss(1.0), RATE, hp_lifter_freq=3000.0)


@pytest.mark.parametrize("rate", [16000, 44100, 48000])
def test_a_full_tone_in_front_has_the_standards_loudness(rate):
    # BS.1770: a sine of 997 Hz at 0 dBFS in one front channel reads -3.01 LKFS.
    waveform = tone(997.0, 3.0, 0.1, rate)[None]
    assert F.loudness(waveform, rate).item() == pytest.approx(-23.01, abs=0.1)


def test_surround_channels_weigh_more():
    waveform = torch.zeros(5, 3 * RATE)
    waveform[4] = tone(997.0, 3.0, 0.1)
    assert F.loudness(waveform, RATE).item() == pytest.approx(-23.01 + 10 * math.log10(1.41), abs=0.1)


def test_silence_does_not_count():
    speech = tone(997.0, 3.0, 0.1)[None]
    waveform = torch.cat([speech, torch.zeros(1, 5 * RATE)], dim=1)
    assert F.loudness(waveform, RATE).item() == pytest.approx(F.loudness(speech, RATE).item(), abs=0.3)


def test_loudness_of_a_batch_is_that_of_its_items_and_compiles():
    batch = torch.randn(2, 3, 2, RATE, generator=torch.Generator().manual_seed(0)) * 0.05
    whole = F.loudness(batch, RATE)
    torch.testing.assert_close(whole[1, 2], F.loudness(batch[1, 2], RATE))
    compiled = torch.compile(F.loudness, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(batch, RATE), whole)


def test_gradients_of_loudness_are_exact():
    waveform = (0.05 * torch.randn(1, 500, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: F.loudness(x, 1000), (waveform,), eps=1e-7, atol=1e-3)


@pytest.mark.parametrize("shape", [(4000,), (6, 16000), (2, 100)])
def test_loudness_of_what_is_no_programme_is_refused(shape):
    with pytest.raises(ValueError, match="loudness"):
        F.loudness(torch.zeros(shape), RATE)


words = st.lists(st.integers(0, 4), max_size=80)


@given(left=words, right=words)
def test_the_native_distance_is_that_of_the_table(left, right):
    assert F.edit_distance(left, right) == plain_distance(left, right)


@given(left=words, right=words, other=words)
def test_the_distance_is_a_metric(left, right, other):
    assert F.edit_distance(left, right) == F.edit_distance(right, left)
    assert (F.edit_distance(left, right) == 0) == (left == right)
    assert F.edit_distance(left, other) <= F.edit_distance(left, right) + F.edit_distance(right, other)


def test_any_hashable_items_are_compared():
    assert F.edit_distance("kitten", "sitting") == 3
    assert F.edit_distance(["a", ("b", 1), None], ["a", None]) == 1
    assert F.edit_distance(torch.tensor([1, 2, 3]), [1, 3]) == 1
    assert distance_function("", "") == 0

"""Chains of effects: ours beside the program's, dtypes, layouts, errors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from flambeau.audio import sox_effects
from flambeau.audio.sox_effects import _program, apply_effects_file, apply_effects_tensor, effect_names
from flambeau.audio.sox_effects._native_effects import OWN
from flambeau.audio.utils import sox_utils

RATE = 8000
needs_sox = pytest.mark.skipif(shutil.which("sox") is None, reason="needs the program sox")


def sound(channels: int = 2, time: int = 4000) -> torch.Tensor:
    noise = torch.randn(channels, time, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return (0.2 * noise).clamp(-0.8, 0.8)


# Forms of our own effects, all of which the program must answer alike.
CHAINS = [
    "allpass 1000 2q",
    "band 1000",
    "band -n 1k 200",
    "bandpass -c 1000 1o",
    "bandpass 1000 300h",
    "bandreject 1000 0.3k",
    "bass 6",
    "bass -6 200 0.9q",
    "biquad 0.4 0.2 0.1 1.0 -0.3 0.2",
    "channels 1",
    "contrast",
    "contrast 20",
    "dcshift 0.2 0.05",
    "equalizer 1000 1o 5",
    "equalizer 1000 2 5",
    "flanger",
    "flanger 1 2 -30 50 0.7 tri 40 quad",
    "gain -3",
    "gain -n -1",
    "highpass 300",
    "highpass 300 0.9",
    "highpass -1 300",
    "lowpass 1k 0.9q",
    "lowpass 1k 2",
    "overdrive 0 50",
    "lowpass -1 1000",
    "norm -2",
    "overdrive 10 30",
    "pad 0.01 100s",
    "phaser 0.6 0.66 3 0.6 0.5 -t",
    "remix 2 1,2 0",
    "remix -",
    "repeat 2",
    "reverse",
    "swap",
    "treble -4 2k",
    "trim 0.1",
    "trim 800s 0.1",
    "trim 0.1 =0.3",
    "vol 0.5",
    "vol -6dB",
    "vol 0.25 power",
]


@needs_sox
@pytest.mark.parametrize("chain", CHAINS)
def test_our_effects_are_those_of_the_program(chain):
    name, *arguments = chain.split()
    ours, rate = OWN[name](arguments, sound(), float(RATE))
    theirs, their_rate = _program.run(sound(), float(RATE), [[name, *arguments]])
    assert rate == their_rate == RATE
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_chains_run_in_order():
    result, rate = apply_effects_tensor(
        torch.tensor([[0.1, 0.2, 0.3]]), RATE, [["reverse"], ["vol", "2"], ["pad", "1s"]]
    )
    torch.testing.assert_close(result, torch.tensor([[0.0, 0.6, 0.4, 0.2]]))
    assert (rate, result.dtype) == (RATE, torch.float32)


def test_a_part_may_be_counted_from_the_end():
    waveform = sound()
    result, _ = apply_effects_tensor(waveform, RATE, [["trim", "0.1", "-0.1"]])
    assert torch.equal(result, waveform[:, 800:-800])


def test_samples_are_spread_and_taken_without_a_filter():
    waveform = sound()
    spread, rate = apply_effects_tensor(waveform, RATE, [["upsample", "3"]])
    assert rate == 3 * RATE and torch.equal(spread[:, ::3], waveform) and spread[:, 1::3].abs().max() == 0
    taken, rate = apply_effects_tensor(spread, rate, [["downsample", "3"]])
    assert rate == RATE and torch.equal(taken, waveform)


def test_an_empty_chain_changes_nothing():
    waveform = sound().float()
    result, rate = apply_effects_tensor(waveform, RATE, [])
    assert torch.equal(result, waveform) and rate == RATE


def test_speed_changes_the_label_and_rate_the_samples():
    waveform = sound()
    result, rate = apply_effects_tensor(waveform, RATE, [["speed", "1.25"]])
    assert rate == 10_000 and torch.equal(result, waveform)
    result, rate = apply_effects_tensor(waveform, RATE, [["speed", "1.25"], ["rate", "8000"]])
    assert rate == RATE and result.shape == (2, 3200)


@needs_sox
def test_pitch_changes_the_label_too_and_rate_brings_it_back():
    waveform = sound()
    result, rate = apply_effects_tensor(waveform, RATE, [["pitch", "200"]])
    assert rate == 8979 and abs(result.shape[1] - 4000 * 2 ** (200 / 1200)) < 2
    result, rate = apply_effects_tensor(waveform, RATE, [["pitch", "200"], ["rate", "8000"]])
    assert (rate, result.shape) == (RATE, (2, 4000))


@pytest.mark.parametrize("quality", ["-m", "-h", "-v"])
@needs_sox
def test_a_rate_is_changed_as_finely_as_by_the_program(quality):
    ours, _ = OWN["rate"]([quality, "6000"], sound(), float(RATE))
    theirs, _ = _program.run(sound(), float(RATE), [["rate", quality, "6000"]])
    assert ours.shape == theirs.shape
    assert (ours - theirs)[:, 200:-200].square().mean().sqrt() < 2e-3 * theirs.square().mean().sqrt()


@needs_sox
def test_stat_and_stats_report_to_the_log_and_leave_the_sound(caplog):
    for name, word in (("stat", "RMS"), ("stats", "Pk lev")):
        caplog.clear()
        with caplog.at_level("WARNING", "flambeau.sox"):
            result, rate = apply_effects_tensor(sound(), RATE, [[name]])
        assert name in effect_names() and word in caplog.text and rate == RATE
        torch.testing.assert_close(result, sound(), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "chain",
    ["lowpass 5000", "bass 5 100 2", "overdrive 101", "phaser 0.6 0.66 6 0.4 0.5", "flanger 31", "flanger 0 2 96"],
)
def test_what_is_out_of_range_is_refused(chain):
    with pytest.raises(RuntimeError, match="must be"):
        apply_effects_tensor(sound(), RATE, [chain.split()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int16, torch.uint8])
def test_every_dtype_comes_back_as_itself(dtype):
    waveform = sound()
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        waveform = waveform * (limits.max / 2) + (limits.max // 2 if limits.min == 0 else 0)
    waveform = waveform.to(dtype)
    result, _ = apply_effects_tensor(waveform, RATE, [["reverse"], ["reverse"], ["gain", "0"]])
    assert result.dtype == dtype and torch.equal(result, waveform)


def test_full_scale_does_not_wrap_around():
    waveform = torch.tensor([[30000, -30000]], dtype=torch.int16)
    result, _ = apply_effects_tensor(waveform, RATE, [["vol", "2"]])
    assert result.tolist() == [[32767, -32768]]


def test_channels_may_come_last():
    waveform = sound()
    first, _ = apply_effects_tensor(waveform, RATE, [["lowpass", "500"]])
    last, _ = apply_effects_tensor(waveform.t(), RATE, [["lowpass", "500"]], channels_first=False)
    assert torch.equal(first.t(), last)


@needs_sox
def test_what_is_not_ours_goes_through_the_program():
    result, rate = apply_effects_tensor(sound(), RATE, [["tempo", "2"], ["gain", "-1"], ["reverb", "20"]])
    assert rate == RATE and result.shape[0] == 2 and abs(result.shape[1] - 2000) < 100


@needs_sox
def test_the_program_may_change_the_number_of_channels():
    result, _ = apply_effects_tensor(sound(), RATE, [["remix", "1v0.5,2v0.5"]])
    torch.testing.assert_close(result, sound().mean(0, keepdim=True), rtol=0, atol=1e-6)


@needs_sox
def test_the_programs_own_words_are_in_the_error():
    with pytest.raises(RuntimeError, match="tempo"):
        apply_effects_tensor(sound(), RATE, [["tempo", "fast"]])


def test_without_the_program_our_effects_still_work(monkeypatch):
    monkeypatch.setattr(_program, "program", lambda: None)
    assert effect_names() == sorted(set(OWN) - {"pitch"})
    apply_effects_tensor(sound(), RATE, [["lowpass", "500"]])
    with pytest.raises(RuntimeError, match="program `sox`"):
        apply_effects_tensor(sound(), RATE, [["lowpass", "500", "very wide"]])
    with pytest.raises(RuntimeError, match="Unsupported effect: tempo"):
        apply_effects_tensor(sound(), RATE, [["tempo", "2"]])


@pytest.mark.parametrize(
    ("effects", "word"),
    [([["lowpas", "3"]], "lowpass"), ([[]], "its name"), ([["vol", 2]], "strings"), ([["deemph"]], "44100")],
)
def test_wrong_effects_are_refused(effects, word):
    with pytest.raises(RuntimeError, match=word):
        apply_effects_tensor(sound(), RATE, effects)


@pytest.mark.parametrize("tensor", [torch.zeros(4), torch.zeros(1, 4, dtype=torch.complex64)])
def test_wrong_tensors_are_refused(tensor):
    with pytest.raises(RuntimeError, match="expected"):
        apply_effects_tensor(tensor, RATE, [])


def test_files_are_loaded_and_changed(tmp_path):
    import soundfile

    path = tmp_path / "a.wav"
    samples = (sound(1, 100)[0].numpy() * 2**15).astype(np.int16)
    soundfile.write(path, samples, RATE)
    result, rate = apply_effects_file(str(path), [["reverse"]], normalize=False, channels_first=False)
    assert (rate, result.dtype, result.shape) == (RATE, torch.int16, (100, 1))
    assert result[:, 0].tolist() == samples[::-1].tolist()


def test_names_and_usages_agree():
    usages = sox_utils.list_effects()
    assert list(usages) == effect_names()
    assert "frequency" in usages["lowpass"]
    assert "gain" in sox_effects.effect_names()
    assert sox_effects.init_sox_effects() is sox_effects.shutdown_sox_effects() is None


@needs_sox
def test_formats_are_those_of_the_program():
    assert {"wav", "flac", "wavpcm"} <= set(sox_utils.list_read_formats())
    assert {"wav", "flac"} <= set(sox_utils.list_write_formats())


@pytest.fixture
def settings(monkeypatch):
    fresh = _program.Settings()
    monkeypatch.setattr(_program, "settings", fresh)
    return fresh


@needs_sox
def test_settings_reach_the_program(settings):
    sox_utils.set_buffer_size(1024)
    sox_utils.set_use_threads(True)
    sox_utils.set_verbosity(1)
    assert sox_utils.get_buffer_size() == settings.buffer_size == 1024
    result, _ = apply_effects_tensor(sound(), RATE, [["tempo", "2"]])
    assert result.abs().max() > 0


def test_a_seed_repeats_what_is_random(settings):
    results = []
    for _ in range(2):
        sox_utils.set_seed(3)
        results.append(apply_effects_tensor(sound(), RATE, [["dither"]])[0])
    assert torch.equal(*results)


def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(ValueError, match="7"):
        sox_utils.set_verbosity(7)
    with pytest.raises(ValueError, match="16"):
        sox_utils.set_buffer_size(16)

"""Biquads and effects: what they do to a sound, gradients, batches, compilation, lower tiers."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import flambeau.audio.functional as F
from flambeau.audio.functional import modulation

RATE = 8000

# Every effect, with arguments under which it does something.
EFFECTS: dict[str, Callable[[Tensor], Tensor]] = {
    "allpass_biquad": lambda x: F.allpass_biquad(x, RATE, 1000.0),
    "band_biquad": lambda x: F.band_biquad(x, RATE, 1000.0),
    "band_biquad noise": lambda x: F.band_biquad(x, RATE, 1000.0, noise=True),
    "bandpass_biquad": lambda x: F.bandpass_biquad(x, RATE, 1000.0),
    "bandpass_biquad skirt": lambda x: F.bandpass_biquad(x, RATE, 1000.0, const_skirt_gain=True),
    "bandreject_biquad": lambda x: F.bandreject_biquad(x, RATE, 1000.0),
    "bass_biquad": lambda x: F.bass_biquad(x, RATE, 4.0),
    "contrast": lambda x: F.contrast(x),
    "dcshift": lambda x: F.dcshift(x, 0.1),
    "dcshift limited": lambda x: F.dcshift(x, 0.4, 0.05),
    "dcshift limited down": lambda x: F.dcshift(x, -0.4, 0.05),
    "deemph_biquad": lambda x: F.deemph_biquad(x, 44100),
    "equalizer_biquad": lambda x: F.equalizer_biquad(x, RATE, 1000.0, 5.0),
    "flanger": lambda x: F.flanger(x, RATE, delay=1.0, regen=40.0, speed=9.0),
    "flanger quadratic": lambda x: F.flanger(x, RATE, modulation="triangular", interpolation="quadratic"),
    "gain": lambda x: F.gain(x, -2.0),
    "highpass_biquad": lambda x: F.highpass_biquad(x, RATE, 1000.0),
    "lowpass_biquad": lambda x: F.lowpass_biquad(x, RATE, 1000.0),
    "overdrive": lambda x: F.overdrive(x),
    "phaser": lambda x: F.phaser(x, RATE),
    "phaser triangular": lambda x: F.phaser(x, RATE, sinusoidal=False, delay_ms=1.0),
    "riaa_biquad": lambda x: F.riaa_biquad(x, 44100),
    "treble_biquad": lambda x: F.treble_biquad(x, RATE, 4.0),
}
every_effect = pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS)


def sound(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return (0.3 * torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)).to(dtype)


@every_effect
def test_a_batch_gives_what_its_items_give(effect):
    batch = sound(2, 3, 2, 400)
    torch.testing.assert_close(effect(batch)[1, 2], effect(batch[1, 2]))


@every_effect
def test_gradients_are_exact(effect):
    assert torch.autograd.gradcheck(effect, (0.3 * sound(1, 2, 24).requires_grad_(),))


@every_effect
def test_nothing_gives_nothing(effect):
    assert effect(torch.zeros(2, 0)).shape == (2, 0) and effect(torch.zeros(0, 2, 9)).shape == (0, 2, 9)


@every_effect
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_dtype_and_shape_stay(effect, dtype):
    waveform = sound(2, 300, dtype=dtype)
    result = effect(waveform)
    assert (result.shape, result.dtype) == (waveform.shape, dtype)
    assert result.abs().max() <= 1 and not torch.equal(result, waveform)


@every_effect
def test_it_compiles_without_breaks(effect):
    waveform = sound(2, 300)
    torch.testing.assert_close(torch.compile(effect, fullgraph=True, backend="eager")(waveform), effect(waveform))


@pytest.mark.parametrize(
    ("filtered", "frequency", "gain_db"),
    [
        (lambda x: F.lowpass_biquad(x, RATE, 1000.0), 1000.0, -3.01),
        (lambda x: F.highpass_biquad(x, RATE, 1000.0), 1000.0, -3.01),
        (lambda x: F.bandpass_biquad(x, RATE, 1000.0), 1000.0, 0.0),
        (lambda x: F.equalizer_biquad(x, RATE, 1000.0, 6.0), 1000.0, 6.0),
        (lambda x: F.bass_biquad(x, RATE, 6.0), 5.0, 6.0),
        (lambda x: F.treble_biquad(x, RATE, -6.0), 3990.0, -6.0),
        (lambda x: F.allpass_biquad(x, RATE, 1000.0), 700.0, 0.0),
        (lambda x: F.riaa_biquad(x, 48000), 1000.0 / 6, 0.0),
    ],
)
def test_filters_have_the_gain_they_promise(filtered, frequency, gain_db):
    impulse = torch.zeros(2**16, dtype=torch.float64)
    impulse[0] = 0.1
    response = torch.fft.rfft(filtered(impulse)) / 0.1
    at = round(frequency / RATE * 2**16)
    assert 20 * math.log10(response[at].abs().item()) == pytest.approx(gain_db, abs=0.05)


def test_a_cutoff_may_be_a_tensor_and_is_differentiable():
    cutoff = torch.tensor(900.0, dtype=torch.float64, requires_grad=True)
    quality = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    waveform = sound(40)
    assert torch.autograd.gradcheck(lambda f, q: F.lowpass_biquad(waveform, RATE, f, q), (cutoff, quality))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("native", [True, False], ids=["ctypes", "reference"])
def test_the_lower_tiers_of_moving_delays_agree_with_the_dispatcher(dtype, native):
    rows, channels = sound(3, 200, dtype=dtype), sound(2, 3, 80, dtype=dtype)
    echo = torch.randint(1, 9, (7,), generator=torch.Generator().manual_seed(0))
    taps = torch.rand(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 6
    ops = torch.ops.flambeau_audio
    for name, plain in (
        ("modulated_echo", modulation._echo_reference),
        ("modulated_echo_backward", modulation._echo_backward_reference),
    ):
        function = modulation._native_echo(name) if native else plain
        torch.testing.assert_close(function(rows, echo, 0.6), getattr(ops, name)(rows, echo, 0.6))
    for name, plain, called in (
        ("modulated_tap", modulation._tap_reference, modulation._native_tap),
        ("modulated_tap_backward", modulation._tap_backward_reference, modulation._native_tap_backward),
    ):
        for quadratic in (False, True):
            arguments = (channels, taps, 0.4, quadratic)
            torch.testing.assert_close((called if native else plain)(*arguments), getattr(ops, name)(*arguments))


@pytest.mark.parametrize("name", ["modulated_echo", "modulated_tap"])
def test_the_operators_keep_torchs_contract(name):
    if name == "modulated_echo":
        inputs = (sound(2, 30).requires_grad_(), torch.tensor([1, 4, 2]), 0.5)
    else:
        inputs = (sound(1, 2, 30).requires_grad_(), torch.rand(2, 3, dtype=torch.float64), 0.5, True)
    torch.library.opcheck(getattr(torch.ops.flambeau_audio, name), inputs)


def test_a_delay_that_points_to_the_future_is_refused():
    with pytest.raises(RuntimeError, match="delays holds a number below 1"):
        torch.ops.flambeau_audio.modulated_echo(sound(1, 9), torch.tensor([0]), 0.5)
    with pytest.raises(RuntimeError, match="delays holds a number below 0"):
        torch.ops.flambeau_audio.modulated_tap(sound(1, 1, 9), torch.tensor([[-0.5]]).double(), 0.5, False)


@pytest.mark.parametrize("noise_shaping", [False, True])
@pytest.mark.parametrize("density", ["TPDF", "RPDF", "GPDF"])
def test_dither_rounds_to_sixteen_bits_with_noise_of_about_one_step(density, noise_shaping):
    torch.manual_seed(0)
    waveform = sound(2, 20_000).clamp(-1, 1)
    steps = F.dither(waveform, density, noise_shaping) * 2**15
    assert torch.equal(steps, steps.round())
    error = steps - waveform * (2**15 - 2)
    assert error.mean().abs() < 0.02
    spread = {"TPDF": 1 / 6 + 1 / 12, "RPDF": 1 / 6, "GPDF": 1 / 4 + 1 / 12}[density]
    assert error.square().mean().item() == pytest.approx(spread * (2 if noise_shaping else 1), rel=0.05)


def test_noise_shaping_moves_the_error_to_high_frequencies():
    torch.manual_seed(0)
    waveform = sound(2**15)
    plain, shaped = (
        F.dither(waveform, noise_shaping=shape) * 2**15 - waveform * (2**15 - 2) for shape in (False, True)
    )
    low = slice(0, 2**11)
    assert torch.fft.rfft(shaped)[low].abs().mean() < 0.3 * torch.fft.rfft(plain)[low].abs().mean()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda x: F.contrast(x, 101.0), "from 0 to 100"),
        (lambda x: F.deemph_biquad(x, 8000), "44100"),
        (lambda x: F.riaa_biquad(x, 8000), "96000"),
        (lambda x: F.flanger(x, RATE, modulation="square"), "'square'"),
        (lambda x: F.flanger(x, RATE, interpolation="cubic"), "'cubic'"),
        (lambda x: F.flanger(x[0], RATE), "channel"),
        (lambda x: F.phaser(x, RATE, delay_ms=0.0), "delay_ms"),
    ],
)
def test_arguments_outside_their_range_are_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call(sound(2, 20))


SOX = {
    "contrast": (["contrast", "60"], lambda x: F.contrast(x, 60.0)),
    "overdrive": (["overdrive", "20", "30"], lambda x: F.overdrive(x, 20.0, 30.0)),
    "phaser": (["phaser", "0.4", "0.74", "3", "0.4", "0.5", "-s"], lambda x: F.phaser(x, RATE)),
    "flanger": (["flanger", "1", "2", "30", "71", "0.5", "sine", "25", "lin"], lambda x: F.flanger(x, RATE, 1, 2, 30)),
    "flanger quadratic": (
        ["flanger", "0", "2", "0", "71", "0.5", "tri", "25", "quad"],
        lambda x: F.flanger(x, RATE, modulation="triangular", interpolation="quadratic"),
    ),
    "lowpass": (["lowpass", "1000", "0.707q"], lambda x: F.lowpass_biquad(x, RATE, 1000.0)),
    "bass": (["bass", "5", "100", "0.707q"], lambda x: F.bass_biquad(x, RATE, 5.0)),
    "band": (["band", "-n", "1000", "1414.427157h"], lambda x: F.band_biquad(x, RATE, 1000.0, 0.707, True)),
    "dcshift": (["dcshift", "0.3", "0.05"], lambda x: F.dcshift(x, 0.3, 0.05)),
}


@pytest.mark.skipif(shutil.which("sox") is None, reason="needs the program sox")
@pytest.mark.parametrize("name", SOX)
def test_effects_agree_with_sox(name):
    arguments, ours = SOX[name]
    waveform = sound(2, 4000, dtype=torch.float32).clamp(-0.9, 0.9)
    kind = ["-t", "raw", "-e", "floating-point", "-b", "32", "-c", "2", "-r", str(RATE)]
    command = ["sox", "-D", "-V1", *kind, "-", *kind, "-", *arguments]
    done = subprocess.run(command, input=waveform.t().contiguous().numpy().tobytes(), capture_output=True, check=True)
    theirs = torch.from_numpy(np.frombuffer(done.stdout, dtype=np.float32).reshape(-1, 2).T.copy())
    torch.testing.assert_close(ours(waveform), theirs, rtol=1e-4, atol=1e-4)

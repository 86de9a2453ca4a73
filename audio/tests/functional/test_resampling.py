"""Resampling: the signal survives, memory stays in proportion, weights are kept, upstream's states load."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.audio import transforms as T
from flambeau.audio._native import LIBRARY
from flambeau.audio.functional import _polyphase, resample, resampling


def tone(frequency: float, rate: int, seconds: float = 0.2) -> torch.Tensor:
    return torch.sin(2 * math.pi * frequency * torch.arange(int(rate * seconds), dtype=torch.float64) / rate)


@pytest.mark.parametrize("rates", [(48000, 16000), (44100, 16000), (16000, 44100), (22050, 48000), (44101, 16000)])
def test_a_tone_is_the_same_tone_at_the_new_rate(rates):
    orig, new = rates
    result = resample(tone(1000, orig), orig, new, lowpass_filter_width=32)
    want = tone(1000, new)
    inside = slice(500, min(len(want), len(result)) - 500)
    torch.testing.assert_close(result[inside], want[inside], rtol=0, atol=2e-3)


def test_what_the_new_rate_cannot_hold_is_removed():
    result = resample(tone(10000, 48000), 48000, 16000, lowpass_filter_width=64)
    assert result[200:-200].abs().max() < 1e-3


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 300), st.integers(1, 3))
def test_the_length_is_rounded_up_and_the_sum_is_linear(orig, new, time, rows):
    x = torch.linspace(-1, 1, rows * time, dtype=torch.float64).sin().reshape(rows, time)
    result = resample(x, orig, new)
    assert result.shape == (rows, -(-new // math.gcd(orig, new) * time // (orig // math.gcd(orig, new))))
    torch.testing.assert_close(resample(-3 * x, orig, new), -3 * result)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 90), st.sampled_from([torch.float32, torch.float64]))
def test_the_kernel_gives_the_references_sums(orig, new, time, dtype):
    sinc = resampling.sinc_of(orig, new, 6, 0.99, "sinc_interp_hann", None)
    if sinc is None:
        return
    taps = sinc.taps(0, sinc.new, dtype, torch.device("cpu"))
    x = torch.linspace(-1, 1, 2 * time, dtype=dtype).cos().reshape(2, time)
    arguments = (taps, sinc.orig, sinc.new, sinc.width - 1, 0)
    torch.testing.assert_close(
        _polyphase.polyphase(x, *arguments, sinc.length(time)), _polyphase._reference(x, *arguments, sinc.length(time))
    )
    back = torch.ops.flambeau_audio._resample_backward(x, *arguments, time + 5)
    torch.testing.assert_close(back, _polyphase._reference_backward(x, *arguments, time + 5))


def test_the_weights_have_derivatives_too():
    x = torch.linspace(-1, 1, 20, dtype=torch.float64).sin().reshape(2, 10).requires_grad_()
    taps = torch.linspace(0, 1, 3 * 8, dtype=torch.float64).cos().reshape(3, 8).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, taps: _polyphase.polyphase(x, taps, 2, 3, 3, 0, 15), (x, taps))
    assert torch.autograd.gradgradcheck(lambda x, taps: _polyphase.polyphase(x, taps, 2, 3, 3, 0, 15), (x, taps))


def test_the_operator_keeps_torchs_contract():
    x, taps = torch.randn(2, 30, requires_grad=True), torch.randn(3, 8)
    torch.library.opcheck(torch.ops.flambeau_audio.resample.default, (x, taps, 2, 3, 3, 0, 45))
    torch.library.opcheck(torch.ops.flambeau_audio._resample_backward.default, (x, taps, 2, 3, 3, 0, 20))


def test_stretches_without_a_table_are_the_table(monkeypatch):
    x = torch.linspace(-1, 1, 500).cos()
    whole = resample(x, 101, 97)
    monkeypatch.setattr(resampling, "_MOST_WEIGHTS", 300)
    torch.testing.assert_close(resample(x, 101, 97), whole)


def test_rates_of_a_crafted_header_take_no_more_memory_than_the_waveform():
    assert resample(torch.ones(1, 400), 4001, 4000).shape == (1, 400)
    assert resample(torch.ones(1, 400), 2**31 - 1, 1_000_000_007).shape == (1, 187)
    assert resample(torch.ones(100), 1, 1009).shape == (100900,)


def test_weights_are_made_once(monkeypatch):
    x = torch.ones(1, 100)
    resample(x, 7001, 4003)
    monkeypatch.setattr(resampling.Sinc, "taps", None)
    resample(x, 7001, 4003)
    resample(x, 2 * 7001, 2 * 4003)


def test_weights_made_in_inference_mode_serve_training():
    x = torch.ones(1, 100, requires_grad=True)
    with torch.inference_mode():
        resample(x.detach(), 7013, 4007)
    resample(x, 7013, 4007).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(dtype):
    x = torch.linspace(-1, 1, 300).sin()
    result = resample(x.to(dtype), 3, 2)
    assert result.dtype == dtype
    torch.testing.assert_close(result, resample(x.to(dtype).float(), 3, 2).to(dtype))


def test_equal_rates_give_the_input_itself():
    x = torch.ones(3, 5)
    assert resample(x, 8000, 8000) is x


@pytest.mark.parametrize("name", ["sinc_interpolation", "kaiser_window"])
def test_old_names_of_methods_are_known(name):
    new = {"sinc_interpolation": "sinc_interp_hann", "kaiser_window": "sinc_interp_kaiser"}[name]
    x = torch.linspace(-1, 1, 60).sin()
    assert torch.equal(resample(x, 3, 2, resampling_method=name), resample(x, 3, 2, resampling_method=new))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 8000), "orig_freq is 0"),
        ((16000, -1), "new_freq is -1"),
        ((16000.5, 8000), "orig_freq is 16000.5"),
        ((3, 2, 0), "lowpass_filter_width is 0"),
        ((3, 2, 6, 1.5), "rolloff is 1.5"),
        ((3, 2, 6, 0.9, "linear"), "resampling_method is 'linear'"),
    ],
)
def test_bad_arguments_are_named(arguments, said):
    with pytest.raises(ValueError, match=said):
        resample(torch.ones(10), *arguments)


def test_integers_are_refused():
    with pytest.raises(TypeError, match=r"torch\.int16"):
        resample(torch.ones(10, dtype=torch.int16), 3, 2)


def test_a_nan_stays_near_where_it_was():
    x = torch.ones(4000)
    x[2000] = torch.nan
    touched = resample(x, 3, 1).isnan().nonzero()
    assert 0 < len(touched) < 20


def dense(module: T.Resample | T.PitchShift) -> torch.Tensor:
    """Upstream's table for the rates of a module."""
    sinc = module._sinc
    table = torch.zeros(sinc.new, sinc.orig + 2 * sinc.width)
    taps = sinc.taps(0, sinc.new, torch.float32, torch.device("cpu"))[:, : 2 * sinc.width]
    return table.scatter_(1, resampling._columns(sinc), taps).unsqueeze(1)


def test_the_module_keeps_upstreams_table_where_it_is_small():
    module = T.Resample(44100, 16000)
    assert module.kernel.shape == (160, 1, 441 + 2 * 17)
    assert torch.equal(module.kernel, dense(module))


@pytest.mark.parametrize("make", [lambda: T.Resample(4001, 4000), lambda: T.PitchShift(1000, 4)])
def test_upstreams_large_table_is_reduced_when_it_is_loaded(make):
    waveform, module, other = torch.linspace(-9, 9, 800).sin(), make(), make()
    want = module(waveform)
    other.load_state_dict({**module.state_dict(), "kernel": 2 * dense(module)})
    assert other.kernel.numel() < dense(module).numel() / 10
    torch.testing.assert_close(other(waveform), 2 * want)


def test_a_module_without_a_table_still_resamples():
    module = T.Resample(1_000_003, 999_983)
    assert not module.state_dict()
    x = torch.linspace(-1, 1, 200)
    assert torch.equal(module(x), resample(x, 1_000_003, 999_983))


@pytest.mark.slow
@pytest.mark.parametrize("native", ["ctypes", "off"])
def test_the_lower_tiers_pass_these_tests(native):
    environment = {**os.environ, "FLAMBEAU_NATIVE": native}
    words = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


COMPARE_TRITON = """
import contextlib, json, torch, types
from flambeau.audio.functional import _polyphase as plain, _polyphase_triton as fast, resampling

module = types.SimpleNamespace(device=lambda device: contextlib.nullcontext())
torch.get_device_module = lambda device: module  # the interpreter works on tensors of the CPU
differ = []
for orig, new in ((3, 1), (160, 147), (1, 2)):
    sinc = resampling.sinc_of(orig, new, 6, 0.99, "sinc_interp_hann", None)
    for dtype in (torch.float32, torch.float64):
        for first, count, time in ((0, sinc.new, 40), (7, 20, 60)):
            taps = sinc.taps(first, count, dtype, torch.device("cpu"))
            x = torch.linspace(-9, 9, 2 * time, dtype=dtype).sin().reshape(2, time)
            rates = (taps, sinc.orig, sinc.new, sinc.width - 1, first, 20)
            for name in ("resample", "resample_backward"):
                reference = {"resample": plain._reference, "resample_backward": plain._reference_backward}[name]
                if not torch.allclose(getattr(fast, name)(x, *rates), reference(x, *rates), atol=1e-5):
                    differ.append([name, orig, new, str(dtype), first])
print(json.dumps(differ))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernel_gives_the_references_sums():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    words = [sys.executable, "-c", COMPARE_TRITON]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == []


def test_a_tier_serves():
    resample(torch.ones(8), 3, 2)
    assert LIBRARY.operators["resample"]["provider"] in ("dispatcher", "ctypes", "python")

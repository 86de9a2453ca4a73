"""Recursive filters: values, gradients, tiers, batches, compilation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.audio.functional import filtfilt, lfilter
from flambeau.audio.functional.iir import _native, _reference


def stable(filters: int, taps: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Coefficients of filters whose poles lie well inside the unit circle."""
    generator = torch.Generator().manual_seed(seed)
    a = 0.5 * (torch.rand(filters, taps, generator=generator, dtype=torch.float64) - 0.5) / max(taps - 1, 1)
    a[:, 0] = 1.5
    return a, torch.randn(filters, taps, generator=generator, dtype=torch.float64)


def noise(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64).to(dtype) * 0.2


@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
def test_results_are_those_of_scipy(taps):
    a, b = stable(1, taps)
    waveform = noise(3, 700)
    expected = scipy.signal.lfilter(b[0].numpy(), a[0].numpy(), waveform.numpy(), axis=-1)
    np.testing.assert_allclose(lfilter(waveform, a[0], b[0], clamp=False).numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("taps", [1, 2, 3, 6])
@pytest.mark.parametrize("time", [0, 1, 63, 64, 65, 1500])
def test_reference_and_ctypes_agree_with_the_dispatcher(dtype, taps, time):
    a, b = stable(3, taps)
    a = a / a[:, :1]
    waveform = noise(5, 3, time, dtype=dtype)
    served = torch.ops.flambeau_audio.lfilter(waveform, a, b)
    torch.testing.assert_close(_reference(waveform, a, b), served, rtol=1e-6, atol=1e-7)
    assert torch.equal(_native(waveform, a, b), served)


@pytest.mark.parametrize("taps", [1, 2, 3, 5])
def test_gradients_of_first_and_second_order_are_exact(taps):
    a, b = (coeffs.requires_grad_() for coeffs in stable(2, taps))
    waveform = noise(2, 2, 12).requires_grad_()

    def run(x, a, b):
        return lfilter(x, a, b, clamp=False)

    assert torch.autograd.gradcheck(run, (waveform, a, b))
    assert torch.autograd.gradgradcheck(run, (waveform, a, b))


@settings(max_examples=30, deadline=None)
@given(batch=st.lists(st.integers(1, 3), max_size=3), taps=st.integers(1, 4), time=st.integers(1, 90))
def test_a_batch_gives_what_its_items_give(batch, taps, time):
    a, b = (coeffs[0] for coeffs in stable(1, taps))
    waveform = noise(*batch, time)
    whole = lfilter(waveform, a, b).reshape(-1, time)
    for row, result in zip(waveform.reshape(-1, time), whole, strict=True):
        torch.testing.assert_close(lfilter(row, a, b), result)


def test_a_bank_gives_each_channel_its_filter():
    a, b = stable(3, 3)
    waveform = noise(2, 3, 50)
    banked = lfilter(waveform, a, b, clamp=False)
    for channel in range(3):
        alone = lfilter(waveform[:, channel], a[channel], b[channel], clamp=False)
        torch.testing.assert_close(banked[:, channel], alone)


def test_without_batching_every_filter_works_on_the_whole_waveform():
    a, b = stable(3, 3)
    waveform = noise(2, 50)
    banked = lfilter(waveform, a, b, clamp=False, batching=False)
    assert banked.shape == (2, 3, 50)
    for i in range(3):
        torch.testing.assert_close(banked[:, i], lfilter(waveform, a[i], b[i], clamp=False))


def test_results_are_cut_to_full_scale_unless_asked_otherwise():
    one = torch.tensor([1.0, 0.0])
    loud = torch.tensor([3.0, -3.0])
    assert lfilter(loud, one, one).tolist() == [1.0, -1.0]
    assert lfilter(loud, one, one, clamp=False).tolist() == [3.0, -3.0]


def test_strides_and_the_input_are_respected():
    waveform = noise(50, 2).t()
    before = waveform.clone()
    a, b = (coeffs[0] for coeffs in stable(1, 3))
    torch.testing.assert_close(lfilter(waveform, a, b), lfilter(waveform.contiguous(), a, b))
    assert torch.equal(waveform, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    a, b = (coeffs[0].float() for coeffs in stable(1, 3))
    waveform = noise(400, dtype=dtype)
    assert torch.equal(lfilter(waveform, a, b), lfilter(waveform.float(), a, b).to(dtype))


def test_a_decaying_filter_comes_to_rest():
    waveform = torch.zeros(40_000, dtype=torch.float64)
    waveform[0] = 1.0
    rung = lfilter(waveform, torch.tensor([1.0, -0.9]), torch.tensor([1.0, 0.0]))
    assert rung[-1] == 0.0 and rung[100] != 0.0


def test_there_and_back_has_no_phase():
    a, b = (coeffs[0] for coeffs in stable(1, 3))
    impulse = torch.zeros(401, dtype=torch.float64)
    impulse[200] = 0.1
    result = filtfilt(impulse, a, b, clamp=False)
    torch.testing.assert_close(result, result.flip(0), rtol=1e-8, atol=1e-12)


def test_it_compiles_without_breaks():
    a, b = (coeffs[0] for coeffs in stable(1, 3))
    waveform = noise(2, 300).requires_grad_()
    compiled = torch.compile(filtfilt, fullgraph=True, backend="eager")
    result = compiled(waveform, a, b)
    torch.testing.assert_close(result, filtfilt(waveform, a, b))
    result.sum().backward()
    assert waveform.grad is not None


def test_the_operator_keeps_torchs_contract():
    a, b = stable(2, 3)
    inputs = (noise(2, 2, 20).requires_grad_(), (a / a[:, :1]).requires_grad_(), b.requires_grad_())
    torch.library.opcheck(torch.ops.flambeau_audio.lfilter, inputs)


@pytest.mark.parametrize(
    ("waveform", "a", "b", "word"),
    [
        (torch.zeros(4), torch.ones(3), torch.ones(2), "expected the same"),
        (torch.zeros(4), torch.ones(1, 1, 1), torch.ones(1, 1, 1), r"expected \(taps,\)"),
        (torch.zeros(2, 4), torch.ones(3, 2), torch.ones(3, 2), r"\(..., 3, time\)"),
        (torch.zeros(4), torch.ones(3, 2), torch.ones(3, 2), r"\(..., 3, time\)"),
    ],
)
def test_coefficients_that_do_not_fit_are_refused(waveform, a, b, word):
    with pytest.raises(ValueError, match=word):
        lfilter(waveform, a, b)

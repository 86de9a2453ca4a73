"""What holds for all functions on signals: gradients, leading dimensions, compilation in one graph, dtypes, devices.

One table of cases serves all; a new function is tested by the line that it gets there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import flambeau.audio.functional as F
import flambeau.audio.prototype.functional as P

HANN = torch.hann_window(16, dtype=torch.float64)
SPECTRUM = (HANN, 16, 8, 16)
DOUBLE = torch.float64
REAL = {torch.complex64: torch.float32, torch.complex128: DOUBLE}


@dataclass
class Case:
    """A function of one signal.

    Attributes:
        call: the function.
        item: shape of one signal, without leading dimensions.
        kind: of its numbers: "real", "positive", "complex".
        gradient: whether first and second derivatives are checked.
        leading: whether leading dimensions are treated one by one.
        fourier: whether it transforms; torch on MKL refuses to transform empty batches.
    """

    call: Callable[[Tensor], Tensor]
    item: tuple[int, ...]
    kind: str = "real"
    gradient: bool = True
    leading: bool = True
    fourier: bool = False

    def signal(self, *leading: int, dtype: torch.dtype = DOUBLE) -> Tensor:
        generator = torch.Generator().manual_seed(len(leading))
        shape = (*leading, *self.item)
        values = torch.randn(shape, generator=generator, dtype=DOUBLE)
        if self.kind == "positive":
            values = values.abs() + 0.1
        if self.kind == "complex":
            return torch.complex(values, torch.randn(shape, generator=generator, dtype=DOUBLE)).to(dtype.to_complex())
        return values.to(dtype)


def like(x: Tensor, *shape: int) -> Tensor:
    """Further arguments, in the precision of the signal."""
    values = torch.linspace(0.1, 1.0, math.prod(shape), dtype=REAL.get(x.dtype, x.dtype)).sin().reshape(shape)
    return values.to(x.dtype) if x.is_complex() else values


def window(x: Tensor) -> tuple[Tensor, int, int, int]:
    return (HANN.to(REAL.get(x.dtype, x.dtype)), 16, 8, 16)


def covariance(x: Tensor, channels: int = 3) -> Tensor:
    root = like(x, 4, channels, channels) + 1j * torch.eye(channels)
    return (root @ root.mH).to(x.dtype)


CASES = {
    "spectrogram, complex": Case(lambda x: F.spectrogram(x, 2, *window(x), None, False), (64,), fourier=True),
    "spectrogram, power": Case(lambda x: F.spectrogram(x, 0, *window(x), 2.0, True), (64,), fourier=True),
    "spectrogram, magnitude": Case(lambda x: F.spectrogram(x, 0, *window(x), 1.0, "frame_length"), (64,), fourier=True),
    "inverse_spectrogram": Case(
        lambda x: F.inverse_spectrogram(x, 60, 2, *window(x), "window"), (9, 9), "complex", fourier=True
    ),
    "griffinlim": Case(
        lambda x: F.griffinlim(x, *window(x), 1.0, 2, 0.5, None, False), (9, 6), "positive", gradient=False,
        fourier=True,
    ),
    "spectral_centroid": Case(lambda x: F.spectral_centroid(x, 16000, 0, *window(x)), (64,), fourier=True),
    "phase_vocoder": Case(
        lambda x: F.phase_vocoder(x, 1.3, like(x, 9, 1)), (9, 8), "complex", gradient=False
    ),
    "pitch_shift": Case(lambda x: F.pitch_shift(x, 1000, 3, n_fft=16), (64,), gradient=False, fourier=True),
    "amplitude_to_DB": Case(lambda x: F.amplitude_to_DB(x, 10.0, 1e-10, 0.0), (4, 5), "positive"),
    "amplitude_to_DB, top_db": Case(
        lambda x: F.amplitude_to_DB(x, 10.0, 1e-10, 0.0, 6.0), (2, 4, 5), "positive", gradient=False
    ),
    "DB_to_amplitude": Case(lambda x: F.DB_to_amplitude(x, 1.0, 0.5), (7,)),
    "mu_law_encoding": Case(lambda x: F.mu_law_encoding(x, 256), (20,), gradient=False),
    "mu_law_decoding": Case(lambda x: F.mu_law_decoding(x, 256), (20,)),
    "compute_deltas": Case(F.compute_deltas, (3, 9)),
    "compute_deltas, wider than the signal": Case(lambda x: F.compute_deltas(x, 9), (3, 4)),
    "sliding_window_cmn": Case(lambda x: F.sliding_window_cmn(x, 5, 3), (12, 2)),
    "sliding_window_cmn, variance": Case(lambda x: F.sliding_window_cmn(x, 5, 3, True, True), (12, 2)),
    "resample, down": Case(lambda x: F.resample(x, 3, 1), (40,)),
    "resample, up": Case(lambda x: F.resample(x, 2, 5, resampling_method="sinc_interp_kaiser"), (20,)),
    "resample, odd rates": Case(lambda x: F.resample(x, 44101, 16000), (60,)),
    "resample, rates without a table": Case(lambda x: F.resample(x, 1000003, 999983), (30,)),
    "preemphasis": Case(F.preemphasis, (20,)),
    "deemphasis": Case(lambda x: F.deemphasis(0.01 * x), (20,)),
    "add_noise": Case(lambda x: F.add_noise(x, like(x, 16).expand_as(x), x.new_full(x.shape[:-1], 3.0)), (16,)),
    "speed": Case(lambda x: F.speed(x, 10, 1.2)[0], (30,)),
    "convolve": Case(lambda x: F.convolve(x, like(x, 5).expand(*x.shape[:-1], 5)), (16,)),
    "convolve, same": Case(lambda x: F.convolve(x, like(x, 5).expand(*x.shape[:-1], 5), "same"), (16,)),
    "fftconvolve": Case(lambda x: F.fftconvolve(x, like(x, 5).expand(*x.shape[:-1], 5), "valid"), (16,), fourier=True),
    "fftconvolve, complex": Case(
        lambda x: F.fftconvolve(x, like(x, 5).expand(*x.shape[:-1], 5)), (16,), "complex", fourier=True
    ),
    "psd": Case(lambda x: F.psd(x, like(x, 4, 6).real.abs().expand(*x.shape[:-3], 4, 6)), (3, 4, 6), "complex"),
    "mvdr_weights_souden": Case(
        lambda x: F.mvdr_weights_souden(F.psd(x), covariance(x).expand(*x.shape[:-3], -1, -1, -1), 0),
        (3, 4, 6), "complex",
    ),
    "mvdr_weights_rtf": Case(
        lambda x: F.mvdr_weights_rtf(x, covariance(x).expand(*x.shape[:-2], -1, -1, -1), 1), (4, 3), "complex"
    ),
    "rtf_evd": Case(lambda x: F.rtf_evd(F.psd(x)).abs(), (3, 4, 6), "complex", gradient=False),
    "rtf_power": Case(
        lambda x: F.rtf_power(F.psd(x), covariance(x).expand(*x.shape[:-3], -1, -1, -1), 2), (3, 4, 6), "complex"
    ),
    "apply_beamforming": Case(
        lambda x: F.apply_beamforming(like(x, 4, 3).expand(*x.shape[:-3], 4, 3), x), (3, 4, 6), "complex"
    ),
    "frechet_distance": Case(
        lambda x: F.frechet_distance(x, torch.eye(3, dtype=x.dtype), like(x, 3), 2 * torch.eye(3, dtype=x.dtype)),
        (3,), leading=False,
    ),
    "oscillator_bank": Case(
        lambda x: P.oscillator_bank(x, like(x, 12, 3).expand_as(x), 1000.0), (12, 3)
    ),
    "extend_pitch": Case(lambda x: P.extend_pitch(x, [1.0, 2.5]), (12, 1)),
    "exp_sigmoid": Case(P.exp_sigmoid, (12,)),
    "sinc_impulse_response": Case(lambda x: P.sinc_impulse_response(x / 9, 9, True), (3,), "positive"),
    "frequency_impulse_response": Case(P.frequency_impulse_response, (9,), "positive", fourier=True),
    "filter_waveform": Case(lambda x: P.filter_waveform(x, like(x, 4, 5)), (18,), fourier=True),
    "simulate_rir_ism": Case(
        lambda x: P.simulate_rir_ism(10 * like(x, 3) + 5, like(x, 3) + x, like(x, 2, 3), 1, 0.3, 120, 21),
        (3,), "positive", gradient=False, leading=False,
    ),
}  # fmt: skip

WHOLE = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def some(which: Callable[[Case], bool]) -> pytest.MarkDecorator:
    chosen = {name: case for name, case in CASES.items() if which(case)}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen.keys())


@some(lambda case: case.gradient)
def test_first_and_second_derivatives_are_those_of_differences(case):
    signal = case.signal().requires_grad_()
    assert torch.autograd.gradcheck(case.call, signal)
    assert torch.autograd.gradgradcheck(case.call, signal)


@some(lambda case: case.leading)
@pytest.mark.parametrize("leading", [(2,), (2, 1, 3)], ids=["one", "three"])
def test_leading_dimensions_are_treated_one_by_one(case, leading):
    batch = case.signal(*leading)
    together = case.call(batch)
    alone = torch.stack([case.call(each) for each in batch.reshape(-1, *case.item)])
    torch.testing.assert_close(together, alone.reshape(*leading, *alone.shape[1:]))


@some(lambda case: case.leading and not case.fourier)
def test_an_empty_batch_gives_an_empty_result(case):
    one = case.call(case.signal())
    assert case.call(case.signal(0)).shape == (0, *one.shape)


@WHOLE
def test_it_compiles_to_one_graph(case):
    torch._dynamo.reset()
    signal = case.signal(2, dtype=torch.float32) if case.leading else case.signal(dtype=torch.float32)
    compiled = torch.compile(case.call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(signal), case.call(signal), rtol=1e-4, atol=1e-5)


@WHOLE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_precision_of_the_signal_is_kept(case, dtype):
    result = case.call(case.signal(dtype=dtype))
    if result.is_floating_point() or result.is_complex():
        assert result.dtype.to_real() == dtype


@WHOLE
def test_strides_do_not_matter_and_the_signal_stays(case):
    signal = case.signal()
    spread = torch.stack([signal, signal * 0], -1)[..., 0]
    before = spread.clone()
    assert not spread.is_contiguous() or spread.numel() == 1
    torch.testing.assert_close(case.call(spread), case.call(signal))
    assert torch.equal(spread, before)

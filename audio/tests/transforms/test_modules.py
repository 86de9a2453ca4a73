"""What holds for all transforms: states, batches, graphs, copies, and the precision and names that upstream has."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

import flambeau.audio.functional as F
import flambeau.audio.prototype.transforms as PT
import flambeau.audio.transforms as T


@dataclass
class Case:
    """A module and one item of what it takes.

    Attributes:
        make: constructor.
        inputs: one item for each argument, without leading dimensions.
        state: names in its state_dict, once it was called.
        leading: whether leading dimensions are treated one by one.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    state: tuple[str, ...] = ()
    leading: bool = True
    precision: torch.dtype | None = field(default=None)


def wave(samples: int = 1600) -> tuple[Tensor]:
    t = torch.arange(samples) / 16000
    return ((0.4 * torch.sin(2765 * t) + 0.2 * torch.sin(9000 * t + 1)),)


def magnitudes(freqs: int = 201, frames: int = 12) -> tuple[Tensor]:
    return (torch.linspace(0.1, 9, freqs * frames).sin().abs().reshape(freqs, frames),)


def spectrum(*shape: int) -> tuple[Tensor]:
    values = torch.linspace(0, 30, torch.Size(shape).numel()).reshape(shape)
    return (torch.polar(values.sin().abs() + 0.1, values),)


def covariance() -> Tensor:
    root = torch.linspace(0, 1, 5 * 3 * 3).reshape(5, 3, 3).sin() + 1j * torch.eye(3)
    return root @ root.mH


def lattice() -> tuple[Tensor, ...]:
    return (
        torch.linspace(0, 9, 4 * 3 * 5).sin().reshape(4, 3, 5),
        torch.tensor([1, 2], dtype=torch.int32),
        torch.tensor(4, dtype=torch.int32),
        torch.tensor(2, dtype=torch.int32),
    )


MASK = (torch.linspace(0.1, 0.9, 5 * 8).reshape(5, 8),)
CASES = {
    "AddNoise": Case(T.AddNoise, lambda: (*wave(), *wave(), torch.tensor(5.0))),
    "AmplitudeToDB": Case(lambda: T.AmplitudeToDB("magnitude", 60.0), lambda: (magnitudes()[0][None],)),
    "ComputeDeltas": Case(T.ComputeDeltas, magnitudes),
    "Convolve": Case(lambda: T.Convolve("same"), lambda: (*wave(), wave(20)[0])),
    "Deemphasis": Case(T.Deemphasis, wave),
    "FFTConvolve": Case(T.FFTConvolve, lambda: (*wave(), wave(20)[0])),
    "Fade": Case(lambda: T.Fade(100, 200, "half_sine"), wave),
    "FrequencyMasking": Case(lambda: T.FrequencyMasking(20), magnitudes, leading=False),
    "GriffinLim": Case(lambda: T.GriffinLim(n_iter=2, rand_init=False), magnitudes, ("window",)),
    "InverseMelScale": Case(lambda: T.InverseMelScale(65, 8), lambda: magnitudes(8), ("fb",)),
    "InverseSpectrogram": Case(T.InverseSpectrogram, lambda: spectrum(201, 12), ("window",)),
    "LFCC": Case(T.LFCC, wave, ("filter_mat", "dct_mat", "Spectrogram.window")),
    "Loudness": Case(lambda: T.Loudness(16000), lambda: (wave(16000)[0][None],)),
    "MFCC": Case(
        lambda: T.MFCC(melkwargs={"n_mels": 60}), wave,
        ("dct_mat", "MelSpectrogram.spectrogram.window", "MelSpectrogram.mel_scale.fb"),
    ),
    "MVDR": Case(
        T.MVDR, lambda: (*spectrum(3, 5, 8), *MASK), ("psd_s", "psd_n", "mask_sum_s", "mask_sum_n"),
        precision=torch.complex64,
    ),
    "MelScale": Case(lambda: T.MelScale(20), magnitudes, ("fb",)),
    "MelSpectrogram": Case(lambda: T.MelSpectrogram(n_mels=60), wave, ("spectrogram.window", "mel_scale.fb")),
    "MuLawDecoding": Case(T.MuLawDecoding, lambda: (torch.arange(256),)),
    "MuLawEncoding": Case(T.MuLawEncoding, wave),
    "PSD": Case(T.PSD, lambda: (*spectrum(3, 5, 8), *MASK)),
    "PitchShift": Case(lambda: T.PitchShift(16000, 4), wave, ("kernel", "window")),
    "Preemphasis": Case(T.Preemphasis, wave),
    "RNNTLoss": Case(lambda: T.RNNTLoss(reduction="none"), lattice, leading=False),
    "RTFMVDR": Case(
        lambda: Referenced(T.RTFMVDR()),
        lambda: (*spectrum(3, 5, 8), spectrum(5, 3)[0], covariance()),
    ),
    "Resample": Case(lambda: T.Resample(44100, 16000), wave, ("kernel",)),
    "Resample, equal": Case(lambda: T.Resample(8000, 8000), wave),
    "SlidingWindowCmn": Case(lambda: T.SlidingWindowCmn(5, 3), magnitudes),
    "SoudenMVDR": Case(
        lambda: Referenced(T.SoudenMVDR()), lambda: (*spectrum(3, 5, 8), covariance(), 2 * covariance())
    ),
    "SpecAugment": Case(lambda: T.SpecAugment(1, 5, 1, 20), magnitudes, leading=False),
    "SpectralCentroid": Case(lambda: T.SpectralCentroid(16000), wave, ("window",)),
    "Spectrogram": Case(T.Spectrogram, wave, ("window",)),
    "Speed": Case(lambda: First(T.Speed(16000, 1.25)), wave, ("module.resampler.kernel",)),
    "SpeedPerturbation": Case(
        lambda: First(T.SpeedPerturbation(16000, [0.9, 1.0])), wave, ("module.speeders.0.resampler.kernel",),
        leading=False,
    ),
    "TimeMasking": Case(lambda: T.TimeMasking(5, p=0.5), magnitudes, leading=False),
    "TimeStretch": Case(lambda: T.TimeStretch(fixed_rate=1.2), lambda: spectrum(201, 12), ("phase_advance",)),
    "Vad": Case(lambda: T.Vad(16000), lambda: wave(32000), leading=False),
    "Vol": Case(lambda: T.Vol(3.0, "db"), wave),
    "BarkScale": Case(lambda: PT.BarkScale(20), magnitudes, ("fb",)),
    "BarkSpectrogram": Case(lambda: PT.BarkSpectrogram(n_barks=20), wave, ("spectrogram.window", "bark_scale.fb")),
    "ChromaScale": Case(lambda: PT.ChromaScale(16000, 201), magnitudes, ("fb",)),
    "ChromaSpectrogram": Case(
        lambda: PT.ChromaSpectrogram(16000, 400), wave, ("spectrogram.window", "chroma_scale.fb")
    ),
    "InverseBarkScale": Case(lambda: PT.InverseBarkScale(201, 20), lambda: magnitudes(20), ("fb",)),
}  # fmt: skip


class Referenced(nn.Module):
    """Beamforming with channel 0 as reference."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.module(*inputs, 0)


class First(nn.Module):
    """The first result alone."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.module(*inputs)[0]


def some(which: Callable[[str], bool]) -> pytest.MarkDecorator:
    chosen = {name: case for name, case in CASES.items() if which(name)}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen.keys())


def called(case: Case) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    module = case.make()
    return module, module(*batched(case) if not case.leading else case.inputs())


def batched(case: Case) -> tuple[Tensor, ...]:
    return tuple(each[None] for each in case.inputs())


def test_every_transform_is_in_the_table():
    assert {*T.__all__, *PT.__all__} == {name.partition(",")[0] for name in CASES}


@some(lambda name: True)
def test_the_state_has_upstreams_names_and_comes_back(case):
    module, result = called(case)
    assert set(module.state_dict()) == set(case.state)
    other = case.make()
    other.load_state_dict(module.state_dict())
    torch.manual_seed(0)
    again = other(*batched(case) if not case.leading else case.inputs())
    torch.testing.assert_close(again, result, equal_nan=True)


@some(lambda name: True)
def test_copies_and_pickles_work_alike(case):
    module, _ = called(case)
    inputs = batched(case) if not case.leading else case.inputs()
    results = []
    for one in (module, copy.deepcopy(module), *([pickle.loads(pickle.dumps(module))])):
        torch.manual_seed(0)
        results.append(one(*inputs))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], equal_nan=True)


@some(lambda name: CASES[name].leading)
def test_leading_dimensions_are_treated_one_by_one(case):
    module, single = called(case)
    scaled = [tuple(each if not each.is_floating_point() else each * k for each in case.inputs()) for k in (1, 0.5)]
    together = module(*(torch.stack(pair).unsqueeze(1) for pair in zip(*scaled, strict=True)))
    assert together.shape == (2, 1, *single.shape)
    for number, inputs in enumerate(scaled):
        torch.testing.assert_close(together[number, 0], module(*inputs), equal_nan=True)


@some(lambda name: name not in ("Vad", "SpeedPerturbation"))
def test_it_compiles_to_one_graph(case):
    torch._dynamo.reset()
    module, _ = called(case)
    inputs = batched(case)
    torch.manual_seed(0)
    want = module(*inputs)
    torch.manual_seed(0)
    got = torch.compile(module, fullgraph=True, backend="aot_eager")(*inputs)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)


@some(lambda name: name not in ("RNNTLoss", "Vad", "MuLawDecoding", "MuLawEncoding", "MVDR"))
def test_a_module_in_double_precision_stays_there(case):
    module = case.make().double()
    widen = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    result = module(*(each.to(widen.get(each.dtype, each.dtype)) for each in batched(case)))
    assert result.dtype in (torch.float64, torch.complex128)


@some(lambda name: name not in ("PitchShift",))
def test_it_is_built_without_memory_on_the_meta_device(case):
    with torch.device("meta"):
        module = case.make()
    assert all(each.device.type == "meta" for each in module.state_dict().values())


def test_arguments_stay_attributes():
    mel = T.MelSpectrogram(8000, n_fft=256, n_mels=20, f_min=50.0, norm="slaney")
    assert (mel.sample_rate, mel.n_fft, mel.win_length, mel.hop_length, mel.n_mels) == (8000, 256, 256, 128, 20)
    assert (mel.mel_scale.f_min, mel.mel_scale.f_max, mel.mel_scale.norm, mel.mel_scale.mel_scale) == (
        50.0, 4000.0, "slaney", "htk",
    )  # fmt: skip


def test_modules_are_the_functions_with_their_arguments():
    waveform = wave()[0]
    window = torch.hann_window(400)
    want = F.spectrogram(waveform, 0, window, 400, 200, 400, 2.0, False)
    assert torch.equal(T.Spectrogram()(waveform), want)
    assert torch.equal(T.Resample(3, 2)(waveform), F.resample(waveform, 3, 2))

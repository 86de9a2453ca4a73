"""Rooms: arrival times, amplitudes, energies, derivatives; the kernels beside their references."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch

from flambeau.audio.prototype.functional import _ray_tracing, image_sources, ray_tracing, simulate_rir_ism

ROOM, SOURCE = torch.tensor([5.0, 4.0, 3.0]), torch.tensor([1.0, 2.0, 1.5])
MICS = torch.tensor([[2.0, 1.0, 1.0], [4.0, 3.0, 1.0]])


def test_direct_sound_arrives_when_and_as_loud_as_its_way_says():
    response = simulate_rir_ism(ROOM, SOURCE, MICS, 0, 0.5)
    for mic, heard in zip(MICS, response, strict=True):
        distance = float((mic - SOURCE).norm())
        assert abs(int(heard.abs().argmax()) - 40 - distance * 16000 / 343) <= 1
        assert float(heard.sum()) == pytest.approx(1 / distance, rel=2e-2)


def test_walls_that_take_everything_leave_direct_sound():
    torch.testing.assert_close(
        simulate_rir_ism(ROOM, SOURCE, MICS, 4, 1.0, 500), simulate_rir_ism(ROOM, SOURCE, MICS, 0, 0.3, 500)
    )


def test_one_wall_takes_what_comes_from_its_side():
    absorption = torch.zeros(6)
    absorption[1] = 1.0  # east
    cells, strength = image_sources._images(ROOM, SOURCE, 1, absorption[None])
    silent = cells[strength[0] == 0]
    assert len(silent) == 1
    assert float(silent[0, 0]) == 9.0


@pytest.mark.parametrize("bands", [1, 7])
def test_a_longer_result_begins_alike(bands):
    absorption = torch.full((bands, 6), 0.3)
    long = simulate_rir_ism(ROOM, SOURCE, MICS, 3, absorption)
    for length in (100, 700, 3000):
        part = simulate_rir_ism(ROOM, SOURCE, MICS, 3, absorption, length)
        assert part.shape == (2, length)
        both = min(length, long.shape[1] - 300 * (bands > 1))
        torch.testing.assert_close(part[:, :both], long[:, :both], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("taps", [3, 21, 81])
def test_the_kernel_of_pulses_gives_the_references_sums(dtype, taps):
    generator = torch.Generator().manual_seed(taps)
    amplitude = torch.randn(3, 40, 2, generator=generator, dtype=dtype)
    delay = torch.rand(40, 2, generator=generator, dtype=dtype) * 320 - 10
    delay[0], delay[1] = 7.0, torch.nan
    got = torch.ops.flambeau_audio._impulse_response(amplitude, delay, taps, 300)
    torch.testing.assert_close(got, image_sources._reference(amplitude, delay, taps, 300), rtol=1e-5, atol=1e-5)


def test_places_may_be_learnt():
    amplitude = torch.rand(2, 4, 3, dtype=torch.float64, requires_grad=True)
    delay = (torch.linspace(3.2, 30, 12, dtype=torch.float64) + 0.07).reshape(4, 3).requires_grad_()
    call = torch.ops.flambeau_audio._impulse_response
    assert torch.autograd.gradcheck(lambda a, d: call(a, d, 9, 50), (amplitude, delay))
    mics = MICS.clone().requires_grad_()
    simulate_rir_ism(ROOM, SOURCE, mics, 2, 0.4, 800).square().sum().backward()
    assert mics.grad.abs().min() > 0


def test_operators_keep_torchs_contract():
    amplitude, delay = torch.rand(2, 4, 3, requires_grad=True), torch.rand(4, 3) * 20
    torch.library.opcheck(torch.ops.flambeau_audio._impulse_response.default, (amplitude, delay, 9, 50))


@pytest.mark.parametrize("scattering", [0.0, 0.3])
def test_the_kernel_of_rays_gives_the_references_energies(scattering):
    places = [each.double() for each in (ROOM, SOURCE, MICS)]
    walls = (torch.linspace(0.4, 0.9, 12).reshape(2, 6).double(), torch.full((2, 6), scattering).double())
    numbers = (500, 100, 0.5, 343.0, 1e-5, 0.4, 0.004)
    got = torch.ops.flambeau_audio._trace_rays(*places, *walls, *numbers)
    torch.testing.assert_close(got, _ray_tracing._reference(*places, *walls, *numbers))


def test_rays_carry_the_energy_of_image_sources():
    histogram = ray_tracing(ROOM, SOURCE, MICS, 100_000, 0.3, mic_radius=0.2, time_thres=0.04)[:, 0]
    places, strength = image_sources._images(ROOM, SOURCE, 10, torch.full((1, 6), 0.3))
    distance = (places.unsqueeze(1) - MICS).norm(dim=-1)
    for mic, heard in enumerate(histogram):
        bins = (distance[:, mic] / 343 / 0.004).long()
        energy = torch.zeros(10).index_add_(0, bins.clamp(max=9), (strength[0] / distance[:, mic]).square())
        torch.testing.assert_close(heard[:9], energy[:9], rtol=0.15, atol=0.01)


def test_more_absorption_leaves_less_energy_and_bands_are_apart():
    walls = torch.tensor([0.1, 0.5, 0.9]).unsqueeze(1).expand(3, 6)
    histogram = ray_tracing(ROOM, SOURCE, MICS, 2000, walls, 0.2, time_thres=0.3)
    assert histogram.shape == (2, 3, math.ceil(0.3 / 0.004))
    total = histogram.sum(-1)
    assert (total[:, :-1] > total[:, 1:]).all()
    alone = ray_tracing(ROOM, SOURCE, MICS, 2000, 0.5, 0.2, time_thres=0.3)
    torch.testing.assert_close(alone[:, 0], histogram[:, 1])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: simulate_rir_ism(ROOM[:2], SOURCE, MICS, 1, 0.1), r"\(2,\)"),
        (lambda: simulate_rir_ism(ROOM, SOURCE, MICS.double(), 1, 0.1), "float64"),
        (lambda: simulate_rir_ism(ROOM, SOURCE, MICS, -1, 0.1), "max_order is -1"),
        (lambda: simulate_rir_ism(ROOM, SOURCE, MICS, 1, 1.1), "outside of"),
        (lambda: simulate_rir_ism(ROOM, SOURCE, MICS, 1, torch.ones(5)), r"\(5,\)"),
        (lambda: simulate_rir_ism(ROOM, SOURCE, MICS, 1, torch.ones(3, 6)), "3 bands"),
        (lambda: ray_tracing(ROOM, SOURCE, MICS, 0), "num_rays is 0"),
        (lambda: ray_tracing(ROOM, SOURCE + 9, MICS, 10), "place in the room"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("native", ["ctypes", "off"])
def test_the_lower_tiers_pass_these_tests(native):
    environment = {**os.environ, "FLAMBEAU_NATIVE": native}
    words = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout

"""Impulse responses of rooms by the image source method: every reflection is a source behind the wall.

The native kernel is in `native/rooms.cpp`.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY
from flambeau.audio.functional.convolution import fftconvolve
from flambeau.audio.prototype.functional._room_geometry import check_places, coefficients
from flambeau.core.native import register_op

__all__ = ["simulate_rir_ism"]

_OCTAVES_HZ = (125.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0)
_BAND_TAPS = 512


def simulate_rir_ism(
    room: Tensor,
    source: Tensor,
    mic_array: Tensor,
    max_order: int,
    absorption: float | Tensor,
    output_length: int | None = None,
    delay_filter_length: int = 81,
    center_frequency: Tensor | None = None,
    sound_speed: float = 343.0,
    sample_rate: float = 16000.0,
) -> Tensor:
    """Simulate what microphones in a box-shaped room hear of a click.

    It is differentiable: places, absorption and the room's size may be learnt.

    Args:
        room: (3,), its size in metres; one corner is at 0.
        source: (3,), place of the click.
        mic_array: (channel, 3), places of the microphones.
        max_order: most reflections of a path.
        absorption: share of energy that walls take: a number, (6,) for west, east, south, north, floor and ceiling,
            or (bands, 6).
        output_length: samples wanted; None for all until the last reflection has gone by.
        delay_filter_length: taps of the filter that moves a click between samples, odd. The result begins half of
            them early.
        center_frequency: (bands,), middles of the bands in Hz, ascending; octaves from 125 to 8000 Hz by default.
        sound_speed: in metres per second.
        sample_rate: in Hz.

    Returns:
        (channel, samples), dtype of `room`.

    Raises:
        ValueError: shapes, dtypes or numbers that do not go together.

    References:
        Allen, Berkley 1979, "Image method for efficiently simulating small-room acoustics".
    """
    name = "simulate_rir_ism"
    check_places(name, room, source, mic_array)
    if max_order < 0 or delay_filter_length < 3 or delay_filter_length % 2 == 0:
        raise ValueError(
            f"{name}: max_order is {max_order} and delay_filter_length {delay_filter_length}; expected a number >= 0 "
            "and an odd one >= 3."
        )
    walls = coefficients(name, "absorption", absorption, room)
    places, strength = _images(room, source, max_order, walls)
    distance = torch.linalg.vector_norm(places.unsqueeze(1) - mic_array, dim=-1)
    delay = distance * (sample_rate / sound_speed)
    amplitude = strength.unsqueeze(-1) / distance
    length = output_length
    if length is None:
        length = math.ceil(float(delay.detach().max())) + delay_filter_length
    bands = walls.shape[0]
    # Pulses beyond the end reach back into it, by half of the taps of both filters.
    beyond = delay_filter_length + (_BAND_TAPS if bands > 1 else 0)
    room_for = length if output_length is None else length + beyond
    response = torch.ops.flambeau_audio._impulse_response(amplitude, delay, delay_filter_length, room_for)
    if bands > 1:
        filters = _band_filters(name, center_frequency, bands, sample_rate, room)
        response = fftconvolve(response, filters.unsqueeze(1), "same")
    total: Tensor = response.sum(0)[..., :length]
    return total


def _images(room: Tensor, source: Tensor, max_order: int, absorption: Tensor) -> tuple[Tensor, Tensor]:
    """Places (images, 3) and amplitudes (bands, images) of the source and its reflections."""
    number = torch.arange(-max_order, max_order + 1, device=room.device)
    cell = torch.cartesian_prod(number, number, number)
    cell = cell[cell.abs().sum(1) <= max_order]
    # In every second room of the lattice, left and right are exchanged.
    places = torch.where(cell % 2 == 1, room * (cell + 1) - source, room * cell + source)
    # How often a path meets the walls at 0 and those at the end.
    near, far = torch.div(cell, 2, rounding_mode="floor").abs(), torch.div(cell + 1, 2, rounding_mode="floor").abs()
    kept = (1 - absorption).sqrt()
    strength = kept[:, None, 0::2].pow(near) * kept[:, None, 1::2].pow(far)
    return places, strength.prod(-1)


def _band_filters(name: str, centers: Tensor | None, bands: int, sample_rate: float, like: Tensor) -> Tensor:
    """Filters with raised cosines between neighbouring centres, which add up to 1 there; (bands, taps)."""
    if centers is None:
        centers = torch.tensor(_OCTAVES_HZ, device=like.device)
    if centers.dim() != 1 or centers.shape[0] != bands:
        raise ValueError(
            f"{name}: absorption has {bands} bands and center_frequency shape {tuple(centers.shape)}; expected "
            f"({bands},)."
        )
    centers = centers.to(torch.float64).unsqueeze(1)
    frequency = torch.arange(_BAND_TAPS // 2 + 1, dtype=torch.float64, device=like.device)
    frequency = frequency / _BAND_TAPS * sample_rate
    # The lowest band begins an octave below its middle, the highest does not end.
    below, above = torch.cat([centers[:1] / 2, centers[:-1]]), centers.roll(-1)
    turn = 2 * math.pi * frequency
    rising = torch.where((below <= frequency) & (frequency < centers), 0.5 * (1 + torch.cos(turn / centers)), 0.0)
    falling = torch.where((centers <= frequency) & (frequency < above), 0.5 * (1 - torch.cos(turn / above)), 0.0)
    last = torch.where(frequency >= centers[-1:], 1.0, rising[-1:])
    response = torch.cat([(rising + falling)[:-1], last])
    taps: Tensor = torch.fft.fftshift(torch.fft.irfft(response, _BAND_TAPS), -1)
    return taps[:, 1:].to(like.dtype)


# --- operator: pulses that arrive between samples, summed -----------------------------------------

_OP = "_impulse_response"


def _check(amplitude: Tensor, delay: Tensor, taps: int, length: int) -> None:
    """The same sentences as in native/rooms.cpp."""
    if amplitude.dim() != 3 or delay.dim() != 2 or amplitude.shape[1:] != delay.shape:
        raise RuntimeError(
            f"{_OP}: amplitude has shape {tuple(amplitude.shape)} and delay {tuple(delay.shape)}, expected (bands, "
            "images, mics) and (images, mics)."
        )
    if amplitude.dtype not in (torch.float32, torch.float64) or delay.dtype != amplitude.dtype:
        raise RuntimeError(
            f"{_OP}: amplitude is {amplitude.dtype} and delay {delay.dtype}, expected float32 or float64 twice."
        )
    if taps < 3 or taps % 2 == 0 or length < 0:
        raise RuntimeError(
            f"{_OP}: taps is {taps} and length {length}, expected an odd number from 3 on and one from 0 on."
        )


def _fake(amplitude: Tensor, delay: Tensor, taps: int, length: int) -> Tensor:
    _check(amplitude, delay, taps, length)
    return amplitude.new_empty(amplitude.shape[0], amplitude.shape[2], length)


def _reference(amplitude: Tensor, delay: Tensor, taps: int, length: int) -> Tensor:
    _check(amplitude, delay, taps, length)
    return _sum_of_pulses(amplitude, delay, taps, length)


def _sum_of_pulses(amplitude: Tensor, delay: Tensor, taps: int, length: int) -> Tensor:
    """Differentiable; one line of microphones' samples, so that one addition by index does it."""
    bands, _, mics = amplitude.shape
    first = delay.detach().ceil()
    fits = (first >= 0) & (first + taps <= length)
    first = torch.where(fits, first, 0)
    half, k = taps // 2, torch.arange(taps, device=delay.device)
    x = (k - half).to(delay.dtype) - torch.where(fits, delay - first, 0).unsqueeze(-1)
    window = torch.where(x.abs() <= half, 0.5 * (1 + torch.cos(math.pi / half * x)), 0.0)
    pulse = torch.where(fits.unsqueeze(-1), torch.sinc(x) * window, 0.0)
    line = torch.arange(mics, device=delay.device) * length
    places = (first.to(torch.int64) + line).unsqueeze(-1) + k
    if length < taps:  # nothing fits in
        return (amplitude.sum() * 0).expand(bands, mics, length).clone()
    sums = amplitude.new_zeros(bands, mics * length)
    sums = sums.index_add(1, places.flatten(), (amplitude.unsqueeze(-1) * pulse).flatten(1))
    return sums.view(bands, mics, length)


_LONG, _POINTER = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS = (_POINTER, _POINTER, *(_LONG,) * 4, _POINTER, _LONG)


def _native(amplitude: Tensor, delay: Tensor, taps: int, length: int) -> Tensor:
    response = _fake(amplitude, delay, taps, length)
    amplitude, delay = amplitude.contiguous(), delay.contiguous()
    symbol = "fb_impulse_response_f32" if amplitude.dtype == torch.float32 else "fb_impulse_response_f64"
    LIBRARY.function(symbol, _ARGUMENTS, None)(
        amplitude.data_ptr(), delay.data_ptr(), *amplitude.shape, taps, response.data_ptr(), length
    )
    return response


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    amplitude, delay, ctx.taps, ctx.length = inputs
    ctx.save_for_backward(amplitude, delay)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    amplitude, delay = ctx.saved_tensors
    wanted = [each for each, needed in zip((amplitude, delay), ctx.needs_input_grad, strict=False) if needed]
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [each if again else each.detach().requires_grad_() for each in (amplitude, delay)]
        response = _sum_of_pulses(leaves[0], leaves[1], ctx.taps, ctx.length)
        chosen = [leaf for leaf, needed in zip(leaves, ctx.needs_input_grad, strict=False) if needed]
        found = torch.autograd.grad(response, chosen, grad, create_graph=again)
    assert len(found) == len(wanted)
    gradients = iter(found)
    return (*(next(gradients) if needed else None for needed in ctx.needs_input_grad[:2]), None, None)


register_op(
    "_impulse_response(Tensor amplitude, Tensor delay, SymInt taps, SymInt length) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    backward=_gradient,
    setup_context=_keep,
)

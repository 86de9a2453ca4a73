"""Energy that reaches microphones in a room over time, by rays; the late, dense part of an impulse response.

The native kernel is in `native/rooms.cpp`.
"""

from __future__ import annotations

import ctypes
import math

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY
from flambeau.audio.prototype.functional._room_geometry import check_places, coefficients
from flambeau.core.native import register_op

__all__ = ["ray_tracing"]


def ray_tracing(
    room: Tensor,
    source: Tensor,
    mic_array: Tensor,
    num_rays: int,
    absorption: float | Tensor = 0.0,
    scattering: float | Tensor = 0.0,
    mic_radius: float = 0.5,
    sound_speed: float = 343.0,
    energy_thres: float = 1e-7,
    time_thres: float = 10.0,
    hist_bin_size: float = 0.004,
) -> Tensor:
    """Trace rays through a box-shaped room and record the energy that passes microphones.

    Directions are spread evenly and the same at each call. Walls take a share of a ray's energy, send a share of the
    rest straight to the microphones (Lambert's law), and reflect what remains. Energies are such that the direct sound
    at distance r has 1 / r^2, as the squared amplitudes of `simulate_rir_ism`.

    Args:
        room: (3,), its size in metres; one corner is at 0.
        source: (3,), inside of it.
        mic_array: (channel, 3), places of the microphones.
        num_rays: more give less noise, > 0.
        absorption: share of energy that walls take: a number, (6,) for west, east, south, north, floor and ceiling,
            or (bands, 6).
        scattering: share of the rest that goes in all directions; likewise.
        mic_radius: rays that pass as near as this are heard, in metres.
        sound_speed: in metres per second.
        energy_thres: share of its energy below which a ray is given up.
        time_thres: seconds after which it is.
        hist_bin_size: seconds of each bin.

    Returns:
        (channel, bands, ceil(time_thres / hist_bin_size)), dtype of `room`. No gradient.

    Raises:
        ValueError: shapes, dtypes or numbers that do not go together.

    References:
        Schroeder 2011, "Physically based real-time auralization of interactive virtual environments", chapter 5.
    """
    name = "ray_tracing"
    check_places(name, room, source, mic_array)
    numbers = {
        "num_rays": num_rays,
        "mic_radius": mic_radius,
        "sound_speed": sound_speed,
        "time_thres": time_thres,
        "hist_bin_size": hist_bin_size,
    }
    for which, value in numbers.items():
        if value <= 0:
            raise ValueError(f"{name}: {which} is {value}, expected a positive number.")
    if not torch.compiler.is_compiling() and not bool(((source >= 0) & (source <= room)).all()):
        raise ValueError(
            f"{name}: source is {source.tolist()}, expected a place in the room, which is {room.tolist()}."
        )
    taken = coefficients(name, "absorption", absorption, room)
    spread = coefficients(name, "scattering", scattering, room)
    taken, spread = torch.broadcast_tensors(taken, spread)
    wide = [each.detach().to(torch.float64) for each in (room, source, mic_array, 1 - taken, spread)]
    bins = math.ceil(time_thres / hist_bin_size)
    histogram = torch.ops.flambeau_audio._trace_rays(
        *wide, num_rays, bins, mic_radius, sound_speed, energy_thres, time_thres, hist_bin_size
    )
    result: Tensor = histogram.to(room.dtype)
    return result


_OP = "_trace_rays"


def _check(room: Tensor, source: Tensor, mics: Tensor, reflection: Tensor, scattering: Tensor) -> None:
    """The same sentences as in native/rooms.cpp."""
    for one in (room, source, mics, reflection, scattering):
        if one.dtype != torch.float64:
            raise RuntimeError(f"{_OP}: a tensor is {one.dtype}, expected float64.")
    shapes = tuple(room.shape), tuple(source.shape), tuple(mics.shape)
    if shapes[:2] != ((3,), (3,)) or mics.dim() != 2 or mics.shape[1] != 3:
        raise RuntimeError(
            f"{_OP}: room, source and mics have shapes {shapes[0]}, {shapes[1]} and {shapes[2]}; expected (3,), (3,) "
            "and (mics, 3)."
        )
    if reflection.dim() != 2 or reflection.shape[1] != 6 or scattering.shape != reflection.shape:
        raise RuntimeError(
            f"{_OP}: reflection and scattering have shapes {tuple(reflection.shape)} and {tuple(scattering.shape)}, "
            "expected (bands, 6) twice."
        )


def _fake(
    room: Tensor, source: Tensor, mics: Tensor, reflection: Tensor, scattering: Tensor, rays: int, bins: int,
    radius: float, speed: float, least_energy: float, most_time: float, bin: float,
) -> Tensor:  # fmt: skip
    _check(room, source, mics, reflection, scattering)
    return room.new_empty(mics.shape[0], reflection.shape[0], bins)


def _covered(radius: float, distance: Tensor) -> Tensor:
    """The share of a sphere that a microphone covers at a distance, times 2."""
    return 1 - (1 - radius**2 / distance.square().clamp(min=radius**2)).sqrt()


def _directions(rays: int, device: torch.device) -> Tensor:
    """A spiral over the sphere; (rays, 3)."""
    number = torch.arange(rays, dtype=torch.float64, device=device)
    z = number * (2 / rays) - 1 + 1 / rays
    rho, phi = (1 - z.square()).sqrt(), number * (math.pi * (3 - math.sqrt(5)))
    return torch.stack([phi.cos() * rho, phi.sin() * rho, z], 1)


def _reference(
    room: Tensor, source: Tensor, mics: Tensor, reflection: Tensor, scattering: Tensor, rays: int, bins: int,
    radius: float, speed: float, least_energy: float, most_time: float, bin: float,
) -> Tensor:  # fmt: skip
    _check(room, source, mics, reflection, scattering)
    bands = reflection.shape[0]
    histogram = room.new_zeros(mics.shape[0], bands, bins)

    def record(heard: Tensor, distance: Tensor, energy: Tensor) -> None:
        """Add (rays, mics, bands) where `heard`, which has travelled `distance`; (rays, mics) both."""
        place = (distance / speed / bin).to(torch.int64)
        ray, mic = (heard & (place < bins)).nonzero(as_tuple=True)
        scaled = energy[ray, mic] / (distance.square() * _covered(radius, distance))[ray, mic].unsqueeze(1)
        band = torch.arange(bands, device=room.device)
        histogram.index_put_((mic.unsqueeze(1), band, place[ray, mic].unsqueeze(1)), scaled, accumulate=True)

    direction = _directions(rays, room.device)
    point = source.expand(rays, 3)
    energy = room.new_full((rays, bands), 2 / rays)
    travelled = room.new_zeros(rays)
    while point.shape[0]:
        ways = (torch.where(direction > 0, room, 0.0) - point) / direction
        hop, axis = torch.where(direction == 0, torch.inf, ways).min(1)
        to_mic = mics - point.unsqueeze(1)
        along = (to_mic * direction.unsqueeze(1)).sum(-1)
        aside = to_mic.square().sum(-1) - along.square()
        distance = travelled.unsqueeze(1) + along
        heard = (along >= 0) & (along < hop.unsqueeze(1)) & (aside <= radius**2) & (distance > 0)
        record(heard, distance, energy.unsqueeze(1).expand(-1, mics.shape[0], -1))

        ahead = direction.gather(1, axis.unsqueeze(1)) > 0
        wall = 2 * axis + ahead.squeeze(1)
        border = torch.where(ahead, room[axis].unsqueeze(1), 0.0)
        point = (point + hop.unsqueeze(1) * direction).scatter(1, axis.unsqueeze(1), border)
        travelled = travelled + hop
        energy = energy * reflection[:, wall].T
        if bool((scattering > 0).any()):
            to_mic = mics - point.unsqueeze(1)
            way = to_mic.square().sum(-1).sqrt()
            normal = to_mic.gather(2, axis[:, None, None].expand(-1, mics.shape[0], 1)).squeeze(2).abs()
            share = torch.where(way > 0, 2 * normal / way, 0.0) * _covered(radius, way)
            part = (energy * scattering[:, wall].T).unsqueeze(1) * share.unsqueeze(2)
            record(torch.ones_like(share, dtype=torch.bool), travelled.unsqueeze(1) + way, part)
        energy = energy * (1 - scattering[:, wall].T)
        goes_on = (energy.amax(1) > least_energy * 2 / rays) & (travelled < speed * most_time)
        direction = direction.scatter(1, axis.unsqueeze(1), -direction.gather(1, axis.unsqueeze(1)))
        point, direction, energy, travelled = (each[goes_on] for each in (point, direction, energy, travelled))
    return histogram


_LONG, _DOUBLE, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_ARGUMENTS = (
    *(_POINTER,) * 3, _LONG, *(_POINTER,) * 2, *(_LONG,) * 2, *(_DOUBLE,) * 5, _POINTER, _LONG,
)  # fmt: skip


def _native(
    room: Tensor, source: Tensor, mics: Tensor, reflection: Tensor, scattering: Tensor, rays: int, bins: int,
    radius: float, speed: float, least_energy: float, most_time: float, bin: float,
) -> Tensor:  # fmt: skip
    _check(room, source, mics, reflection, scattering)
    histogram = room.new_empty(mics.shape[0], reflection.shape[0], bins)
    given = [each.contiguous() for each in (room, source, mics, reflection, scattering)]
    places = [each.data_ptr() for each in given]
    status = LIBRARY.function("fb_trace_rays_f64", _ARGUMENTS, _LONG)(
        *places[:3], mics.shape[0], *places[3:], reflection.shape[0], rays, radius, speed, least_energy, most_time,
        bin, histogram.data_ptr(), bins,
    )  # fmt: skip
    if status != 0:
        raise RuntimeError(f"{_OP}: no memory left for 8 histograms.")
    return histogram


register_op(
    "_trace_rays(Tensor room, Tensor source, Tensor mics, Tensor reflection, Tensor scattering, SymInt rays, "
    "SymInt bins, float radius, float speed, float least_energy, float most_time, float bin) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
)

"""Cutting waveforms into windowed frames, and their energies, as Kaldi does."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

EPSILON = torch.finfo(torch.float32).eps
"""The smallest energy whose logarithm is taken, that of float32 for every dtype."""


class FrameOptions(NamedTuple):  # made at each call, which a frozen dataclass takes longer for
    """How frames are cut; Kaldi's names."""

    blackman_coeff: float
    channel: int
    dither: float
    energy_floor: float
    frame_length: float
    frame_shift: float
    min_duration: float
    preemphasis_coefficient: float
    raw_energy: bool
    remove_dc_offset: bool
    round_to_power_of_two: bool
    sample_frequency: float
    snip_edges: bool
    window_type: str

    @property
    def shift(self) -> int:
        """Samples from frame to frame."""
        return int(self.sample_frequency * self.frame_shift * 0.001)

    @property
    def size(self) -> int:
        """Samples of a frame."""
        return int(self.sample_frequency * self.frame_length * 0.001)

    @property
    def padded(self) -> int:
        """Samples of a frame's transform."""
        return 1 << max(self.size - 1, 0).bit_length() if self.round_to_power_of_two else self.size


def select(name: str, waveform: Tensor, options: FrameOptions) -> Tensor:
    """The channel that was asked for, (..., time), after all options are found to be possible."""
    if waveform.ndim < 2:
        raise ValueError(f"{name}: waveform has shape {tuple(waveform.shape)}, expected (..., channel, time).")
    channel = max(options.channel, 0)
    if channel >= waveform.shape[-2]:
        raise ValueError(f"{name}: channel is {channel}, expected one of the waveform's {waveform.shape[-2]}.")
    if not 0.0 <= options.preemphasis_coefficient <= 1.0:
        raise ValueError(
            f"{name}: preemphasis_coefficient is {options.preemphasis_coefficient}, expected a number from 0 to 1."
        )
    if options.sample_frequency <= 0:
        raise ValueError(f"{name}: sample_frequency is {options.sample_frequency}, expected a number above 0.")
    if options.shift < 1:
        raise ValueError(
            f"{name}: frame_shift is {options.frame_shift} ms, {options.shift} samples; expected one or more."
        )
    if not 2 <= options.size <= waveform.shape[-1]:
        raise ValueError(
            f"{name}: frame_length is {options.frame_length} ms, {options.size} samples; expected from 2 to "
            f"{waveform.shape[-1]}, the waveform's length. Shorten the frame, or pad the waveform."
        )
    if options.padded % 2:
        raise ValueError(
            f"{name}: frames of {options.padded} samples are odd; set round_to_power_of_two or change frame_length."
        )
    return waveform.select(-2, channel)


def frames(waveform: Tensor, options: FrameOptions) -> tuple[Tensor, Tensor]:
    """Windowed frames (..., frames, size), and each frame's energy (..., frames)."""
    source, count = extended(waveform, options)
    cut = source.unfold(-1, options.size, options.shift)[..., :count, :]
    if options.dither != 0.0:
        cut = cut + torch.randn_like(cut) * options.dither
    if options.remove_dc_offset:
        cut = cut - cut.mean(-1, keepdim=True)
    raw = cut
    if options.preemphasis_coefficient != 0.0:
        before = torch.cat([cut[..., :1], cut[..., :-1]], dim=-1)
        cut = torch.sub(cut, before, alpha=options.preemphasis_coefficient)
    cut = cut * window(options, cut)
    return cut, (raw if options.raw_energy else cut).square().sum(-1)


def extended(waveform: Tensor, options: FrameOptions) -> tuple[Tensor, int]:
    """What frames are cut from, and how many: the waveform, or the waveform with reflections at both ends."""
    size, shift, time = options.size, options.shift, waveform.shape[-1]
    if options.snip_edges:
        return waveform, 1 + (time - size) // shift
    count, reach = (time + shift // 2) // shift, size // 2 - shift // 2
    mirrored = waveform.flip(-1)
    begin = [mirrored[..., -reach:], waveform] if reach > 0 else [waveform[..., -reach:]]
    return torch.cat([*begin, mirrored], dim=-1), count


def window(options: FrameOptions, like: Tensor) -> Tensor:
    """What frames are multiplied by, (size,)."""
    size, kind = options.size, options.window_type
    places = torch.arange(size, dtype=torch.float64, device=like.device) * (2 * math.pi / (size - 1))
    if kind == "hanning":
        factors = 0.5 - 0.5 * torch.cos(places)
    elif kind == "hamming":
        factors = 0.54 - 0.46 * torch.cos(places)
    elif kind == "povey":
        factors = (0.5 - 0.5 * torch.cos(places)).pow(0.85)
    elif kind == "rectangular":
        factors = torch.ones_like(places)
    elif kind == "blackman":
        coeff = options.blackman_coeff
        factors = coeff - 0.5 * torch.cos(places) + (0.5 - coeff) * torch.cos(2 * places)
    else:
        raise ValueError(
            f"window_type is {kind!r}, expected 'hanning', 'hamming', 'povey', 'rectangular' or 'blackman'."
        )
    return factors.to(like.dtype)


def logarithms(powers: Tensor, in_place: bool) -> Tensor:
    """Of powers or energies."""
    return powers.clamp_(min=EPSILON).log_() if in_place else powers.clamp(min=EPSILON).log()


def log_energy(energy: Tensor, options: FrameOptions, in_place: bool) -> Tensor:
    """Logarithms of energies, not below the floor."""
    level = logarithms(energy, in_place)
    return level if options.energy_floor == 0.0 else level.clamp(min=math.log(options.energy_floor))

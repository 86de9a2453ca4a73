"""Changing the sample rate by band-limited interpolation, with a windowed sinc (Smith, "Digital audio resampling").

At the new rate, sample m lies at x = m * orig / new of the old samples and is `sum(x[j] * h(j - x))`. With the rates
reduced by their common divisor only `new` different sets of weights occur, one for each phase m % new; each has
2 * width weights that are not 0. A table of them is kept where it is small, else made for a stretch of the result at
a time: memory stays in proportion to the waveform, whatever the rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.functional import _polyphase

__all__ = ["Sinc", "can_keep", "kernel_of", "reduce_in", "resample", "resample_with", "sinc_of", "taps_of"]

# Weights that a kept table may have: 8 MB in float32.
_MOST_WEIGHTS = 2**21
_METHODS = {
    "sinc_interp_hann": "sinc_interp_hann",
    "sinc_interp_kaiser": "sinc_interp_kaiser",
    "sinc_interpolation": "sinc_interp_hann",  # names of old releases
    "kaiser_window": "sinc_interp_kaiser",
}
_BETA = 14.769656459379492


def resample(
    waveform: Tensor,
    orig_freq: int,
    new_freq: int,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float | None = None,
) -> Tensor:
    """Change a waveform's sample rate.

    Weights are computed in float64, and kept for the next call with the same arguments.

    Args:
        waveform: (..., time), floating point. float16 and bfloat16 are summed in float32.
        orig_freq: its rate in Hz, whole and > 0.
        new_freq: wanted rate, whole and > 0.
        lowpass_filter_width: zero crossings of the sinc on each side; more makes a sharper filter, and is slower.
        rolloff: cut-off frequency as a share of the lower rate's half, in (0, 1].
        resampling_method: the sinc's window, "sinc_interp_hann" or "sinc_interp_kaiser".
        beta: shape of Kaiser's window; about 14.77 by default.

    Returns:
        (..., ceil(time * new_freq / orig_freq)), same dtype and device; the input itself where the rates are equal.

    Raises:
        ValueError: rates that are not positive, not whole, or another option is out of range.
        TypeError: an integer waveform.

    Example:
        >>> resample(torch.ones(1, 48000), 48000, 16000).shape
        torch.Size([1, 16000])
    """
    sinc = sinc_of(orig_freq, new_freq, lowpass_filter_width, rolloff, resampling_method, beta)
    if sinc is None:
        return waveform
    if not can_keep(sinc):
        return _in_stretches(waveform, sinc)
    if torch.compiler.is_compiling():
        taps = sinc.taps(0, sinc.new, torch.float64, waveform.device)
    else:
        taps = _kept_taps(sinc, _table_dtype(waveform), waveform.device)
    return resample_with(waveform, taps, sinc)


@dataclass(frozen=True)
class Sinc:
    """A windowed sinc between two rates that are reduced by their common divisor.

    Attributes:
        orig: old rate.
        new: new rate.
        width: zero crossings on each side.
        cutoff: as a share of half the old rate.
        beta: Kaiser's; None for Hann's window.
    """

    orig: int
    new: int
    crossings: int
    cutoff: float
    beta: float | None

    @property
    def width(self) -> int:
        """Old samples on each side of a new one, the nearest included, that it is made from."""
        return math.ceil(self.crossings / self.cutoff)

    @property
    def weights(self) -> int:
        """Of all phases."""
        return self.new * 2 * self.width

    def length(self, time: int) -> int:
        """New samples of so many old ones."""
        return -(-time * self.new // self.orig)

    def taps(self, first: int, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Weights of the new samples from `first` on; (count, 2 * width), zeros added up to a multiple of 8.

        Those of sample m belong to the old samples from m * orig // new - width + 1 on.
        """
        m = torch.arange(first, first + count, dtype=torch.int64, device=device).unsqueeze(1)
        offset = torch.arange(1 - self.width, self.width + 1, dtype=torch.float64, device=device)
        distance = (offset - (m * self.orig % self.new).to(torch.float64) / self.new) * self.cutoff
        table = self.cutoff * torch.sinc(distance) * self._window(distance / self.crossings)
        inside = distance.abs() < self.crossings
        table = torch.where(inside, table, torch.zeros_like(table))
        return torch.nn.functional.pad(table, (0, -2 * self.width % 8)).to(dtype)

    def _window(self, place: Tensor) -> Tensor:
        """From 1 at place 0 down to the window's end at -1 and 1."""
        if self.beta is None:
            return torch.cos(place * (math.pi / 2)).square()
        shape = torch.tensor(self.beta, dtype=torch.float64, device=place.device)
        return torch.i0(shape * (1 - place.square()).clamp(min=0).sqrt()) / torch.i0(shape)


def sinc_of(
    orig_freq: int,
    new_freq: int,
    lowpass_filter_width: int,
    rolloff: float,
    resampling_method: str,
    beta: float | None,
) -> Sinc | None:
    """The interpolation between two rates; None where they are equal.

    Raises:
        ValueError: an option is out of range.
    """
    for name, rate in (("orig_freq", orig_freq), ("new_freq", new_freq)):
        if int(rate) != rate or rate <= 0:
            raise ValueError(f"resample: {name} is {rate}, expected a whole, positive number of Hz; round it.")
    if lowpass_filter_width <= 0:
        raise ValueError(f"resample: lowpass_filter_width is {lowpass_filter_width}, expected a positive number.")
    if not 0 < rolloff <= 1:
        raise ValueError(f"resample: rolloff is {rolloff}, expected a share in (0, 1].")
    if resampling_method not in _METHODS:
        raise ValueError(
            f"resample: resampling_method is {resampling_method!r}, expected 'sinc_interp_hann' or "
            "'sinc_interp_kaiser'."
        )
    divisor = math.gcd(int(orig_freq), int(new_freq))
    orig, new = int(orig_freq) // divisor, int(new_freq) // divisor
    if orig == new:
        return None
    kaiser = _METHODS[resampling_method] == "sinc_interp_kaiser"
    shape = (_BETA if beta is None else float(beta)) if kaiser else None
    return Sinc(orig, new, lowpass_filter_width, min(orig, new) * rolloff / orig, shape)


def resample_with(waveform: Tensor, taps: Tensor, sinc: Sinc) -> Tensor:
    """Resample with a table of all phases; (..., time) -> (..., ceil(time * new / orig))."""
    return _apply(waveform, taps, sinc, 0, sinc.length(waveform.shape[-1]))


def can_keep(sinc: Sinc) -> bool:
    """Whether a table of all phases is small enough to be kept."""
    return sinc.weights <= _MOST_WEIGHTS


def kernel_of(sinc: Sinc, dtype: torch.dtype) -> Tensor:
    """A table of all phases as modules keep it: upstream's (new, 1, orig + 2 * width) where that is not too large,
    else that of `Sinc.taps`.

    In it, phase p's weights stand where the samples from `-width` on that they belong to do; the rest is 0.
    """
    taps = sinc.taps(0, sinc.new, dtype, torch.device("cpu"))
    if not _is_whole(sinc):
        return taps
    kernel = torch.zeros(sinc.new, sinc.orig + 2 * sinc.width, dtype=dtype)
    return kernel.scatter_(1, _columns(sinc), taps[:, : 2 * sinc.width]).unsqueeze(1)


def taps_of(kernel: Tensor, sinc: Sinc) -> Tensor:
    """The table that `polyphase` takes, of one that a module keeps."""
    if kernel.dim() == 2:
        return kernel
    taps = kernel.squeeze(1).gather(1, _columns(sinc, kernel.device))
    return torch.nn.functional.pad(taps, (0, -2 * sinc.width % 8))


def reduce_in(state: dict[str, Any], key: str, sinc: Sinc, *, always: bool = False) -> None:
    """Replace upstream's table in a state by the one that is kept here."""
    kernel = state.get(key)
    if isinstance(kernel, Tensor) and kernel.dim() == 3 and (always or not _is_whole(sinc)):
        state[key] = taps_of(kernel, sinc)


def _is_whole(sinc: Sinc) -> bool:
    return sinc.new * (sinc.orig + 2 * sinc.width) <= _MOST_WEIGHTS


def _columns(sinc: Sinc, device: torch.device | None = None) -> Tensor:
    """Where the weights that are not 0 stand in upstream's table; (new, 2 * width) int64."""
    sample = torch.arange(sinc.new, device=device) * sinc.orig // sinc.new
    return sample.unsqueeze(1) + torch.arange(1, 2 * sinc.width + 1, device=device)


def _in_stretches(waveform: Tensor, sinc: Sinc) -> Tensor:
    length, step = sinc.length(waveform.shape[-1]), max(1, _MOST_WEIGHTS // (2 * sinc.width))
    parts = []
    for first in range(0, max(length, 1), step):
        count = min(step, length - first)
        taps = sinc.taps(first, count, _table_dtype(waveform), waveform.device)
        parts.append(_apply(waveform, taps, sinc, first, count))
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _apply(waveform: Tensor, taps: Tensor, sinc: Sinc, first: int, count: int) -> Tensor:
    if not waveform.is_floating_point():
        raise TypeError(
            f"resample: waveform is {waveform.dtype}, expected floating point; scale it to [-1, 1] and convert it."
        )
    dtype = _table_dtype(waveform)
    rows = waveform.reshape(math.prod(waveform.shape[:-1]), waveform.shape[-1]).to(dtype)
    result = _polyphase.polyphase(
        rows, taps.to(device=waveform.device, dtype=dtype), sinc.orig, sinc.new, sinc.width - 1, first, count
    )
    return result.reshape(*waveform.shape[:-1], count).to(waveform.dtype)


def _table_dtype(waveform: Tensor) -> torch.dtype:
    return torch.float64 if waveform.dtype == torch.float64 else torch.float32


_kept: dict[tuple[Sinc, torch.dtype, torch.device], Tensor] = {}
_MOST_KEPT = 16


def _kept_taps(sinc: Sinc, dtype: torch.dtype, device: torch.device) -> Tensor:
    key = (sinc, dtype, device)
    found = _kept.get(key)
    if found is None:
        with torch.inference_mode(False), torch.no_grad():
            found = sinc.taps(0, sinc.new, dtype, device)
        if type(found) is not Tensor:  # made for tracing: nobody else can use it
            return found
        while len(_kept) >= _MOST_KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[key] = found
    return found

"""Modules that change time and pitch apart from each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter

from flambeau.audio.functional import resampling, vocoding
from flambeau.audio.transforms._windows import make_window

__all__ = ["PitchShift", "TimeStretch"]


class TimeStretch(nn.Module):
    """Stretch a spectrogram in time without moving its pitch.

    Args:
        hop_length: samples from one frame's start to the next; n_freq - 1 by default.
        n_freq: frequencies of the spectrogram.
        fixed_rate: how much faster, where calls do not say it.

    Attributes:
        phase_advance: (n_freq, 1), a buffer; see `functional.phase_vocoder`.
    """

    phase_advance: Tensor

    def __init__(self, hop_length: int | None = None, n_freq: int = 201, fixed_rate: float | None = None) -> None:
        super().__init__()
        self.fixed_rate = fixed_rate
        self.hop_length = hop_length if hop_length is not None else n_freq - 1
        self.register_buffer("phase_advance", torch.linspace(0, math.pi * self.hop_length, n_freq).unsqueeze(-1))

    def forward(self, complex_specgrams: Tensor, overriding_rate: float | None = None) -> Tensor:
        """(..., n_freq, frames), complex -> (..., n_freq, ceil(frames / rate)).

        Raises:
            ValueError: neither rate is known, or a real spectrogram.
        """
        rate = self.fixed_rate if overriding_rate is None else overriding_rate
        if rate is None:
            raise ValueError("TimeStretch: no rate; pass overriding_rate, or fixed_rate to the constructor.")
        return vocoding.phase_vocoder(complex_specgrams, rate, self.phase_advance)


class PitchShift(LazyModuleMixin, nn.Module):
    """Move the pitch without changing the duration.

    The weights of the resampling are made at the first call, on its device and in its dtype.

    Args:
        sample_rate: in Hz.
        n_steps: steps to move by, up if positive.
        bins_per_octave: steps in an octave.
        n_fft: samples transformed per frame.
        win_length: samples of the window; `n_fft` by default.
        hop_length: samples from one frame's start to the next; win_length // 4 by default.
        window_fn: makes the window, `window_fn(win_length, **wkwargs)`.
        wkwargs: further arguments of `window_fn`.

    Attributes:
        window: (win_length,), a buffer.
        kernel: (new, weights), a parameter that is not trained; empty without need. Upstream's table, which is
            thousands of times larger, is reduced to it when a state is loaded.
    """

    cls_to_become = None
    window: Tensor
    kernel: UninitializedParameter

    def __init__(
        self,
        sample_rate: int,
        n_steps: int,
        bins_per_octave: int = 12,
        n_fft: int = 512,
        win_length: int | None = None,
        hop_length: int | None = None,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        wkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.n_steps = n_steps
        self.bins_per_octave = bins_per_octave
        self.sample_rate = sample_rate
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 4
        self.register_buffer("window", make_window(window_fn, self.win_length, wkwargs))
        self.rate = 2.0 ** (-float(n_steps) / bins_per_octave)
        self.orig_freq = int(sample_rate / self.rate)
        self._sinc = resampling.sinc_of(self.orig_freq, sample_rate, 6, 0.99, "sinc_interp_hann", None)
        self._has_kernel = self._sinc is not None and resampling.can_keep(self._sinc)
        self.kernel = UninitializedParameter(requires_grad=False)

    def initialize_parameters(self, waveform: Tensor) -> None:
        """Make the weights; called before the first `forward`."""
        if not self.has_uninitialized_params():
            return
        with torch.no_grad():
            if self._sinc is None or not self._has_kernel:
                self.kernel.materialize((0, 0), device=waveform.device, dtype=waveform.dtype)
                return
            taps = self._sinc.taps(0, self._sinc.new, waveform.dtype, waveform.device)
            self.kernel.materialize(tuple(taps.shape), device=waveform.device, dtype=waveform.dtype)
            self.kernel.copy_(taps)

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> likewise."""
        stretched = vocoding.stretch(
            waveform, self.rate, self.n_fft, self.win_length, self.hop_length, self.window.to(waveform.dtype)
        )
        if self._sinc is not None and self._has_kernel:
            shifted = resampling.resample_with(stretched, self.kernel, self._sinc)
        else:
            shifted = resampling.resample(stretched, self.orig_freq, self.sample_rate)
        return vocoding.fit(shifted, waveform.shape[-1])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if self._sinc is not None and self._has_kernel:
            resampling.reduce_in(state_dict, f"{prefix}kernel", self._sinc, always=True)
        super()._load_from_state_dict(state_dict, prefix, *args)

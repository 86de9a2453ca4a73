"""Modules that change sample rate or speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.functional import resampling
from flambeau.audio.functional.augmentation import speed_lengths, speed_rates

__all__ = ["Resample", "Speed", "SpeedPerturbation"]


class Resample(nn.Module):
    """Change a waveform's sample rate with weights that are computed once.

    Args:
        orig_freq: its rate in Hz, whole and > 0.
        new_freq: wanted rate, whole and > 0.
        resampling_method: "sinc_interp_hann" or "sinc_interp_kaiser".
        lowpass_filter_width: zero crossings of the sinc on each side.
        rolloff: cut-off frequency as a share of the lower rate's half, in (0, 1].
        beta: shape of Kaiser's window; about 14.77 by default.
        dtype: of the weights; float32 by default. Waveforms of another dtype keep theirs.

    Raises:
        ValueError: rates that are not positive, not whole, or another option is out of range.

    Attributes:
        kernel: the weights, a buffer: (new, 1, orig + 2 * width) with the rates reduced by their common divisor, as
            upstream stores it. Between rates without a large common divisor that table would take gigabytes: then it
            is (new, weights), without what is 0 anyway; or absent, and the weights are made at each call. There is
            none where the rates are equal.
    """

    kernel: Tensor

    def __init__(
        self,
        orig_freq: int = 16000,
        new_freq: int = 16000,
        resampling_method: str = "sinc_interp_hann",
        lowpass_filter_width: int = 6,
        rolloff: float = 0.99,
        beta: float | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.orig_freq = orig_freq
        self.new_freq = new_freq
        self.resampling_method = resampling_method
        self.lowpass_filter_width = lowpass_filter_width
        self.rolloff = rolloff
        self.beta = beta
        self._sinc = resampling.sinc_of(orig_freq, new_freq, lowpass_filter_width, rolloff, resampling_method, beta)
        self._has_kernel = self._sinc is not None and resampling.can_keep(self._sinc)
        if self._sinc is not None and self._has_kernel:
            self.register_buffer("kernel", resampling.kernel_of(self._sinc, dtype or torch.float32))

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time), floating point -> (..., ceil(time * new_freq / orig_freq))."""
        if self._sinc is None:
            return waveform
        if not self._has_kernel:
            return resampling.resample(
                waveform,
                self.orig_freq,
                self.new_freq,
                self.lowpass_filter_width,
                self.rolloff,
                self.resampling_method,
                self.beta,
            )
        return resampling.resample_with(waveform, resampling.taps_of(self.kernel, self._sinc), self._sinc)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if self._sinc is not None and self._has_kernel:
            resampling.reduce_in(state_dict, f"{prefix}kernel", self._sinc)
        super()._load_from_state_dict(state_dict, prefix, *args)


class Speed(nn.Module):
    """Play faster or slower, which moves pitch too.

    Args:
        orig_freq: sample rate in Hz.
        factor: > 1 is faster and shorter.

    Raises:
        ValueError: a number that is not positive.

    Attributes:
        resampler: a `Resample`.
    """

    def __init__(self, orig_freq: int, factor: float) -> None:
        super().__init__()
        self.orig_freq = orig_freq
        self.factor = factor
        self.source_sample_rate, self.target_sample_rate = speed_rates(orig_freq, factor)
        self.resampler = Resample(self.source_sample_rate, self.target_sample_rate)

    def forward(self, waveform: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(..., time) and (...) or None -> (..., time / factor), and the valid samples of each or None."""
        return self.resampler(waveform), speed_lengths(lengths, self.source_sample_rate, self.target_sample_rate)


class SpeedPerturbation(nn.Module):
    """Play at one of several speeds, chosen at random for the whole batch at each call (Ko et al. 2015).

    Args:
        orig_freq: sample rate in Hz.
        factors: speeds to choose from, for example [0.9, 1.1, 1.0, 1.0, 1.0].

    Raises:
        ValueError: no factors, or one that is not positive.

    Note:
        The result's length depends on the choice: compiled graphs break there.
    """

    def __init__(self, orig_freq: int, factors: Sequence[float]) -> None:
        super().__init__()
        if not factors:
            raise ValueError("SpeedPerturbation: factors is empty, expected one speed or more.")
        self.speeders = nn.ModuleList([Speed(orig_freq, factor) for factor in factors])

    def forward(self, waveform: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(..., time) and (...) or None -> likewise, played at the chosen speed."""
        choice = int(torch.randint(len(self.speeders), ()))
        result: tuple[Tensor, Tensor | None] = self.speeders[choice](waveform, lengths)
        return result

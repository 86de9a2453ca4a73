"""Voice activity detection: cut what comes before the first speech.

The detector is SoX's: at regular times it measures how strong the cepstrum is in the range of voices' pitch, after it
has taken away an estimate of the noise; speech begins where the smoothed measure passes a level.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["vad"]

# Measures that are taken together.
_CHUNK = 256
# A measure is this plus the logarithm of the cepstrum's power, at least 0.
_MEASURE_OFFSET = 21.0


def vad(
    waveform: Tensor,
    sample_rate: int,
    trigger_level: float = 7.0,
    trigger_time: float = 0.25,
    search_time: float = 1.0,
    allowed_gap: float = 0.25,
    pre_trigger_time: float = 0.0,
    boot_time: float = 0.35,
    noise_up_time: float = 0.1,
    noise_down_time: float = 0.01,
    noise_reduction_amount: float = 1.35,
    measure_freq: float = 20.0,
    measure_duration: float | None = None,
    measure_smooth_time: float = 0.4,
    hp_filter_freq: float = 50.0,
    lp_filter_freq: float = 6000.0,
    hp_lifter_freq: float = 150.0,
    lp_lifter_freq: float = 2000.0,
) -> Tensor:
    """Trim silence and background sound from the beginning; from the end of a reversed waveform likewise.

    Normalise the volume first: the level is absolute.

    Args:
        waveform: (time,) or (channel, time), in [-1, 1]; speech in any channel counts. Of more dimensions, with a
            warning, all rows are channels of one recording: what comes before the first speech of any is trimmed.
        sample_rate: Hz.
        trigger_level: measure that speech must reach; higher for noisy recordings.
        trigger_time: time constant of the smoothing, s, so that short bursts do not count.
        search_time: how far back from the trigger the begin of speech is looked for, s.
        allowed_gap: longest silence inside that search, s.
        pre_trigger_time: what is kept before the begin that was found, s.
        boot_time: first estimate of the noise, s.
        noise_up_time: time constant of the noise estimate where it rises, s.
        noise_down_time: where it falls, s.
        noise_reduction_amount: how much of the estimate is taken away.
        measure_freq: measures per second, Hz.
        measure_duration: window of a measure, s; None means twice its period.
        measure_smooth_time: time constant of the smoothing of spectra, s.
        hp_filter_freq: lowest frequency that is looked at, Hz.
        lp_filter_freq: highest, Hz.
        hp_lifter_freq: lowest pitch that is looked at, Hz.
        lp_lifter_freq: highest, Hz.

    Returns:
        Same dtype and channels; time is what remains, 0 when no speech was found.

    Raises:
        ValueError: a waveform without dimensions, or no pitch between both lifter frequencies.
    """
    if waveform.ndim < 1:
        raise ValueError("vad: waveform has no dimensions, expected (time,) or (channel, time).")
    if waveform.ndim > 2:
        warnings.warn(
            f"vad: waveform has shape {tuple(waveform.shape)}, expected (time,) or (channel, time); all rows are taken "
            "for channels of one recording. What remains of several recordings has several lengths: call it for each.",
            stacklevel=2,
        )
    duration = 2.0 / measure_freq if measure_duration is None else measure_duration
    period = int(sample_rate / measure_freq + 0.5)
    detector = _Detector(
        sample_rate=sample_rate,
        window=int(sample_rate * duration + 0.5),
        period=period,
        bands=(hp_filter_freq, lp_filter_freq),
        lifters=(hp_lifter_freq, lp_lifter_freq),
        smoothing=_decay(measure_smooth_time, measure_freq),
        noise_up=_decay(noise_up_time, measure_freq),
        noise_down=_decay(noise_down_time, measure_freq),
        noise_reduction=noise_reduction_amount,
        boot=int(boot_time * measure_freq - 0.5),
    )
    search, gap = math.ceil(search_time * measure_freq), int(allowed_gap * measure_freq + 0.5)
    rows = waveform.detach().reshape(math.prod(waveform.shape[:-1]), waveform.shape[-1])
    rows = rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
    if rows.shape[0] == 0:  # torch's transforms take no empty batch
        rows = rows.new_zeros(1, rows.shape[-1])
    found = _trigger(detector.measures(rows), trigger_level, _decay(trigger_time, measure_freq), search)
    if found is None:
        return waveform[..., :0]
    index, recent = found
    back = max(_begin(channel, trigger_level, gap) for channel in recent)
    position = detector.window + index * period
    begin = position - detector.window - back * period - int(pre_trigger_time * sample_rate + 0.5)
    return waveform[..., max(begin, 0) :]


def _decay(time: float, frequency: float) -> float:
    return math.exp(-1.0 / (time * frequency))


def _trigger(
    measures: Iterator[list[float]], level: float, smoothing: float, search: int
) -> tuple[int, list[list[float]]] | None:
    """Index of the measure that triggers, and the last `search` measures of the channels that did, newest first."""
    history: list[list[float]] = []
    means: list[float] = []
    for index, current in enumerate(measures):
        means = means or [0.0] * len(current)
        means = [mean * smoothing + value * (1 - smoothing) for mean, value in zip(means, current, strict=True)]
        history = [current, *history[: search - 1]]
        # Upstream: once a channel has triggered, those after it are searched as well.
        first = next((i for i, mean in enumerate(means) if mean >= level), None)
        if first is not None:
            # Before the first measure all measures are 0.
            padded = history + [[0.0] * len(current)] * (search - len(history))
            return index, [[row[i] for row in padded] for i in range(first, len(current))]
    return None


def _begin(measures: list[float], level: float, gap: int) -> int:
    """How many measures back, from the newest on, speech began."""
    spoken = silent = last = len(measures)
    for back, value in enumerate(measures):
        last = back
        if value >= level and back <= spoken + gap:
            spoken = silent = back
        elif value == 0 and spoken >= silent:
            silent = back
    return min(last, silent)


@dataclass(frozen=True)
class _Detector:
    """How measures are taken; lengths in samples, time constants as factors per measure."""

    sample_rate: int
    window: int
    period: int
    bands: tuple[float, float]
    lifters: tuple[float, float]
    smoothing: float
    noise_up: float
    noise_down: float
    noise_reduction: float
    boot: int

    def measures(self, rows: Tensor) -> Iterator[list[float]]:
        """For each time the measures of all channels, one after the other."""
        size = max(16, 1 << (self.window - 1).bit_length())
        first = max(int(self.bands[0] / self.sample_rate * size + 0.5), 1)
        end = min(int(self.bands[1] / self.sample_rate * size + 0.5), size // 2)
        begin_lifter = math.ceil(self.sample_rate * 0.5 / self.lifters[1])
        end_lifter = min(math.floor(self.sample_rate * 0.5 / self.lifters[0]), size // 4)
        if end_lifter <= begin_lifter or end <= first:
            raise ValueError(
                f"vad: no pitch lies between hp_lifter_freq={self.lifters[0]} and lp_lifter_freq={self.lifters[1]} Hz "
                f"at {self.sample_rate} Hz with these filters; move them apart."
            )
        window, cepstrum_window = (_window(count, rows) for count in (self.window, end - first))
        tracker = _Tracker(self)
        if rows.shape[-1] <= self.window:
            return
        frames = rows[:, : rows.shape[-1] - 1].unfold(-1, self.window, self.period)
        for some in frames.split(_CHUNK, dim=1):
            spectra = torch.fft.rfft(some * window, n=size)[..., first:end].abs()
            clean = torch.stack([tracker.clean(spectrum) for spectrum in spectra.unbind(1)], dim=1)
            padded = torch.nn.functional.pad(clean * cepstrum_window, (first, 0))
            cepstra = torch.fft.rfft(padded, n=size // 2)[..., begin_lifter:end_lifter]
            power = (cepstra.real.square() + cepstra.imag.square()).mean(-1)
            yield from (_MEASURE_OFFSET + power.log()).clamp(min=0).mT.tolist()


class _Tracker:
    """The smoothed spectrum and the noise, (channel, bands), from one measure to the next."""

    def __init__(self, detector: _Detector) -> None:
        self.detector = detector
        self.count = 0
        self.spectrum: Tensor | float = 0.0
        self.noise: Tensor | float = 0.0

    def clean(self, spectrum: Tensor) -> Tensor:
        """The spectrum's amplitudes without the noise."""
        given, booting = self.detector, self.count <= self.detector.boot
        keep = self.count / (1.0 + self.count) if booting else given.smoothing
        self.spectrum = self.spectrum * keep + spectrum * (1 - keep)
        power = self.spectrum.square()
        if booting:
            self.noise = power
        else:
            factor = torch.where(power > self.noise, given.noise_up, given.noise_down)
            self.noise = self.noise * factor + power * (1 - factor)
        self.count += 1
        return (power - given.noise_reduction * self.noise).clamp(min=0).sqrt()


def _window(count: int, like: Tensor) -> Tensor:
    return torch.hann_window(count, dtype=like.dtype, device=like.device) * (2.0 / math.sqrt(count))

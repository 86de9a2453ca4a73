"""Spectrograms, filter banks and cepstra with Kaldi's options and numbers, for whole batches.

Kaldi's waveforms are in the range of 16-bit integers: multiply one in [-1, 1] by 2**15 for features that agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from flambeau.audio.compliance._frames import (
    FrameOptions,
    extended,
    frames,
    log_energy,
    logarithms,
    select,
    window,
)
from flambeau.audio.compliance._mel import (
    get_mel_banks,
    inverse_mel_scale,
    inverse_mel_scale_scalar,
    mel_scale,
    mel_scale_scalar,
    vtln_warp_freq,
    vtln_warp_mel_freq,
)
from flambeau.audio.functional import _spectra

__all__ = [
    "fbank",
    "get_mel_banks",
    "inverse_mel_scale",
    "inverse_mel_scale_scalar",
    "mel_scale",
    "mel_scale_scalar",
    "mfcc",
    "spectrogram",
    "vtln_warp_freq",
    "vtln_warp_mel_freq",
]


def spectrogram(
    waveform: Tensor,
    blackman_coeff: float = 0.42,
    channel: int = -1,
    dither: float = 0.0,
    energy_floor: float = 1.0,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    min_duration: float = 0.0,
    preemphasis_coefficient: float = 0.97,
    raw_energy: bool = True,
    remove_dc_offset: bool = True,
    round_to_power_of_two: bool = True,
    sample_frequency: float = 16000.0,
    snip_edges: bool = True,
    subtract_mean: bool = False,
    window_type: str = "povey",
) -> Tensor:
    """Logarithms of power spectra, the frame's energy in place of frequency 0.

    Args:
        waveform: (..., channel, time).
        blackman_coeff: of the Blackman window.
        channel: which; -1 means the first.
        dither: standard deviation of noise that is added. Upstream: none by default, Kaldi adds 1.
        energy_floor: lowest energy; 0 means none.
        frame_length: ms.
        frame_shift: ms.
        min_duration: s; shorter waveforms give no frames.
        preemphasis_coefficient: how much of the sample before is taken away, 0 to 1.
        raw_energy: take energies before pre-emphasis and window.
        remove_dc_offset: take each frame's mean away.
        round_to_power_of_two: pad frames with zeros to a power of two.
        sample_frequency: Hz.
        snip_edges: only frames that lie inside the waveform; else time / shift frames, with reflected ends.
        subtract_mean: take the mean over all frames away.
        window_type: "hanning", "hamming", "povey", "rectangular" or "blackman".

    Returns:
        (..., frames, padded frame / 2 + 1); differentiable.

    Raises:
        ValueError: an option outside its range, or a waveform shorter than a frame.

    References:
        Povey et al. 2011, "The Kaldi Speech Recognition Toolkit".
    """
    options = FrameOptions(
        blackman_coeff, channel, dither, energy_floor, frame_length, frame_shift, min_duration,
        preemphasis_coefficient, raw_energy, remove_dc_offset, round_to_power_of_two, sample_frequency, snip_edges,
        window_type,
    )  # fmt: skip
    found = _features("spectrogram", waveform, options, None, False)
    if found is None:
        return waveform.new_empty(0)
    power, energy, in_place = found
    level, energy = logarithms(power, in_place), log_energy(energy, options, in_place)
    if in_place:
        level.select(-1, 0).copy_(energy)
    else:
        level = torch.cat([energy.unsqueeze(-1), level[..., 1:]], dim=-1)
    return _without_mean(level, subtract_mean)


def fbank(
    waveform: Tensor,
    blackman_coeff: float = 0.42,
    channel: int = -1,
    dither: float = 0.0,
    energy_floor: float = 1.0,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    high_freq: float = 0.0,
    htk_compat: bool = False,
    low_freq: float = 20.0,
    min_duration: float = 0.0,
    num_mel_bins: int = 23,
    preemphasis_coefficient: float = 0.97,
    raw_energy: bool = True,
    remove_dc_offset: bool = True,
    round_to_power_of_two: bool = True,
    sample_frequency: float = 16000.0,
    snip_edges: bool = True,
    subtract_mean: bool = False,
    use_energy: bool = False,
    use_log_fbank: bool = True,
    use_power: bool = True,
    vtln_high: float = -500.0,
    vtln_low: float = 100.0,
    vtln_warp: float = 1.0,
    window_type: str = "povey",
) -> Tensor:
    """Energies in triangular filters on the mel scale.

    Args:
        waveform: (..., channel, time).
        blackman_coeff: of the Blackman window.
        channel: which; -1 means the first.
        dither: standard deviation of noise that is added.
        energy_floor: lowest energy of `use_energy`; 0 means none.
        frame_length: ms.
        frame_shift: ms.
        high_freq: where the last filter ends, Hz; 0 or below counts from half the sample rate.
        htk_compat: put the energy last, as HTK does.
        low_freq: where the first filter begins, Hz.
        min_duration: s; shorter waveforms give no frames.
        num_mel_bins: filters, more than 3.
        preemphasis_coefficient: how much of the sample before is taken away, 0 to 1.
        raw_energy: take energies before pre-emphasis and window.
        remove_dc_offset: take each frame's mean away.
        round_to_power_of_two: pad frames with zeros to a power of two.
        sample_frequency: Hz.
        snip_edges: only frames that lie inside the waveform.
        subtract_mean: take the mean over all frames away.
        use_energy: add the logarithm of the frame's energy.
        use_log_fbank: take logarithms.
        use_power: filter power, else magnitude.
        vtln_high: upper cutoff of the warping, Hz; below 0 counts from half the sample rate.
        vtln_low: lower cutoff, Hz.
        vtln_warp: factor of the warping; 1 means none.
        window_type: "hanning", "hamming", "povey", "rectangular" or "blackman".

    Returns:
        (..., frames, num_mel_bins), with the energy one more; differentiable.

    Raises:
        ValueError: an option outside its range, or a waveform shorter than a frame.
    """
    options = FrameOptions(
        blackman_coeff, channel, dither, energy_floor, frame_length, frame_shift, min_duration,
        preemphasis_coefficient, raw_energy, remove_dc_offset, round_to_power_of_two, sample_frequency, snip_edges,
        window_type,
    )  # fmt: skip
    bank = (num_mel_bins, low_freq, high_freq, vtln_low, vtln_high, vtln_warp)
    found = _features("fbank", waveform, options, bank, not use_power)
    if found is None:
        return waveform.new_empty(0)
    energies, energy, in_place = found
    if use_log_fbank:
        energies = logarithms(energies, in_place)
    if use_energy:
        parts = (energies, log_energy(energy, options, in_place).unsqueeze(-1))
        energies = torch.cat(parts if htk_compat else parts[::-1], dim=-1)
    return _without_mean(energies, subtract_mean)


def mfcc(
    waveform: Tensor,
    blackman_coeff: float = 0.42,
    cepstral_lifter: float = 22.0,
    channel: int = -1,
    dither: float = 0.0,
    energy_floor: float = 1.0,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    high_freq: float = 0.0,
    htk_compat: bool = False,
    low_freq: float = 20.0,
    num_ceps: int = 13,
    min_duration: float = 0.0,
    num_mel_bins: int = 23,
    preemphasis_coefficient: float = 0.97,
    raw_energy: bool = True,
    remove_dc_offset: bool = True,
    round_to_power_of_two: bool = True,
    sample_frequency: float = 16000.0,
    snip_edges: bool = True,
    subtract_mean: bool = False,
    use_energy: bool = False,
    vtln_high: float = -500.0,
    vtln_low: float = 100.0,
    vtln_warp: float = 1.0,
    window_type: str = "povey",
) -> Tensor:
    """Cepstra of the logarithmic filter bank.

    Args:
        waveform: (..., channel, time).
        blackman_coeff: of the Blackman window.
        cepstral_lifter: period of the sine that raises higher cepstra; 0 means none.
        channel: which; -1 means the first.
        dither: standard deviation of noise that is added.
        energy_floor: lowest energy of `use_energy`; 0 means none.
        frame_length: ms.
        frame_shift: ms.
        high_freq: where the last filter ends, Hz; 0 or below counts from half the sample rate.
        htk_compat: put the first cepstrum last, scaled by the square root of 2 unless it is the energy.
        low_freq: where the first filter begins, Hz.
        num_ceps: cepstra, at most `num_mel_bins`.
        min_duration: s; shorter waveforms give no frames.
        num_mel_bins: filters, more than 3.
        preemphasis_coefficient: how much of the sample before is taken away, 0 to 1.
        raw_energy: take energies before pre-emphasis and window.
        remove_dc_offset: take each frame's mean away.
        round_to_power_of_two: pad frames with zeros to a power of two.
        sample_frequency: Hz.
        snip_edges: only frames that lie inside the waveform.
        subtract_mean: take the mean over all frames away.
        use_energy: put the logarithm of the frame's energy in place of the first cepstrum.
        vtln_high: upper cutoff of the warping, Hz; below 0 counts from half the sample rate.
        vtln_low: lower cutoff, Hz.
        vtln_warp: factor of the warping; 1 means none.
        window_type: "hanning", "hamming", "povey", "rectangular" or "blackman".

    Returns:
        (..., frames, num_ceps); differentiable.

    Raises:
        ValueError: an option outside its range, or a waveform shorter than a frame.
    """
    if num_ceps > num_mel_bins:
        raise ValueError(f"mfcc: num_ceps is {num_ceps}, expected at most num_mel_bins, {num_mel_bins}.")
    options = FrameOptions(
        blackman_coeff, channel, dither, energy_floor, frame_length, frame_shift, min_duration,
        preemphasis_coefficient, raw_energy, remove_dc_offset, round_to_power_of_two, sample_frequency, snip_edges,
        window_type,
    )  # fmt: skip
    bank = (num_mel_bins, low_freq, high_freq, vtln_low, vtln_high, vtln_warp)
    found = _features("mfcc", waveform, options, bank, False)
    if found is None:
        return waveform.new_empty(0)
    energies, energy, in_place = found
    cepstra = logarithms(energies, in_place) @ _cosines(num_ceps, num_mel_bins, cepstral_lifter, energies)
    if use_energy or htk_compat:
        first, rest = cepstra[..., :1], cepstra[..., 1:]
        first = log_energy(energy, options, in_place).unsqueeze(-1) if use_energy else first * math.sqrt(2)
        cepstra = torch.cat([rest, first] if htk_compat else [first, rest], dim=-1)
    return _without_mean(cepstra, subtract_mean)


def _features(
    name: str, waveform: Tensor, options: FrameOptions, bank: _Bank | None, root: bool
) -> tuple[Tensor, Tensor, bool] | None:
    """Power spectra, or magnitudes, under the filters of `bank`: (..., frames, bands); energies, (..., frames).

    Third, whether both may be changed in place. None of a waveform that is shorter than `min_duration`.
    """
    samples = select(name, waveform, options)
    if samples.shape[-1] < options.min_duration * options.sample_frequency:
        return None
    source, count = extended(samples, options)
    banks = None if bank is None else _banks(bank, options, samples)
    if options.dither == 0.0 and count >= 1 and _spectra.served(source) and _spectra.transformable(options.padded):
        rows = source.reshape(-1, source.shape[-1])
        if not options.snip_edges:  # what lies behind the last frame would give more of them
            rows = rows[:, : (count - 1) * options.shift + options.size]
        how = _spectra.KaldiFrames(
            options.padded, options.shift, options.preemphasis_coefficient, options.remove_dc_offset,
            options.raw_energy, root,
        )  # fmt: skip
        features, energy = _spectra.kaldi_spectra(rows, _window(options, rows), banks, how)
        leading = samples.shape[:-1]
        if len(leading) != 1:
            features, energy = features.reshape(*leading, *features.shape[1:]), energy.reshape(*leading, count)
        return features, energy, True
    cut, energy = frames(samples, options)
    spectrum = torch.fft.rfft(cut, n=options.padded)
    power = spectrum.real.square() + spectrum.imag.square()
    power = power.sqrt() if root else power
    # The highest frequency belongs to no filter.
    return (power if banks is None else power[..., :-1] @ banks), energy, False


def _without_mean(features: Tensor, subtract: bool) -> Tensor:
    return features - features.mean(-2, keepdim=True) if subtract else features


# num_mel_bins, low_freq, high_freq, vtln_low, vtln_high, vtln_warp
_Bank = tuple[int, float, float, float, float, float]
_known: dict[Hashable, Tensor] = {}


def _banks(bank: _Bank, options: FrameOptions, like: Tensor) -> Tensor:
    """Filters (frequencies, num_mel_bins)."""
    whole = (bank[0], options.padded, options.sample_frequency, *bank[1:])
    return _kept(("banks", *whole), like, lambda: get_mel_banks(*whole)[0].mT.to(like.device, like.dtype).contiguous())


def _window(options: FrameOptions, like: Tensor) -> Tensor:
    """(size,)."""
    key = ("window", options.window_type, options.size, options.blackman_coeff)
    return _kept(key, like, lambda: window(options, like))


def _kept(key: tuple[Hashable, ...], like: Tensor, make: Callable[[], Tensor]) -> Tensor:
    """What depends on options alone; the last few are kept: for short waveforms they cost more than all else."""
    if torch.compiler.is_compiling():
        return make()
    key = (*key, like.dtype, like.device)
    if key not in _known:
        while len(_known) >= 16:
            _known.pop(next(iter(_known)))
        with torch.inference_mode(False):  # what is kept must also serve where gradients are wanted
            _known[key] = make()
    return _known[key]


def _cosines(num_ceps: int, num_mel_bins: int, lifter: float, like: Tensor) -> Tensor:
    """The orthonormal cosine transform with each cepstrum raised by the lifter, (num_mel_bins, num_ceps)."""
    key = ("cosines", num_ceps, num_mel_bins, lifter)
    return _kept(key, like, lambda: _lifted_cosines(num_ceps, num_mel_bins, lifter, like))


def _lifted_cosines(num_ceps: int, num_mel_bins: int, lifter: float, like: Tensor) -> Tensor:
    places = torch.arange(num_mel_bins, dtype=torch.float64, device=like.device)[:, None] + 0.5
    orders = torch.arange(num_ceps, dtype=torch.float64, device=like.device)
    cosines = torch.cos(math.pi / num_mel_bins * places * orders) * math.sqrt(2.0 / num_mel_bins)
    first = torch.full_like(cosines[:, :1], math.sqrt(1.0 / num_mel_bins))
    cosines = torch.cat([first, cosines[:, 1:]], dim=1)
    if lifter != 0.0:
        cosines = cosines * (1.0 + 0.5 * lifter * torch.sin(math.pi * orders / lifter))
    return cosines.to(like.dtype)

"""The pitch of a voice over time, by the normalised cross-correlation of short frames; `native/nccf.cpp`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY, kernel
from flambeau.core.native import register_op

__all__ = ["detect_pitch_frequency"]

_EPSILON = 1e-9
# A peak at half the lag, an octave above, is preferred when it is nearly as high.
_OCTAVE_PREFERENCE = 0.99


def detect_pitch_frequency(
    waveform: Tensor,
    sample_rate: int,
    frame_time: float = 0.01,
    win_length: int = 30,
    freq_low: int = 85,
    freq_high: int = 3400,
) -> Tensor:
    """Estimate the pitch in each frame, smoothed by a median.

    Args:
        waveform: (..., time), float32 or float64.
        sample_rate: Hz.
        frame_time: length of a frame, s; frames do not overlap.
        win_length: frames that the median is taken over.
        freq_low: lowest pitch that is looked for, Hz, > 0.
        freq_high: highest, Hz.

    Returns:
        (..., frames), Hz; frames is about time / (sample_rate * frame_time) - win_length / 2. No gradient.

    Raises:
        ValueError: a waveform without dimensions, no lag lies between both frequencies, or the waveform has fewer
            frames than half the median needs.

    References:
        Talkin 1995, "A Robust Algorithm for Pitch Tracking (RAPT)", section 3.
    """
    if waveform.ndim < 1:
        raise ValueError("detect_pitch_frequency: waveform has no dimensions, expected (..., time).")
    lags, frame = math.ceil(sample_rate / freq_low), math.ceil(sample_rate * frame_time)
    least = math.ceil(sample_rate / freq_high)
    if least >= lags // 2:
        raise ValueError(
            f"detect_pitch_frequency: lags from {least} to {lags} samples at {sample_rate} Hz are too few; lower "
            f"freq_low ({freq_low}) or raise freq_high ({freq_high})."
        )
    frames = -(-waveform.shape[-1] // frame)
    if frames + (win_length - 1) // 2 < win_length:
        raise ValueError(
            f"detect_pitch_frequency: {frames} frames are too few for a median of {win_length}; shorten win_length."
        )
    rows = waveform.detach().reshape(math.prod(waveform.shape[:-1]), waveform.shape[-1])
    rows = rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
    correlation = torch.ops.flambeau_audio.nccf(rows, frame, lags)
    lag = _median(_best_lag(correlation, least), win_length)
    frequency = sample_rate / (_EPSILON + lag.to(torch.float32))
    return frequency.reshape(*waveform.shape[:-1], frequency.shape[-1])


def _best_lag(correlation: Tensor, least: int) -> Tensor:
    """Lag of the highest correlation of each frame, (..., frames), from (..., frames, lags)."""
    best, place = correlation[..., least:].max(-1)
    half, half_place = correlation[..., least : correlation.shape[-1] // 2].max(-1)
    return torch.where(half > _OCTAVE_PREFERENCE * best, half_place, place) + least + 1


def _median(lags: Tensor, length: int) -> Tensor:
    # Upstream: what lies before the first frame is the first frame after the padding.
    before = (length - 1) // 2
    padded = torch.cat([lags[..., :1].expand(*lags.shape[:-1], before), lags], dim=-1)
    return padded.unfold(-1, length, 1).median(-1).values


def _check(waveform: Tensor, frame: int, lags: int) -> None:
    """The same sentences as in native/nccf.cpp."""
    if waveform.dim() != 2:
        raise RuntimeError(f"nccf: waveform has shape {tuple(waveform.shape)}, expected (rows, time).")
    if waveform.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"nccf: waveform has dtype {waveform.dtype}, expected float32 or float64; convert it.")
    if frame < 1 or lags < 1:
        raise RuntimeError(f"nccf: frame is {frame} and lags is {lags}, expected numbers above 0.")


def _fake(waveform: Tensor, frame: int, lags: int) -> Tensor:
    _check(waveform, frame, lags)
    return waveform.new_empty(waveform.shape[0], -(-waveform.shape[1] // frame), lags)


def _reference(waveform: Tensor, frame: int, lags: int) -> Tensor:
    _check(waveform, frame, lags)
    frames = -(-waveform.shape[1] // frame)
    padded = torch.nn.functional.pad(waveform, (0, frames * frame + lags - waveform.shape[1]))
    here = padded[:, : frames * frame].view(-1, frames, frame)
    here_norm = (_EPSILON + here.square().sum(-1).sqrt()).square()
    columns = []
    for lag in range(1, lags + 1):
        there = padded[:, lag : lag + frames * frame].reshape(-1, frames, frame)
        there_norm = (_EPSILON + there.square().sum(-1).sqrt()).square()
        columns.append((here * there).sum(-1) / here_norm / there_norm)
    return torch.stack(columns, -1)


def _native(waveform: Tensor, frame: int, lags: int) -> Tensor:
    result = _fake(waveform, frame, lags)
    x = waveform.contiguous()
    suffix = "f32" if x.dtype == torch.float32 else "f64"
    kernel(f"fb_nccf_{suffix}", "ppnnnnt")(
        x.data_ptr(), result.data_ptr(), *x.shape, frame, lags, torch.get_num_threads()
    )
    return result


register_op(
    "nccf(Tensor waveform, SymInt frame, SymInt lags) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
)

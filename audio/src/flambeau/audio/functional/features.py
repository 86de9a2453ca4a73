"""What is computed from features over time: their slopes, and their normalization in a sliding window."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["compute_deltas", "sliding_window_cmn"]


def compute_deltas(specgram: Tensor, win_length: int = 5, mode: str = "replicate") -> Tensor:
    """Compute the slope of each coefficient over time, by linear regression in a window.

    ::

        d[t] = sum(n * (c[t + n] - c[t - n]) for n in 1..N) / (2 * sum(n * n for n in 1..N)),  N = (win_length - 1) // 2

    Args:
        specgram: (..., time), usually (..., freq, time).
        win_length: samples of the window, >= 3.
        mode: how the ends are extended: "replicate", "constant" (zeros), "reflect" or "circular".

    Returns:
        Like `specgram`.

    Raises:
        ValueError: `win_length` is below 3.
    """
    if win_length < 3:
        raise ValueError(f"compute_deltas: win_length is {win_length}, expected at least 3.")
    reach, time = (win_length - 1) // 2, specgram.shape[-1]
    flat = specgram.reshape(-1, 1, time)
    extended = torch.nn.functional.pad(flat, (reach, reach), mode=mode)
    total = reach * (reach + 1) * (2 * reach + 1) / 3
    slope = (extended.narrow(-1, reach + 1, time) - extended.narrow(-1, reach - 1, time)) / total
    for n in range(2, reach + 1):
        slope = torch.add(slope, extended.narrow(-1, reach + n, time), alpha=n / total)
        slope = torch.sub(slope, extended.narrow(-1, reach - n, time), alpha=n / total)
    return slope.reshape(specgram.shape)


def sliding_window_cmn(
    specgram: Tensor,
    cmn_window: int = 600,
    min_cmn_window: int = 100,
    center: bool = False,
    norm_vars: bool = False,
) -> Tensor:
    """Subtract from each frame the mean of the frames round it, and divide by their standard deviation if wanted.

    The conventions are Kaldi's: near the ends the window keeps its length and moves inwards.

    Args:
        specgram: (..., time, freq).
        cmn_window: frames of the window.
        min_cmn_window: least frames at the start; only without `center`.
        center: the window lies round the frame, else it ends with it.
        norm_vars: also divide by the standard deviation. A window of one frame gives 0.

    Returns:
        Like `specgram`.

    Raises:
        ValueError: fewer than two dimensions.
    """
    if specgram.dim() < 2:
        raise ValueError(
            f"sliding_window_cmn: specgram has shape {tuple(specgram.shape)}, expected (..., time, freq) with at least "
            "two dimensions."
        )
    frames = specgram.shape[-2]
    start, end = _windows(frames, cmn_window, min_cmn_window, center, specgram.device)
    count = (end - start).unsqueeze(-1)
    mean = _window_sums(specgram, start, end) / count
    if not specgram.is_floating_point():
        # Integers are cut off after all is computed, as upstream does, not before.
        return sliding_window_cmn(specgram.double(), cmn_window, min_cmn_window, center, norm_vars).to(specgram.dtype)
    normalized = specgram - mean.to(specgram.dtype)
    if not norm_vars:
        return normalized
    variance = _window_sums(specgram.square(), start, end) / count - mean.square()
    scaled = normalized * variance.clamp(min=1e-20).rsqrt().to(specgram.dtype)
    return torch.where(count == 1, torch.zeros_like(scaled), scaled)


def _windows(
    frames: int, length: int, least: int, center: bool, device: torch.device
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """First frame and the one after the last of each frame's window; (frames,) int64 both."""
    t = torch.arange(frames, device=device)
    if center:
        start = (t - length // 2).clamp(min=0)
        end = start + length
    else:
        start = (t - length).clamp(min=0)
        end = (t + 1).clamp(min=least)
    start = (start - (end - frames).clamp(min=0)).clamp(min=0)
    return start, end.clamp(max=frames)


def _window_sums(values: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Sums of values[..., start[t]:end[t], :], from differences of running sums; those in float64."""
    running = torch.nn.functional.pad(values.to(torch.float64).cumsum(-2), (0, 0, 1, 0))
    return running.index_select(-2, end) - running.index_select(-2, start)

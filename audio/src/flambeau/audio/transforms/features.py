"""Modules over features in time: their slopes, and their normalization in a sliding window."""

from __future__ import annotations

from torch import Tensor, nn

from flambeau.audio.functional.features import compute_deltas, sliding_window_cmn

__all__ = ["ComputeDeltas", "SlidingWindowCmn"]


class ComputeDeltas(nn.Module):
    """Compute the slope of each coefficient over time.

    Args:
        win_length: samples of the window, >= 3.
        mode: how the ends are extended, one of `torch.nn.functional.pad`.
    """

    def __init__(self, win_length: int = 5, mode: str = "replicate") -> None:
        super().__init__()
        self.win_length = win_length
        self.mode = mode

    def forward(self, specgram: Tensor) -> Tensor:
        """(..., time) -> likewise."""
        return compute_deltas(specgram, self.win_length, self.mode)


class SlidingWindowCmn(nn.Module):
    """Subtract from each frame the mean of the frames round it.

    Args:
        cmn_window: frames of the window.
        min_cmn_window: least frames at the start; only without `center`.
        center: the window lies round the frame, else it ends with it.
        norm_vars: also divide by the standard deviation.
    """

    def __init__(
        self, cmn_window: int = 600, min_cmn_window: int = 100, center: bool = False, norm_vars: bool = False
    ) -> None:
        super().__init__()
        self.cmn_window = cmn_window
        self.min_cmn_window = min_cmn_window
        self.center = center
        self.norm_vars = norm_vars

    def forward(self, specgram: Tensor) -> Tensor:
        """(..., time, freq) -> likewise."""
        return sliding_window_cmn(specgram, self.cmn_window, self.min_cmn_window, self.center, self.norm_vars)

"""Modules that mask spectrograms, for training that is robust to gaps (Park et al. 2019, arXiv:1904.08779)."""

from __future__ import annotations

from torch import Tensor, nn

from flambeau.audio.functional.masking import mask_along_axis, mask_along_axis_iid

__all__ = ["FrequencyMasking", "SpecAugment", "TimeMasking"]


class _AxisMasking(nn.Module):
    def __init__(self, mask_param: int, axis: int, iid_masks: bool, p: float = 1.0) -> None:
        super().__init__()
        self.mask_param = mask_param
        self.axis = axis
        self.iid_masks = iid_masks
        self.p = p

    def forward(self, specgram: Tensor, mask_value: float = 0.0) -> Tensor:
        """(..., freq, time) -> likewise; `mask_value` is written into the mask."""
        mask = mask_along_axis_iid if self.iid_masks else mask_along_axis
        return mask(specgram, self.mask_param, mask_value, self.axis - 3 + specgram.dim(), self.p)


class FrequencyMasking(_AxisMasking):
    """Mask a random stretch of frequencies.

    Args:
        freq_mask_param: what the stretch's length is below.
        iid_masks: another stretch in each example and channel; needs at least three dimensions.
    """

    def __init__(self, freq_mask_param: int, iid_masks: bool = False) -> None:
        super().__init__(freq_mask_param, 1, iid_masks)


class TimeMasking(_AxisMasking):
    """Mask a random stretch of frames.

    Args:
        time_mask_param: what the stretch's length is below.
        iid_masks: another stretch in each example and channel; needs at least three dimensions.
        p: share of the frames that may be masked at most.

    Raises:
        ValueError: `p` is outside of [0, 1].
    """

    def __init__(self, time_mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"TimeMasking: p is {p}, expected a share in [0, 1].")
        super().__init__(time_mask_param, 2, iid_masks, p)


class SpecAugment(nn.Module):
    """Mask several stretches of frames and of frequencies.

    Args:
        n_time_masks: stretches of frames.
        time_mask_param: what their lengths are below.
        n_freq_masks: stretches of frequencies.
        freq_mask_param: what their lengths are below.
        iid_masks: other stretches in each example and channel, where there are at least three dimensions.
        p: share of an axis that one stretch may mask at most.
        zero_masking: write 0, else the spectrogram's mean.
    """

    def __init__(
        self,
        n_time_masks: int,
        time_mask_param: int,
        n_freq_masks: int,
        freq_mask_param: int,
        iid_masks: bool = True,
        p: float = 1.0,
        zero_masking: bool = False,
    ) -> None:
        super().__init__()
        self.n_time_masks = n_time_masks
        self.time_mask_param = time_mask_param
        self.n_freq_masks = n_freq_masks
        self.freq_mask_param = freq_mask_param
        self.iid_masks = iid_masks
        self.p = p
        self.zero_masking = zero_masking

    def forward(self, specgram: Tensor) -> Tensor:
        """(..., freq, time) -> likewise."""
        value = 0.0 if self.zero_masking else specgram.mean()
        mask = mask_along_axis_iid if self.iid_masks and specgram.dim() > 2 else mask_along_axis
        for _ in range(self.n_time_masks):
            specgram = mask(specgram, self.time_mask_param, value, specgram.dim() - 1, self.p)
        for _ in range(self.n_freq_masks):
            specgram = mask(specgram, self.freq_mask_param, value, specgram.dim() - 2, self.p)
        return specgram

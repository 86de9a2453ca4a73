"""Masks over spectrograms, for training that is robust to gaps (Park et al. 2019, arXiv:1904.08779)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["mask_along_axis", "mask_along_axis_iid"]


def mask_along_axis(specgram: Tensor, mask_param: int, mask_value: float | Tensor, axis: int, p: float = 1.0) -> Tensor:
    """Overwrite a random stretch of frequencies or frames, the same in all examples and channels.

    The stretch's length is drawn from [0, mask_param), its start from [0, size - length).

    Args:
        specgram: (..., freq, time).
        mask_param: what lengths are below.
        mask_value: what is written.
        axis: dim - 2 for frequencies, dim - 1 for frames; counted from the start, or negative.
        p: share of the axis that may be masked at most, in [0, 1].

    Returns:
        Like `specgram`; the input itself where nothing may be masked.

    Raises:
        ValueError: fewer than two dimensions, `axis` is another one, or `p` outside of [0, 1].
    """
    if specgram.dim() < 2:
        raise ValueError(
            f"mask_along_axis: specgram has shape {tuple(specgram.shape)}, expected (..., freq, time) with at least "
            "two dimensions."
        )
    return _mask("mask_along_axis", specgram, mask_param, mask_value, axis, p, ())


def mask_along_axis_iid(
    specgrams: Tensor, mask_param: int, mask_value: float | Tensor, axis: int, p: float = 1.0
) -> Tensor:
    """Overwrite a random stretch of frequencies or frames, another one in each example and channel.

    Args:
        specgrams: (..., freq, time), at least three dimensions.
        mask_param: as for `mask_along_axis`.
        mask_value: as for `mask_along_axis`.
        axis: as for `mask_along_axis`.
        p: as for `mask_along_axis`.

    Returns:
        Like `specgrams`; the input itself where nothing may be masked.

    Raises:
        ValueError: fewer than three dimensions, `axis` is another one, or `p` outside of [0, 1].
    """
    if specgrams.dim() < 3:
        raise ValueError(
            f"mask_along_axis_iid: specgrams has shape {tuple(specgrams.shape)}, expected (..., freq, time) with at "
            "least three dimensions; for one spectrogram there is `mask_along_axis`."
        )
    return _mask("mask_along_axis_iid", specgrams, mask_param, mask_value, axis, p, specgrams.shape[:-2])


def _mask(
    name: str,
    specgram: Tensor,
    mask_param: int,
    mask_value: float | Tensor,
    axis: int,
    p: float,
    draws: tuple[int, ...],
) -> Tensor:
    dims = specgram.dim()
    if axis not in (dims - 2, dims - 1, -2, -1):
        raise ValueError(f"{name}: axis is {axis}, expected {dims - 2} (frequencies) or {dims - 1} (frames).")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: p is {p}, expected a share in [0, 1].")
    size = specgram.shape[axis]
    if p < 1.0:
        mask_param = min(mask_param, int(size * p))
    if mask_param < 1:
        return specgram
    # Upstream: one mask for all is drawn in float32, many in float64 where the spectrograms are; the numbers differ.
    # Half precision counts no further than 2048 and 256.
    wide = draws != () and specgram.dtype in (torch.float64, torch.complex128)
    dtype = torch.float64 if wide else torch.float32
    length = torch.rand(draws, device=specgram.device, dtype=dtype) * mask_param
    start = (torch.rand(draws, device=specgram.device, dtype=dtype) * (size - length)).long()
    end = start + length.long()
    place = torch.arange(size, device=specgram.device)
    covered = (place >= start.unsqueeze(-1)) & (place < end.unsqueeze(-1))
    covered = covered.unsqueeze(-2 if axis in (dims - 1, -1) else -1)
    return specgram.masked_fill(covered, mask_value)

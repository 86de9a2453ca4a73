"""Modules that keep a speaker and lower everything else, from what several microphones hear."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.audio.functional import beamforming

__all__ = ["MVDR", "PSD", "RTFMVDR", "SoudenMVDR"]


class PSD(nn.Module):
    """Compute the covariance of the channels at each frequency.

    Args:
        multi_mask: the mask has channels, whose mean is taken.
        normalize: divide the mask by its sum over time.
        eps: added to that sum.
    """

    def __init__(self, multi_mask: bool = False, normalize: bool = True, eps: float = 1e-15) -> None:
        super().__init__()
        self.multi_mask = multi_mask
        self.normalize = normalize
        self.eps = eps

    def forward(self, specgram: Tensor, mask: Tensor | None = None) -> Tensor:
        """(..., channel, freq, time), complex, and a mask (..., freq, time) or (..., channel, freq, time) with
        `multi_mask` -> (..., freq, channel, channel), complex.
        """
        if mask is not None and self.multi_mask:
            mask = mask.mean(-3)
        return beamforming.psd(specgram, mask, self.normalize, self.eps)


class SoudenMVDR(nn.Module):
    """Beamform with weights from covariances alone (Souden et al. 2009)."""

    def forward(
        self,
        specgram: Tensor,
        psd_s: Tensor,
        psd_n: Tensor,
        reference_channel: int | Tensor,
        diagonal_loading: bool = True,
        diag_eps: float = 1e-7,
        eps: float = 1e-8,
    ) -> Tensor:
        """(..., channel, freq, time), and arguments of `functional.mvdr_weights_souden` -> (..., freq, time)."""
        weights = beamforming.mvdr_weights_souden(psd_s, psd_n, reference_channel, diagonal_loading, diag_eps, eps)
        return beamforming.apply_beamforming(weights, specgram)


class RTFMVDR(nn.Module):
    """Beamform with weights from a transfer function and the noise's covariance."""

    def forward(
        self,
        specgram: Tensor,
        rtf: Tensor,
        psd_n: Tensor,
        reference_channel: int | Tensor,
        diagonal_loading: bool = True,
        diag_eps: float = 1e-7,
        eps: float = 1e-8,
    ) -> Tensor:
        """(..., channel, freq, time), and arguments of `functional.mvdr_weights_rtf` -> (..., freq, time)."""
        weights = beamforming.mvdr_weights_rtf(rtf, psd_n, reference_channel, diagonal_loading, diag_eps, eps)
        return beamforming.apply_beamforming(weights, specgram)


class MVDR(nn.Module):
    """Beamform a spectrogram by masks of speech and of noise; computed in complex128.

    Args:
        ref_channel: whose speech the result is to sound like.
        solution: "ref_channel" (Souden et al. 2009), or by a transfer function from the speech's covariance:
            "stv_evd" (its eigenvector, Higuchi et al. 2016) or "stv_power" (power iteration).
        multi_mask: masks have channels, whose mean is taken.
        diag_loading: add a share of its trace to the diagonal of the noise's covariance.
        diag_eps: that share.
        online: calls go on from one another; see `reset`.

    Raises:
        ValueError: unknown `solution`.

    Attributes:
        psd_s: running covariance of the speech, a buffer; as are `psd_n`, `mask_sum_s` and `mask_sum_n`.

    References:
        Erdogan et al. 2016, "Improved MVDR beamforming using single-channel mask prediction networks"; Higuchi et al.
        2017, "Online MVDR beamformer based on complex Gaussian mixture model with spatial prior".
    """

    psd_s: Tensor
    psd_n: Tensor
    mask_sum_s: Tensor
    mask_sum_n: Tensor

    def __init__(
        self,
        ref_channel: int = 0,
        solution: str = "ref_channel",
        multi_mask: bool = False,
        diag_loading: bool = True,
        diag_eps: float = 1e-7,
        online: bool = False,
    ) -> None:
        super().__init__()
        if solution not in ("ref_channel", "stv_evd", "stv_power"):
            raise ValueError(f"MVDR: solution is {solution!r}, expected 'ref_channel', 'stv_evd' or 'stv_power'.")
        self.ref_channel = ref_channel
        self.solution = solution
        self.multi_mask = multi_mask
        self.diag_loading = diag_loading
        self.diag_eps = diag_eps
        self.online = online
        self.psd = PSD(multi_mask)
        for name in ("psd_s", "psd_n", "mask_sum_s", "mask_sum_n"):
            self.register_buffer(name, torch.zeros(1))

    def reset(self) -> None:
        """Forget what was heard: the next call begins a new recording."""
        for name in ("psd_s", "psd_n", "mask_sum_s", "mask_sum_n"):
            setattr(self, name, torch.zeros(1, device=self.psd_s.device))

    def forward(self, specgram: Tensor, mask_s: Tensor, mask_n: Tensor | None = None) -> Tensor:
        """Keep the speech.

        Args:
            specgram: (..., channel, freq, time), complex.
            mask_s: (..., freq, time), or (..., channel, freq, time) with `multi_mask`; how much of a bin is speech.
            mask_n: likewise, how much is noise; 1 - mask_s by default.

        Returns:
            (..., freq, time), complex, dtype of `specgram`.

        Raises:
            ValueError: a real spectrogram, one of less than three dimensions, or masks that do not fit.
        """
        if specgram.dim() < 3 or not specgram.is_complex():
            raise ValueError(
                f"MVDR: specgram is {specgram.dtype} of shape {tuple(specgram.shape)}, expected complex of shape "
                "(..., channel, freq, time)."
            )
        if mask_n is None:
            mask_n = 1 - mask_s
        wide = specgram.to(torch.complex128)
        psd_s, psd_n = self.psd(wide, mask_s), self.psd(wide, mask_n)
        if self.online:
            psd_s, psd_n = self._go_on(psd_s, psd_n, mask_s, mask_n)
        return beamforming.apply_beamforming(self._weights(psd_s, psd_n), wide).to(specgram.dtype)

    def _weights(self, psd_s: Tensor, psd_n: Tensor) -> Tensor:
        loading = (self.diag_loading, self.diag_eps)
        if self.solution == "ref_channel":
            return beamforming.mvdr_weights_souden(psd_s, psd_n, self.ref_channel, *loading)
        if self.solution == "stv_evd":
            rtf = beamforming.rtf_evd(psd_s)
        else:
            rtf = beamforming.rtf_power(psd_s, psd_n, self.ref_channel, 3, *loading)
        return beamforming.mvdr_weights_rtf(rtf, psd_n, self.ref_channel, *loading)

    def _go_on(self, psd_s: Tensor, psd_n: Tensor, mask_s: Tensor, mask_n: Tensor) -> tuple[Tensor, Tensor]:
        if self.multi_mask:
            mask_s, mask_n = mask_s.mean(-3), mask_n.mean(-3)
        sum_s, sum_n = mask_s.sum(-1), mask_n.sum(-1)
        if self.psd_s.dim() > 1:
            psd_s = _running(self.psd_s, self.mask_sum_s, psd_s, sum_s)
            psd_n = _running(self.psd_n, self.mask_sum_n, psd_n, sum_n)
            sum_s, sum_n = self.mask_sum_s + sum_s, self.mask_sum_n + sum_n
        self.psd_s, self.psd_n, self.mask_sum_s, self.mask_sum_n = psd_s, psd_n, sum_s, sum_n
        return psd_s, psd_n


def _running(before: Tensor, sum_before: Tensor, now: Tensor, sum_now: Tensor) -> Tensor:
    """The covariance of all that was heard. Upstream: what is new counts as one frame, however long it is."""
    total = (sum_before + sum_now)[..., None, None]
    return (before * sum_before[..., None, None] + now) / total

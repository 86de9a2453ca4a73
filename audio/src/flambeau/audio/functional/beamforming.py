"""Beamforming: weights for an array's channels that keep a speaker and lower everything else.

Spectrograms are complex, (..., channel, freq, time); covariances ("power spectral densities") are
(..., freq, channel, channel); weights and relative transfer functions are (..., freq, channel).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["apply_beamforming", "mvdr_weights_rtf", "mvdr_weights_souden", "psd", "rtf_evd", "rtf_power"]


def psd(specgram: Tensor, mask: Tensor | None = None, normalize: bool = True, eps: float = 1e-10) -> Tensor:
    """Compute the covariance of the channels at each frequency, `sum(mask[t] x[t] x[t]^H)`.

    Args:
        specgram: (..., channel, freq, time), complex; real ones give the real matrix.
        mask: (..., freq, time), real, how much of each bin counts; None for all. None also leaves the plain sum.
        normalize: divide the mask by its sum over time.
        eps: added to that sum.

    Returns:
        (..., freq, channel, channel), complex, Hermitian.

    Raises:
        ValueError: `specgram` has too few dimensions, or the mask's shape does not fit.
    """
    if specgram.dim() < 3:
        raise ValueError(f"psd: specgram has shape {tuple(specgram.shape)}, expected (..., channel, freq, time).")
    x = specgram.transpose(-3, -2)
    if mask is None:
        return x @ x.mH
    wanted = x.shape[:-2] + x.shape[-1:]
    if mask.dim() != len(wanted) or mask.shape[-2:] != wanted[-2:]:
        raise ValueError(f"psd: mask has shape {tuple(mask.shape)}, expected {tuple(wanted)}: (..., freq, time).")
    if normalize:
        mask = mask / (mask.sum(-1, keepdim=True) + eps)
    return (x * mask.unsqueeze(-2)) @ x.mH


def mvdr_weights_souden(
    psd_s: Tensor,
    psd_n: Tensor,
    reference_channel: int | Tensor,
    diagonal_loading: bool = True,
    diag_eps: float = 1e-7,
    eps: float = 1e-8,
) -> Tensor:
    """Compute the weights that pass speech undistorted and let the least noise through, from covariances alone.

    ::

        W = psd_n^-1 psd_s / trace(psd_n^-1 psd_s),   w = W u

    Args:
        psd_s: (..., freq, channel, channel), complex, covariance of the speech.
        psd_n: likewise, of the noise.
        reference_channel: whose speech the result is to sound like; or u itself, (..., channel), a weight for each.
        diagonal_loading: add `diag_eps` times its trace to the diagonal of `psd_n`, and `eps`.
        diag_eps: see there.
        eps: also added to the trace that divides.

    Returns:
        (..., freq, channel), complex.

    Raises:
        TypeError: real covariances, or a reference that is neither.
        ValueError: misshapen covariances.

    References:
        Souden, Benesty, Affes 2009, "On optimal frequency-domain multichannel linear filtering for noise reduction".
    """
    _check_covariances("mvdr_weights_souden", psd_s=psd_s, psd_n=psd_n)
    if diagonal_loading:
        psd_n = _load_diagonal(psd_n, diag_eps, eps)
    ratio = torch.linalg.solve(psd_n, psd_s)
    return _reference(ratio / (_trace(ratio)[..., None, None] + eps), reference_channel)


def mvdr_weights_rtf(
    rtf: Tensor,
    psd_n: Tensor,
    reference_channel: int | Tensor | None = None,
    diagonal_loading: bool = True,
    diag_eps: float = 1e-7,
    eps: float = 1e-8,
) -> Tensor:
    """Compute the weights that pass what comes by a transfer function undistorted and let the least noise through.

    ::

        w = psd_n^-1 h / (h^H psd_n^-1 h),   times conj(h[reference_channel])

    Args:
        rtf: (..., freq, channel), complex, h: how the speaker reaches each channel.
        psd_n: (..., freq, channel, channel), complex, covariance of the noise.
        reference_channel: whose speech the result is to sound like; or a weight for each channel, (..., channel);
            None leaves `rtf`'s own scale.
        diagonal_loading: as for `mvdr_weights_souden`.
        diag_eps: as for `mvdr_weights_souden`.
        eps: as for `mvdr_weights_souden`; added to the number that divides.

    Returns:
        (..., freq, channel), complex.

    Raises:
        TypeError: real arguments, or a reference that is neither.
        ValueError: misshapen arguments.
    """
    _check_complex("mvdr_weights_rtf", rtf=rtf)
    _check_covariances("mvdr_weights_rtf", psd_n=psd_n)
    if rtf.shape[-2:] != psd_n.shape[-3:-1]:
        raise ValueError(
            f"mvdr_weights_rtf: rtf has shape {tuple(rtf.shape)}, psd_n {tuple(psd_n.shape)}; expected "
            "(..., freq, channel) and (..., freq, channel, channel)."
        )
    if diagonal_loading:
        psd_n = _load_diagonal(psd_n, diag_eps, eps)
    numerator = torch.linalg.solve(psd_n, rtf.unsqueeze(-1)).squeeze(-1)
    denominator = (rtf.conj() * numerator).sum(-1, keepdim=True).real
    weights: Tensor = numerator / (denominator + eps)
    if reference_channel is None:
        return weights
    return weights * _reference(rtf.conj().unsqueeze(-2), reference_channel)


def rtf_evd(psd_s: Tensor) -> Tensor:
    """Estimate a transfer function as the covariance's principal eigenvector.

    Args:
        psd_s: (..., channel, channel), complex, Hermitian; one for each frequency.

    Returns:
        (..., channel), complex, of norm 1. Its phase is arbitrary.

    Raises:
        TypeError: `psd_s` is real.
        ValueError: `psd_s` is not square.
    """
    _check_covariances("rtf_evd", least=2, psd_s=psd_s)
    _, vectors = torch.linalg.eigh(psd_s)  # in ascending order of eigenvalues
    principal: Tensor = vectors[..., -1]
    return principal


def rtf_power(
    psd_s: Tensor,
    psd_n: Tensor,
    reference_channel: int | Tensor,
    n_iter: int = 3,
    diagonal_loading: bool = True,
    diag_eps: float = 1e-7,
) -> Tensor:
    """Estimate a transfer function as the principal generalized eigenvector, by power iteration.

    Args:
        psd_s: (..., freq, channel, channel), complex, covariance of the speech.
        psd_n: likewise, of the noise.
        reference_channel: column of `psd_n^-1 psd_s` to start from; or a weight for each, (..., channel).
        n_iter: multiplications, the start counted as one, >= 1.
        diagonal_loading: as for `mvdr_weights_souden`.
        diag_eps: as for `mvdr_weights_souden`.

    Returns:
        (..., freq, channel), complex; its scale means nothing.

    Raises:
        TypeError: real covariances, or a reference that is neither.
        ValueError: `n_iter` is below 1, or covariances are misshapen.
    """
    _check_covariances("rtf_power", psd_s=psd_s, psd_n=psd_n)
    if n_iter < 1:
        raise ValueError(f"rtf_power: n_iter is {n_iter}, expected at least 1.")
    if diagonal_loading:
        psd_n = _load_diagonal(psd_n, diag_eps, 1e-8)
    ratio = torch.linalg.solve(psd_n, psd_s)
    rtf = _reference(ratio, reference_channel).unsqueeze(-1)
    for _ in range(n_iter - 2):
        rtf = ratio @ rtf
    # psd_n ratio^n u = psd_s ratio^(n - 1) u, which saves a step where there are two.
    rtf = (psd_s if n_iter >= 2 else psd_n) @ rtf
    return rtf.squeeze(-1)


def apply_beamforming(beamform_weights: Tensor, specgram: Tensor) -> Tensor:
    """Sum the channels with weights: `conj(w) . x` at each frequency.

    Args:
        beamform_weights: (..., freq, channel), complex.
        specgram: (..., channel, freq, time), complex.

    Returns:
        (..., freq, time), complex.

    Raises:
        TypeError: real arguments.
        ValueError: shapes that do not go together.
    """
    _check_complex("apply_beamforming", beamform_weights=beamform_weights, specgram=specgram)
    if specgram.dim() < 3:
        raise ValueError(
            f"apply_beamforming: specgram has shape {tuple(specgram.shape)}, expected (..., channel, freq, time)."
        )
    wanted = (*specgram.shape[:-3], specgram.shape[-2], specgram.shape[-3])
    if beamform_weights.shape[-2:] != wanted[-2:]:
        raise ValueError(
            f"apply_beamforming: beamform_weights has shape {tuple(beamform_weights.shape)}, expected {wanted}: "
            "(..., freq, channel)."
        )
    return (beamform_weights.conj().unsqueeze(-2) @ specgram.transpose(-3, -2)).squeeze(-2)


def _check_complex(name: str, **arguments: Tensor) -> None:
    for argument, one in arguments.items():
        if not one.is_complex():
            raise TypeError(f"{name}: {argument} is {one.dtype}, expected complex64 or complex128.")


def _check_covariances(name: str, *, least: int = 3, **covariances: Tensor) -> None:
    _check_complex(name, **covariances)
    for argument, one in covariances.items():
        if one.dim() < least or one.shape[-1] != one.shape[-2]:
            raise ValueError(
                f"{name}: {argument} has shape {tuple(one.shape)}, expected (..., freq, channel, channel)."
            )
    first, *others = covariances.values()
    if any(one.shape != first.shape for one in others):
        shapes = " and ".join(str(tuple(one.shape)) for one in covariances.values())
        raise ValueError(f"{name}: the covariances have shapes {shapes}, expected equal ones.")


def _trace(matrix: Tensor) -> Tensor:
    return matrix.diagonal(dim1=-1, dim2=-2).sum(-1)


def _load_diagonal(matrix: Tensor, share: float, least: float) -> Tensor:
    """Add a share of the trace to the diagonal, so that the matrix can be inverted."""
    load = _trace(matrix).real * share + least
    return matrix + torch.diag_embed(load.unsqueeze(-1).expand(matrix.shape[:-1]).to(matrix.dtype))


def _reference(matrix: Tensor, channel: int | Tensor) -> Tensor:
    """A column of (..., freq, rows, channel), or the columns' sum weighted by (..., channel); (..., freq, rows)."""
    if isinstance(channel, Tensor):
        return (matrix @ channel.to(matrix.dtype)[..., None, :, None]).squeeze(-1)
    if not isinstance(channel, int):
        raise TypeError(f"reference_channel is a {type(channel).__name__}, expected an index or a tensor of weights.")
    return matrix[..., channel]

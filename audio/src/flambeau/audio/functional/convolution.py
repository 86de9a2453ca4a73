"""Convolution along time, sample by sample or through spectra."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["convolve", "fftconvolve"]


def convolve(x: Tensor, y: Tensor, mode: str = "full") -> Tensor:
    """Convolve along the last dimension by direct summation; best for short `y`.

    Args:
        x: (..., N), real or complex.
        y: (..., M), as many dimensions, leading ones equal or 1.
        mode: "full" (N + M - 1 samples), "valid" (those where the shorter lies inside of the longer,
            max(N, M) - min(N, M) + 1), or "same" (N, from the middle).

    Returns:
        (..., samples).

    Raises:
        ValueError: unknown `mode`, or shapes that do not go together.
    """
    _check("convolve", x, y, mode)
    sizes = x.shape[-1], y.shape[-1]
    if sizes[0] < sizes[1]:
        x, y = y, x
    leading = torch.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    if 0 in leading:
        return _crop(x.new_empty(*leading, sum(sizes) - 1), sizes, mode)
    signals = x.expand(*leading, -1).reshape(1, -1, x.shape[-1])
    kernels = y.expand(*leading, -1).reshape(-1, 1, y.shape[-1]).flip(-1)
    full = torch.nn.functional.conv1d(signals, kernels, padding=y.shape[-1] - 1, groups=signals.shape[1])
    return _crop(full.reshape(*leading, full.shape[-1]), sizes, mode)


def fftconvolve(x: Tensor, y: Tensor, mode: str = "full") -> Tensor:
    """Convolve along the last dimension by multiplying spectra; best where both are long.

    Args:
        x: (..., N), real or complex.
        y: (..., M), as many dimensions, leading ones equal or 1.
        mode: as for `convolve`.

    Returns:
        (..., samples).

    Raises:
        ValueError: unknown `mode`, or shapes that do not go together.
    """
    _check("fftconvolve", x, y, mode)
    sizes = x.shape[-1], y.shape[-1]
    samples = sizes[0] + sizes[1] - 1
    if 0 in sizes:
        raise ValueError(f"fftconvolve: x has {sizes[0]} samples and y {sizes[1]}; both need at least one.")
    length = fast_length(samples)
    if x.is_complex() or y.is_complex():
        full = torch.fft.ifft(torch.fft.fft(x, length) * torch.fft.fft(y, length), length)
    else:
        full = torch.fft.irfft(torch.fft.rfft(x, length) * torch.fft.rfft(y, length), length)
    return _crop(full[..., :samples], sizes, mode)


def fast_length(least: int) -> int:
    """The next number from `least` on whose prime factors are 2, 3 and 5; transforms of other lengths are slower."""
    best = 1
    while best < least:
        best *= 2
    five = 1
    while five < best:
        three = five
        while three < best:
            two = three
            while two < least:
                two *= 2
            best = min(best, two)
            three *= 3
        five *= 5
    return best


def check_mode(name: str, mode: str) -> None:
    """Refuse an unknown mode."""
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"{name}: mode is {mode!r}, expected 'full', 'valid' or 'same'.")


def _check(name: str, x: Tensor, y: Tensor, mode: str) -> None:
    check_mode(name, mode)
    pairs = zip(x.shape[:-1], y.shape[:-1], strict=False)
    if x.dim() != y.dim() or any(a != b and a != 1 and b != 1 for a, b in pairs):
        raise ValueError(
            f"{name}: x has shape {tuple(x.shape)} and y {tuple(y.shape)}, expected as many dimensions, and leading "
            "ones that are equal or 1."
        )


def _crop(full: Tensor, sizes: tuple[int, int], mode: str) -> Tensor:
    if mode == "full":
        return full
    wanted = sizes[0] if mode == "same" else max(sizes) - min(sizes) + 1
    return full.narrow(-1, (full.shape[-1] - wanted) // 2, wanted)

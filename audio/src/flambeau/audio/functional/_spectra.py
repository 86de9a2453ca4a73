"""Power spectra of overlapping frames and filters over frequencies: operators without a gradient.

They serve where none is wanted, on the CPU and in float32 (`native/spectra.cpp`); the functions above them compute the
same from torch's own operators everywhere else.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from flambeau.audio._native import LIBRARY, kernel
from flambeau.core.native import register_op


def served(*tensors: Tensor) -> bool:
    """Whether the operators may compute from these: plain tensors of the CPU in float32, of which none is followed."""
    for tensor in tensors:
        # A subclass, a proxy of `torch.fx` or a tensor of `torch.func` has to see torch's own operators.
        if type(tensor) is not Tensor or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            return False
        if tensor.requires_grad and torch.is_grad_enabled():
            return False
    if torch.is_autocast_enabled("cpu"):
        return False
    if torch.compiler.is_compiling():
        return True
    return forward_ad._current_level < 0 and torch._C._functorch.peek_interpreter_stack() is None


def transformable(n_fft: int) -> bool:
    """Whether the operators transform frames of this length: an even one whose half has no factor above 5."""
    if n_fft < 2 or n_fft % 2:
        return False
    rest = n_fft // 2
    for factor in (2, 3, 5):
        while rest % factor == 0:
            rest //= factor
    return rest == 1


def power_spectrogram(waveform: Tensor, window: Tensor, n_fft: int, hop: int, root: bool) -> Tensor:
    """Squared magnitudes of frames' spectra, or magnitudes.

    Args:
        waveform: (rows, time), float32; frame t begins at t * hop and lies inside.
        window: (n_fft,), float32.
        n_fft: `transformable`.
        hop: samples from frame to frame, >= 1.
        root: magnitudes, else their squares.

    Returns:
        (rows, n_fft / 2 + 1, frames).

    Raises:
        RuntimeError: shapes, dtypes or numbers other than these.
    """
    return _POWERS(waveform, window, n_fft, hop, root)  # type: ignore[no-any-return]


class KaldiFrames(NamedTuple):
    """How Kaldi's frames are cut and what is made of them, in the order of the operator's schema.

    Attributes:
        n_fft: `transformable`; frames end with zeros.
        hop: samples from frame to frame, >= 1.
        preemphasis: how much of the sample before is taken away.
        remove_mean: take each frame's mean away first.
        raw_energy: energies before pre-emphasis, else after the window.
        root: magnitudes, else their squares.
    """

    n_fft: int
    hop: int
    preemphasis: float
    remove_mean: bool
    raw_energy: bool
    root: bool


def kaldi_spectra(waveform: Tensor, window: Tensor, filters: Tensor | None, how: KaldiFrames) -> tuple[Tensor, Tensor]:
    """Filtered power spectra of frames, made as Kaldi makes them: mean taken away, pre-emphasis, window.

    Args:
        waveform: (rows, time), float32; frame t begins at t * hop and lies inside.
        window: (size,), float32; the length of a frame.
        filters: (frequencies, bands), float32, of the lowest frequencies; None for all frequencies as they are.
        how: numbers of the frames.

    Returns:
        (rows, frames, bands or n_fft / 2 + 1), and the sum of squares of each frame, (rows, frames).

    Raises:
        RuntimeError: shapes, dtypes or numbers other than these.
    """
    return _KALDI(waveform, window, filters, *how)  # type: ignore[no-any-return]


def filter_bank(spectrogram: Tensor, filters: Tensor) -> Tensor:
    """Sum frequencies under filters of which most weights are 0; those are not looked at.

    Args:
        spectrogram: (rows, frequencies, frames), float32.
        filters: (frequencies, bands), float32.

    Returns:
        (rows, bands, frames).

    Raises:
        RuntimeError: shapes or dtypes other than these.
    """
    return _FILTERS(spectrogram, filters)  # type: ignore[no-any-return]


def filtered(spectrogram: Tensor, filters: Tensor) -> Tensor:
    """(..., frequencies, frames) under filters (frequencies, bands): (..., bands, frames), by the fastest way there is.

    Raises:
        RuntimeError: their numbers of frequencies differ.
    """
    if served(spectrogram, filters) and spectrogram.ndim >= 2 and spectrogram.shape[-2] == filters.shape[0]:
        rows = spectrogram.reshape(math.prod(spectrogram.shape[:-2]), *spectrogram.shape[-2:])
        return filter_bank(rows, filters).reshape(*spectrogram.shape[:-2], filters.shape[1], spectrogram.shape[-1])
    return torch.matmul(spectrogram.transpose(-1, -2), filters).transpose(-1, -2)


# --- shape-only twins -----------------------------------------------------------------------------


def _framed(op: str, waveform: Tensor, window: Tensor, n_fft: int, hop: int) -> None:
    """The same sentences as `framed` in native/spectra.cpp."""
    if waveform.dim() != 2 or waveform.dtype != torch.float32:
        raise RuntimeError(
            f"{op}: waveform is {waveform.dtype} of shape {tuple(waveform.shape)}, expected float32 (rows, time)."
        )
    if not transformable(n_fft):
        raise RuntimeError(f"{op}: n_fft is {n_fft}, expected an even number whose half is a product of 2, 3 and 5.")
    if window.dim() != 1 or window.dtype != torch.float32 or not 1 <= window.shape[0] <= n_fft:
        raise RuntimeError(
            f"{op}: window is {window.dtype} of shape {tuple(window.shape)}, expected float32 of at most n_fft factors."
        )
    if hop < 1 or waveform.shape[1] < window.shape[0]:
        raise RuntimeError(
            f"{op}: hop is {hop} and the waveform has {waveform.shape[1]} samples, expected at least 1 and the "
            f"window's {window.shape[0]}."
        )


def _bank(op: str, filters: Tensor, most: int) -> None:
    if filters.dim() != 2 or filters.dtype != torch.float32 or filters.shape[0] > most:
        raise RuntimeError(
            f"{op}: filters are {filters.dtype} of shape {tuple(filters.shape)}, expected float32 (frequencies, "
            f"filters) of at most {most} frequencies."
        )


def _fake_spectrogram(waveform: Tensor, window: Tensor, n_fft: int, hop: int, root: bool) -> Tensor:
    _framed("power_spectrogram", waveform, window, n_fft, hop)
    if window.shape[0] != n_fft:
        raise RuntimeError(
            f"power_spectrogram: window has shape {tuple(window.shape)}, expected n_fft, {n_fft}, factors."
        )
    return waveform.new_empty(waveform.shape[0], n_fft // 2 + 1, 1 + (waveform.shape[1] - n_fft) // hop)


def _fake_kaldi(waveform: Tensor, window: Tensor, filters: Tensor | None, *numbers: Any) -> tuple[Tensor, Tensor]:
    how = KaldiFrames(*numbers)
    _framed("kaldi_spectra", waveform, window, how.n_fft, how.hop)
    frequencies = how.n_fft // 2 + 1
    if filters is not None:
        _bank("kaldi_spectra", filters, frequencies)
    width = frequencies if filters is None else filters.shape[1]
    frames = 1 + (waveform.shape[1] - window.shape[0]) // how.hop
    return waveform.new_empty(waveform.shape[0], frames, width), waveform.new_empty(waveform.shape[0], frames)


def _fake_bank(spectrogram: Tensor, filters: Tensor) -> Tensor:
    if spectrogram.dim() != 3 or spectrogram.dtype != torch.float32:
        raise RuntimeError(
            f"filter_bank: spectrogram is {spectrogram.dtype} of shape {tuple(spectrogram.shape)}, expected float32 "
            "(rows, frequencies, frames)."
        )
    _bank("filter_bank", filters, spectrogram.shape[1])
    if filters.shape[0] != spectrogram.shape[1]:
        raise RuntimeError(
            f"filter_bank: filters have shape {tuple(filters.shape)}, expected one row for each of "
            f"{spectrogram.shape[1]} frequencies."
        )
    return spectrogram.new_empty(spectrogram.shape[0], filters.shape[1], spectrogram.shape[2])


# --- references -----------------------------------------------------------------------------------


def _powers(frames: Tensor, n_fft: int, root: bool) -> Tensor:
    spectrum: Tensor = torch.fft.rfft(frames, n=n_fft)
    return spectrum.abs() if root else spectrum.real.square() + spectrum.imag.square()


def _plain_spectrogram(waveform: Tensor, window: Tensor, n_fft: int, hop: int, root: bool) -> Tensor:
    _fake_spectrogram(waveform, window, n_fft, hop, root)
    return _powers(waveform.unfold(-1, n_fft, hop) * window, n_fft, root).mT.contiguous()


def _plain_kaldi(waveform: Tensor, window: Tensor, filters: Tensor | None, *numbers: Any) -> tuple[Tensor, Tensor]:
    how = KaldiFrames(*numbers)
    _fake_kaldi(waveform, window, filters, *how)
    raw = waveform.unfold(-1, window.shape[0], how.hop)
    if how.remove_mean:
        raw = raw - raw.mean(-1, keepdim=True)
    before = torch.cat([raw[..., :1], raw[..., :-1]], dim=-1)
    cut = torch.sub(raw, before, alpha=how.preemphasis) * window
    powers = _powers(cut, how.n_fft, how.root)
    if filters is not None:
        powers = powers[..., : filters.shape[0]] @ filters
    return powers, (raw if how.raw_energy else cut).square().sum(-1)


def _plain_bank(spectrogram: Tensor, filters: Tensor) -> Tensor:
    _fake_bank(spectrogram, filters)
    return (filters.mT @ spectrogram).contiguous()


# --- native kernels by C interface ----------------------------------------------------------------


def _rows(waveform: Tensor) -> Tensor:
    return waveform if waveform.stride(1) == 1 or waveform.shape[1] <= 1 else waveform.contiguous()


def _served_or_raise(op: str, done: bool) -> None:
    if not done:
        raise RuntimeError(f"{op}: out of memory.")


def _native_spectrogram(waveform: Tensor, window: Tensor, n_fft: int, hop: int, root: bool) -> Tensor:
    result = _fake_spectrogram(waveform, window, n_fft, hop, root)
    x, factors = _rows(waveform), window.contiguous()
    done = kernel("fb_power_spectrogram_f32", "pnnnnpnbpt", "b")(
        x.data_ptr(), x.stride(0), x.shape[0], result.shape[2], hop, factors.data_ptr(), n_fft, root, result.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    _served_or_raise("power_spectrogram", done)
    return result


def _native_kaldi(waveform: Tensor, window: Tensor, filters: Tensor | None, *numbers: Any) -> tuple[Tensor, Tensor]:
    how = KaldiFrames(*numbers)
    result, energy = _fake_kaldi(waveform, window, filters, *how)
    x, factors = _rows(waveform), window.contiguous()
    dense = None if filters is None else filters.contiguous()
    done = kernel("fb_kaldi_spectra_f32", "pnnnnpnnpnndbbbppt", "b")(
        x.data_ptr(), x.stride(0), x.shape[0], result.shape[1], how.hop, factors.data_ptr(), factors.shape[0],
        how.n_fft, None if dense is None else dense.data_ptr(), 0 if dense is None else dense.shape[0], result.shape[2],
        how.preemphasis, how.remove_mean, how.raw_energy, how.root, result.data_ptr(), energy.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    _served_or_raise("kaldi_spectra", done)
    return result, energy


def _native_bank(spectrogram: Tensor, filters: Tensor) -> Tensor:
    result = _fake_bank(spectrogram, filters)
    x, dense = spectrogram.contiguous(), filters.contiguous()
    done = kernel("fb_filter_bank_f32", "pnnnpnpt", "b")(
        x.data_ptr(), *x.shape, dense.data_ptr(), dense.shape[1], result.data_ptr(), torch.get_num_threads()
    )
    _served_or_raise("filter_bank", done)
    return result


_POWERS = register_op(
    "power_spectrogram(Tensor waveform, Tensor window, SymInt n_fft, SymInt hop, bool root) -> Tensor",
    library=LIBRARY,
    symbol=_native_spectrogram,
    fake=_fake_spectrogram,
    python=_plain_spectrogram,
)
_KALDI = register_op(
    "kaldi_spectra(Tensor waveform, Tensor window, Tensor? filters, SymInt n_fft, SymInt hop, float preemphasis, "
    "bool remove_mean, bool raw_energy, bool root) -> (Tensor, Tensor)",
    library=LIBRARY,
    symbol=_native_kaldi,
    fake=_fake_kaldi,
    python=_plain_kaldi,
)
_FILTERS = register_op(
    "filter_bank(Tensor spectrogram, Tensor filters) -> Tensor",
    library=LIBRARY,
    symbol=_native_bank,
    fake=_fake_bank,
    python=_plain_bank,
)

"""Recursive filters by their coefficients: one direction, and both directions without a shift of phase.

The native kernel is `native/lfilter.cpp`. The reference below serves every other device: it cuts time into blocks and
carries the state from block to block by a parallel scan, so the number of steps grows with the logarithm of time.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY, kernel
from flambeau.core.native import register_op

__all__ = ["filtfilt", "lfilter"]


def lfilter(waveform: Tensor, a_coeffs: Tensor, b_coeffs: Tensor, clamp: bool = True, batching: bool = True) -> Tensor:
    """Filter by a difference equation, a[0] y[t] = sum_k b[k] x[t - k] - sum_{k > 0} a[k] y[t - k].

    What lies before the first sample is 0. States are kept in float64, whatever the waveform is.

    Args:
        waveform: (..., time), float32 or float64; float16 and bfloat16 are computed in float32. Upstream: in
            [-1, 1], because that is what `clamp` cuts to.
        a_coeffs: (taps,), or (filters, taps) for a bank of filters; lower delays first, a[0] not 0.
        b_coeffs: same shape. Pad the shorter of both with zeros.
        clamp: cut the result to [-1, 1].
        batching: what a bank does. True: filter i works on channel i of a waveform (..., filters, time). False: every
            filter works on the whole waveform.

    Returns:
        (..., time), or (..., filters, time) for a bank; dtype of `waveform`. Gradients of any order flow to the
        waveform and to both sets of coefficients.

    Raises:
        ValueError: coefficients of different shapes, of more than two dimensions, or a bank that does not fit the
            waveform's channels.

    Example:
        >>> lfilter(torch.tensor([0.5, 0.0, 0.0]), torch.tensor([1.0, -0.5]), torch.tensor([1.0, 0.0]))
        tensor([0.5000, 0.2500, 0.1250])

    References:
        Smith 2007, Introduction to Digital Filters, "Difference Equation".
    """
    if a_coeffs.shape != b_coeffs.shape:
        raise ValueError(
            f"lfilter: coefficients have shapes {tuple(a_coeffs.shape)} and {tuple(b_coeffs.shape)}, expected the "
            "same; pad the shorter with zeros."
        )
    if a_coeffs.ndim not in (1, 2) or a_coeffs.shape[-1] < 1:
        raise ValueError(
            f"lfilter: coefficients have shape {tuple(a_coeffs.shape)}, expected (taps,) or (filters, taps)."
        )
    if a_coeffs.ndim == 2:
        filters = a_coeffs.shape[0]
        if not batching:
            waveform = waveform.unsqueeze(-2).expand(*waveform.shape[:-1], filters, waveform.shape[-1])
        elif waveform.ndim < 2 or waveform.shape[-2] != filters:
            raise ValueError(
                f"lfilter: waveform has shape {tuple(waveform.shape)}, expected (..., {filters}, time): a channel for "
                "each filter. batching=False applies all filters to all channels."
            )
    narrow = waveform.dtype in (torch.float16, torch.bfloat16)
    a, b = (coeffs.to(waveform.device) for coeffs in (a_coeffs, b_coeffs))
    if a.ndim == 1:
        a, b = a.unsqueeze(0), b.unsqueeze(0)
    first = a[:, :1]
    batch = waveform.shape[: -1 if a.shape[0] == 1 else -2]
    rows = (waveform.float() if narrow else waveform).reshape(math.prod(batch), a.shape[0], waveform.shape[-1])
    filtered = torch.ops.flambeau_audio.lfilter(rows, (a / first).double(), (b / first).double())
    if clamp:
        filtered = torch.clamp(filtered, min=-1.0, max=1.0)
    return filtered.reshape(waveform.shape).to(waveform.dtype)  # type: ignore[no-any-return]


def filtfilt(waveform: Tensor, a_coeffs: Tensor, b_coeffs: Tensor, clamp: bool = True) -> Tensor:
    """Filter forward and then backward in time: the response is squared, the phase is not shifted.

    Args:
        waveform: (..., time); with a bank of filters (..., filters, time).
        a_coeffs: (taps,) or (filters, taps), as for `lfilter`.
        b_coeffs: same shape.
        clamp: cut the result to [-1, 1].

    Returns:
        Same shape and dtype as `waveform`; differentiable.

    Raises:
        ValueError: as `lfilter`.
    """
    forward = lfilter(waveform, a_coeffs, b_coeffs, clamp=False, batching=True)
    return lfilter(forward.flip(-1), a_coeffs, b_coeffs, clamp=clamp, batching=True).flip(-1)


def _check(waveform: Tensor, a: Tensor, b: Tensor) -> None:
    """The same sentences as `valid` in native/lfilter.cpp."""
    if waveform.dim() != 3:
        raise RuntimeError(f"lfilter: waveform has shape {tuple(waveform.shape)}, expected (batch, filters, time).")
    if waveform.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"lfilter: waveform has dtype {waveform.dtype}, expected float32 or float64; convert it.")
    if a.dtype != torch.float64 or b.dtype != torch.float64:
        raise RuntimeError(f"lfilter: coefficients have dtypes {a.dtype} and {b.dtype}, expected float64.")
    fits = a.dim() == 2 and a.shape == b.shape and a.shape[0] == waveform.shape[1] and a.shape[1] >= 1
    if not fits:
        raise RuntimeError(
            f"lfilter: coefficients have shapes {tuple(a.shape)} and {tuple(b.shape)}, "
            f"expected ({waveform.shape[1]}, taps) both."
        )


def _fake(waveform: Tensor, a: Tensor, b: Tensor) -> Tensor:
    _check(waveform, a, b)
    return waveform.new_empty(waveform.shape)


# --- reference ------------------------------------------------------------------------------------

# Samples that one product with a triangular matrix filters.
_BLOCK = 64


def _reference(waveform: Tensor, a: Tensor, b: Tensor) -> Tensor:
    _check(waveform, a, b)
    taps, time = a.shape[1], waveform.shape[-1]
    padded = torch.nn.functional.pad(waveform.to(torch.float64), (taps - 1, 0))
    forward = sum(b[:, k, None] * padded[..., taps - 1 - k : taps - 1 - k + time] for k in range(taps))
    assert isinstance(forward, Tensor)
    return _recur(forward, a).to(waveform.dtype)


def _recur(waveform: Tensor, a: Tensor) -> Tensor:
    """y[t] = x[t] - sum_{k > 0} a[k] y[t - k], (batch, filters, time), by blocks.

    With the state s[t] = (y[t], ..., y[t - order + 1]) and the companion matrix M, s[t] = M s[t - 1] + (x[t], 0, ...).
    """
    (batch, filters, time), order = waveform.shape, a.shape[1] - 1
    if order == 0 or waveform.numel() == 0:
        return waveform
    length = max(_BLOCK, order)
    powers = _powers(_companion(a), length)
    blocks = -(-time // length)
    cut = torch.nn.functional.pad(waveform, (0, blocks * length - time)).view(batch, filters, blocks, length)
    alone = cut @ _toeplitz(powers[:, :length, 0, 0]).mT
    # The state at the end of each block, first as if it had begun from rest, then with all before it.
    states, carry, step = alone[..., -order:].flip(-1), powers[:, length], 1
    while step < blocks:
        reached = states[:, :, step:] + states[:, :, :-step] @ carry.mT
        states = torch.cat([states[:, :, :step], reached], dim=2)
        carry, step = carry @ carry, 2 * step
    begins = torch.nn.functional.pad(states[:, :, :-1], (0, 0, 1, 0))
    return (alone + begins @ powers[:, 1:, 0].mT).reshape(batch, filters, -1)[..., :time]


def _companion(a: Tensor) -> Tensor:
    """M, (filters, order, order)."""
    order = a.shape[1] - 1
    shift = torch.eye(order - 1, order, dtype=a.dtype, device=a.device).expand(len(a), -1, -1)
    return torch.cat([-a[:, None, 1:], shift], dim=1)


def _powers(matrix: Tensor, most: int) -> Tensor:
    """Powers 0 to `most` of each matrix, (filters, most + 1, order, order)."""
    powers = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand_as(matrix).unsqueeze(1)
    while powers.shape[1] <= most:
        powers = torch.cat([powers, (powers[:, -1] @ matrix).unsqueeze(1) @ powers], dim=1)
    return powers[:, : most + 1]


def _toeplitz(response: Tensor) -> Tensor:
    """The lower triangular matrices (filters, n, n) that convolve with responses (filters, n)."""
    places = torch.arange(response.shape[1], device=response.device)
    delay = places[:, None] - places
    return torch.where(delay >= 0, response[:, delay.clamp(min=0)], 0.0)


# --- native kernel through ctypes -----------------------------------------------------------------

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def _native(waveform: Tensor, a: Tensor, b: Tensor) -> Tensor:
    _check(waveform, a, b)
    x, a, b = waveform.contiguous(), a.contiguous(), b.contiguous()
    y = torch.empty_like(x)
    status = kernel(f"fb_lfilter_{_SUFFIX[x.dtype]}", "ppppnnnnt", "n")(
        x.data_ptr(), a.data_ptr(), b.data_ptr(), y.data_ptr(), x.shape[0] * x.shape[1], x.shape[1], x.shape[2],
        a.shape[1], torch.get_num_threads(),
    )  # fmt: skip
    if status < 0:
        raise RuntimeError("lfilter: no memory left for the filters' states.")
    return y


# --- gradient -------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """With A y = B x: A dy = B dx + dB x - dA y, and the adjoint of a causal filter is the same filter in reverse."""
    waveform, a, b, output = ctx.saved_tensors
    op = torch.ops.flambeau_audio.lfilter
    reverse = grad.flip(-1)
    to_waveform = op(reverse, a, b).flip(-1) if ctx.needs_input_grad[0] else None
    to_a = to_b = None
    if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
        unit = torch.nn.functional.pad(torch.ones_like(a[:, :1]), (0, a.shape[1] - 1))
        through = op(reverse, a, unit).flip(-1)
        if ctx.needs_input_grad[1]:
            to_a = -_lagged_products(through, output, a.shape[1])
            to_a = torch.cat([torch.zeros_like(to_a[:, :1]), to_a[:, 1:]], dim=1)
        if ctx.needs_input_grad[2]:
            to_b = _lagged_products(through, waveform, a.shape[1])
    return to_waveform, to_a, to_b


def _lagged_products(left: Tensor, right: Tensor, lags: int) -> Tensor:
    """sum_t left[t] right[t - k] for each filter and lag k, (filters, lags), float64."""
    time = left.shape[-1]
    sums = [(left[..., k:] * right[..., : max(time - k, 0)]).sum((0, 2), dtype=torch.float64) for k in range(lags)]
    return torch.stack(sums, dim=1)


register_op(
    "lfilter(Tensor waveform, Tensor a_coeffs, Tensor b_coeffs) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    backward=_gradient,
    setup_context=_keep,
)

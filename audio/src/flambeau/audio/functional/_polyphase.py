"""Sums of neighbouring samples with weights that repeat: the operator under `resample`.

The native kernel is `native/resample.cpp`, the one for CUDA and XPU `_polyphase_triton.py`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY
from flambeau.core.native import register_op


def polyphase(waveform: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, length: int) -> Tensor:
    """Sum samples with weights.

    ::

        y[i] = sum(taps[i % phases, k] * x[(first + i) * orig // new - reach + k] for k)    (x is 0 outside)

    Args:
        waveform: (rows, time), float32 or float64; has first and second derivatives.
        taps: (phases, weights), same dtype and device; has a derivative too.
        orig: old rate, >= 1.
        new: new rate, >= 1.
        reach: samples before the one under a result that its first weight belongs to.
        first: number of the first result.
        length: results wanted.

    Returns:
        (rows, length), same dtype.

    Raises:
        RuntimeError: shapes, dtypes or numbers other than these.
    """
    return torch.ops.flambeau_audio.resample(waveform, taps, orig, new, reach, first, length)  # type: ignore[no-any-return]


_OP, _BACKWARD = "resample", "_resample_backward"

# --- shape-only twins -----------------------------------------------------------------------------


def _check(op: str, input: Tensor, taps: Tensor, orig: int, new: int, first: int, length: int) -> None:
    """The same sentences as `valid` in native/resample.cpp."""
    if input.dim() != 2:
        raise RuntimeError(f"{op}: the input has shape {tuple(input.shape)}, expected (rows, time).")
    if input.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"{op}: the input has dtype {input.dtype}, expected float32 or float64.")
    if taps.dim() != 2 or taps.dtype != input.dtype:
        raise RuntimeError(
            f"{op}: taps is {taps.dtype} of shape {tuple(taps.shape)}, expected (phases, weights) in the input's dtype."
        )
    if orig < 1 or new < 1 or first < 0 or length < 0:
        raise RuntimeError(
            f"{op}: orig, new, first and length are {orig}, {new}, {first} and {length}; expected at least 1, 1, 0 "
            "and 0."
        )


def _fake(waveform: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, length: int) -> Tensor:
    _check(_OP, waveform, taps, orig, new, first, length)
    return waveform.new_empty(waveform.shape[0], length)


def _fake_backward(grad: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, time: int) -> Tensor:
    _check(_BACKWARD, grad, taps, orig, new, first, time)
    return grad.new_empty(grad.shape[0], time)


# --- reference ------------------------------------------------------------------------------------

# Numbers that a step of the reference works on.
_CHUNK = 2**22


def _places(
    taps: Tensor, orig: int, new: int, reach: int, first: int, begin: int, end: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Of results [begin, end): the samples under their weights, and the phases; (results, weights) and (results,)."""
    i = torch.arange(begin, end, device=taps.device)
    start = torch.div((first + i) * orig, new, rounding_mode="floor") - reach
    return start.unsqueeze(1) + torch.arange(taps.shape[1], device=taps.device), i % taps.shape[0]


def _steps(rows: int, length: int, weights: int) -> range:
    return range(0, length, max(1, _CHUNK // max(1, rows * weights)))


def _reference(waveform: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, length: int) -> Tensor:
    result = _fake(waveform, taps, orig, new, reach, first, length)
    time, steps = waveform.shape[1], _steps(waveform.shape[0], length, taps.shape[1])
    if time == 0:
        return result.zero_()
    for begin in steps:
        end = min(begin + steps.step, length)
        places, phases = _places(taps, orig, new, reach, first, begin, end)
        inside = (places >= 0) & (places < time)
        weights = torch.where(inside, taps[phases], 0.0)
        result[:, begin:end] = (waveform[:, places.clamp(0, time - 1)] * weights).sum(-1)
    return result


def _reference_backward(grad: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, time: int) -> Tensor:
    result = _fake_backward(grad, taps, orig, new, reach, first, time).zero_()
    if time == 0:
        return result
    length = grad.shape[1]
    steps = _steps(grad.shape[0], length, taps.shape[1])
    for begin in steps:
        end = min(begin + steps.step, length)
        places, phases = _places(taps, orig, new, reach, first, begin, end)
        weights = torch.where((places >= 0) & (places < time), taps[phases], 0.0)
        flow = grad[:, begin:end].unsqueeze(-1) * weights
        result.index_add_(1, places.clamp(0, time - 1).flatten(), flow.flatten(1))
    return result


# --- native kernel through ctypes -----------------------------------------------------------------

_LONG, _POINTER = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS = (_POINTER, *(_LONG,) * 3, _POINTER, *(_LONG,) * 6, _POINTER, _LONG)
_SUFFIXES = {torch.float32: "f32", torch.float64: "f64"}


def _call_native(symbol: str, input: Tensor, taps: Tensor, rates: tuple[int, ...], result: Tensor) -> Tensor:
    if input.stride(1) != 1:
        input = input.contiguous()
    taps = taps.contiguous()
    LIBRARY.function(f"{symbol}_{_SUFFIXES[input.dtype]}", _ARGUMENTS, None)(
        input.data_ptr(), input.stride(0), *input.shape, taps.data_ptr(), *taps.shape, *rates,
        result.data_ptr(), result.shape[1],
    )  # fmt: skip
    return result


def _native(waveform: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, length: int) -> Tensor:
    result = _fake(waveform, taps, orig, new, reach, first, length)
    return _call_native("fb_resample", waveform, taps, (orig, new, reach, first), result)


def _native_backward(grad: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, time: int) -> Tensor:
    result = _fake_backward(grad, taps, orig, new, reach, first, time)
    return _call_native("fb_resample_backward", grad, taps, (orig, new, reach, first), result)


# --- gradient -------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    waveform, taps, *ctx.rates, ctx.length = inputs
    ctx.save_for_backward(waveform if ctx.needs_input_grad[1] else None, taps)
    ctx.time = waveform.shape[1]


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    waveform, taps = ctx.saved_tensors
    of_waveform = of_taps = None
    if ctx.needs_input_grad[0]:
        of_waveform = torch.ops.flambeau_audio._resample_backward(grad, taps, *ctx.rates, ctx.time)
    if ctx.needs_input_grad[1]:
        of_taps = _gradient_of_taps(grad, waveform, taps, *ctx.rates)
    return (of_waveform, of_taps, *(None,) * 5)


def _keep_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, taps, *ctx.rates, ctx.time = inputs
    ctx.save_for_backward(grad if ctx.needs_input_grad[1] else None, taps)
    ctx.length = grad.shape[1]


def _gradient_of_backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, ...]:
    grad, taps = ctx.saved_tensors
    of_grad = of_taps = None
    if ctx.needs_input_grad[0]:
        of_grad = torch.ops.flambeau_audio.resample(second, taps, *ctx.rates, ctx.length)
    if ctx.needs_input_grad[1]:
        of_taps = _gradient_of_taps(grad, second, taps, *ctx.rates)
    return (of_grad, of_taps, *(None,) * 5)


def _gradient_of_taps(
    grad: Tensor, waveform: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int
) -> Tensor:  # fmt: skip
    """What the sum over rows and results gives each weight."""
    result = torch.zeros_like(taps)
    time, length = waveform.shape[1], grad.shape[1]
    if time == 0:
        return result
    steps = _steps(grad.shape[0], length, taps.shape[1])
    for begin in steps:
        end = min(begin + steps.step, length)
        places, phases = _places(taps, orig, new, reach, first, begin, end)
        inside = (places >= 0) & (places < time)
        flow = torch.einsum("rl,rlk->lk", grad[:, begin:end], waveform[:, places.clamp(0, time - 1)])
        result = result.index_add(0, phases, torch.where(inside, flow, 0.0))
    return result


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_resample_backward(Tensor grad, Tensor taps, SymInt orig, SymInt new, SymInt reach, SymInt first, SymInt time) "
    "-> Tensor",
    library=LIBRARY,
    symbol=_native_backward,
    fake=_fake_backward,
    python=_reference_backward,
    triton="flambeau.audio.functional._polyphase_triton:resample_backward",
    backward=_gradient_of_backward,
    setup_context=_keep_backward,
)
register_op(
    "resample(Tensor waveform, Tensor taps, SymInt orig, SymInt new, SymInt reach, SymInt first, SymInt length) "
    "-> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.audio.functional._polyphase_triton:resample",
    backward=_gradient,
    setup_context=_keep,
)

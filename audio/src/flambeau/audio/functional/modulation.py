"""Effects of a delay that moves: the phaser's echo and the flanger's.

The native kernels are `native/modulation.cpp`. They walk through time sample by sample, because each sample may need
the one before it; tensors of other devices are computed there too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY, kernel
from flambeau.core.native import register_op

__all__ = ["flanger", "phaser"]


def phaser(
    waveform: Tensor,
    sample_rate: int,
    gain_in: float = 0.4,
    gain_out: float = 0.74,
    delay_ms: float = 3.0,
    decay: float = 0.4,
    mod_speed: float = 0.5,
    sinusoidal: bool = True,
) -> Tensor:
    """Add an echo whose delay swings between one sample and `delay_ms`: y[t] = gain x[t] + decay y[t - delay(t)].

    Args:
        waveform: (..., time), in [-1, 1].
        sample_rate: Hz.
        gain_in: before the echo, 0 to 1.
        gain_out: after it, 0 to 1e9.
        delay_ms: longest delay, ms, 0 to 5; at least one sample.
        decay: of each echo, below 1.
        mod_speed: swings per second, Hz, 0.1 to 2.
        sinusoidal: whether the delay swings as a sine, else as a triangle.

    Returns:
        Same shape and dtype, cut to [-1, 1]; differentiable.

    Raises:
        ValueError: the delay is shorter than a sample, or a swing is.
    """
    longest, period = int(delay_ms * 0.001 * sample_rate + 0.5), int(sample_rate / mod_speed + 0.5)
    if longest < 1 or period < 1:
        raise ValueError(
            f"phaser: delay_ms={delay_ms} and mod_speed={mod_speed} are {longest} and {period} samples at "
            f"{sample_rate} Hz, expected at least 1 each."
        )
    swing = _swing("sinusoidal" if sinusoidal else "triangular", period, 1.0, float(longest), math.pi / 2)
    # SoX counts from the far end of a ring of `longest` samples.
    delays = longest + 1 - (swing + 0.5).floor().to(torch.int64)
    rows = _computable(waveform).reshape(math.prod(waveform.shape[:-1]), waveform.shape[-1])
    echoed = torch.ops.flambeau_audio.modulated_echo(rows * gain_in, delays.to(waveform.device), decay)
    return (echoed * gain_out).clamp(-1.0, 1.0).reshape(waveform.shape).to(waveform.dtype)  # type: ignore[no-any-return]


def flanger(
    waveform: Tensor,
    sample_rate: int,
    delay: float = 0.0,
    depth: float = 2.0,
    regen: float = 0.0,
    width: float = 71.0,
    speed: float = 0.5,
    phase: float = 25.0,
    modulation: str = "sinusoidal",
    interpolation: str = "linear",
) -> Tensor:
    """Mix a waveform with itself, delayed by a time that swings from `delay` to `delay` + `depth`.

    Args:
        waveform: (..., channel, time), in [-1, 1].
        sample_rate: Hz.
        delay: shortest, ms, 0 to 30.
        depth: of the swing, ms, 0 to 10.
        regen: how much of the delayed sound is fed back, percent, -95 to 95.
        width: how much of it is mixed in, percent, 0 to 100.
        speed: swings per second, Hz, 0.1 to 10.
        phase: between the swings of neighbouring channels, percent of a swing, 0 to 100.
        modulation: "sinusoidal" or "triangular".
        interpolation: between samples, "linear" or "quadratic".

    Returns:
        Same shape and dtype, cut to [-1, 1]; differentiable.

    Raises:
        ValueError: another modulation or interpolation, a waveform without channels, or a swing below one sample.
    """
    if modulation not in ("sinusoidal", "triangular"):
        raise ValueError(f"flanger: modulation is {modulation!r}, expected 'sinusoidal' or 'triangular'.")
    if interpolation not in ("linear", "quadratic"):
        raise ValueError(f"flanger: interpolation is {interpolation!r}, expected 'linear' or 'quadratic'.")
    if waveform.ndim < 2:
        raise ValueError(f"flanger: waveform has shape {tuple(waveform.shape)}, expected (..., channel, time).")
    period, feedback = int(sample_rate / speed), regen / 100
    if period < 1:
        raise ValueError(f"flanger: speed={speed} is more than a swing per sample at {sample_rate} Hz.")
    wet = width / 100
    gain_in, gain_delay = 1 / (1 + wet), wet / (1 + wet) * (1 - abs(feedback))
    least, most = math.floor(delay / 1000 * sample_rate + 0.5), int((delay + depth) / 1000 * sample_rate + 0.5)
    swing = _swing(modulation, period, float(least), float(most), 3 * math.pi / 2)
    channels = torch.arange(waveform.shape[-2])
    starts = (channels * period * (phase / 100) + 0.5).to(torch.int64)
    delays = swing[(torch.arange(period) + starts[:, None]) % period]
    rows = _computable(waveform).reshape(math.prod(waveform.shape[:-2]), *waveform.shape[-2:])
    delayed = torch.ops.flambeau_audio.modulated_tap(
        rows, delays.to(waveform.device), feedback, interpolation == "quadratic"
    )
    mixed = rows * gain_in + delayed * gain_delay
    return mixed.clamp(-1.0, 1.0).reshape(waveform.shape).to(waveform.dtype)  # type: ignore[no-any-return]


def _computable(waveform: Tensor) -> Tensor:
    return waveform if waveform.dtype in (torch.float32, torch.float64) else waveform.float()


def _swing(shape: str, period: int, least: float, most: float, phase: float) -> Tensor:
    """One swing between two values, (period,) float64."""
    start = int(phase / math.pi / 2 * period + 0.5)
    turn = ((torch.arange(period) + start) % period).to(torch.float64) / period
    if shape == "sinusoidal":
        unit = (torch.sin(2 * math.pi * turn) + 1) / 2
    else:
        # From the middle up, all the way down, and back to the middle.
        unit = torch.where(turn < 0.25, 0.5 + 2 * turn, torch.where(turn < 0.75, 1.5 - 2 * turn, 2 * turn - 1.5))
    return unit * (most - least) + least


# --- shape-only twins: the same sentences as in native/modulation.cpp -----------------------------


def _check(op: str, waveform: Tensor, rank: int) -> None:
    expected = "(rows, time)" if rank == 2 else "(batch, channels, time)"
    if waveform.dim() != rank:
        raise RuntimeError(f"{op}: waveform has shape {tuple(waveform.shape)}, expected {expected}.")
    if waveform.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"{op}: waveform has dtype {waveform.dtype}, expected float32 or float64; convert it.")


def _check_echo(op: str, waveform: Tensor, delays: Tensor) -> None:
    _check(op, waveform, 2)
    if delays.dim() != 1 or delays.dtype != torch.int64 or delays.shape[0] < 1:
        raise RuntimeError(
            f"{op}: delays has shape {tuple(delays.shape)} and dtype {delays.dtype}, expected (table,) of int64."
        )


def _check_tap(op: str, waveform: Tensor, delays: Tensor) -> None:
    _check(op, waveform, 3)
    channels = waveform.shape[1]
    if delays.dim() != 2 or delays.dtype != torch.float64 or delays.shape[0] != channels or delays.shape[1] < 1:
        raise RuntimeError(
            f"{op}: delays has shape {tuple(delays.shape)} and dtype {delays.dtype}, "
            f"expected ({channels}, table) of float64."
        )


def _check_least(op: str, delays: Tensor, least: int) -> None:
    if bool((delays < least).any()):
        raise RuntimeError(f"{op}: delays holds a number below {least}.")


def _fake_of(op: str, check: Callable[..., None]) -> Callable[..., Tensor]:
    def fake(waveform: Tensor, delays: Tensor, *_: Any) -> Tensor:
        check(op, waveform, delays)
        return waveform.new_empty(waveform.shape)

    return fake


# --- reference ------------------------------------------------------------------------------------


def _elsewhere(op: str, waveform: Tensor, delays: Tensor, *rest: Any) -> Tensor | None:
    """On other devices than the CPU a step for each sample costs more than the way to the CPU and back."""
    if waveform.device.type == "cpu":
        return None
    packet = getattr(torch.ops.flambeau_audio, op)
    return packet(waveform.cpu(), delays.cpu(), *rest).to(waveform.device)  # type: ignore[no-any-return]


def _stretches(source: Tensor) -> list[tuple[int, int]]:
    """Cut time so that no sample needs another of its own stretch; `source` (time,) is what each needs."""
    cuts, needed = [0], source.tolist()
    for t, from_ in enumerate(needed):
        if from_ >= cuts[-1]:
            cuts.append(t)
    return list(zip(cuts, [*cuts[1:], len(needed)], strict=True))


def _along(table: Tensor, time: int) -> Tensor:
    return table[..., torch.arange(time, device=table.device) % table.shape[-1]]


def _echo_reference(waveform: Tensor, delays: Tensor, decay: float) -> Tensor:
    if (moved := _elsewhere("modulated_echo", waveform, delays, decay)) is not None:
        return moved
    _check_echo("modulated_echo", waveform, delays)
    _check_least("modulated_echo", delays, 1)
    echoed, time = waveform.clone(), waveform.shape[-1]
    source = torch.arange(time) - _along(delays, time)
    for begin, end in _stretches(source):
        some = source[begin:end]
        echoed[:, begin:end] += torch.where(some >= 0, decay * echoed[:, some.clamp(min=0)], 0.0)
    return echoed


def _echo_backward_reference(grad: Tensor, delays: Tensor, decay: float) -> Tensor:
    if (moved := _elsewhere("modulated_echo_backward", grad, delays, decay)) is not None:
        return moved
    _check_echo("modulated_echo_backward", grad, delays)
    _check_least("modulated_echo_backward", delays, 1)
    flow, time = grad.clone(), grad.shape[-1]
    target = torch.arange(time) - _along(delays, time)
    for begin, end in reversed(_stretches(target)):
        inside = target[begin:end] >= 0
        flow.index_add_(1, target[begin:end][inside], decay * flow[:, begin:end][:, inside])
    return flow


def _weights(delays: Tensor, quadratic: bool) -> tuple[Tensor, Tensor]:
    """Whole samples of delay, and the weights of the samples at whole, whole + 1, whole + 2; (..., ) and (3, ...)."""
    whole = delays.floor()
    f = delays - whole
    if quadratic:
        weights = torch.stack([(1 - f) * (2 - f) / 2, f * (2 - f), f * (f - 1) / 2])
    else:
        weights = torch.stack([1 - f, f, torch.zeros_like(f)])
    return whole.to(torch.int64), weights


def _tap_reference(waveform: Tensor, delays: Tensor, feedback: float, quadratic: bool) -> Tensor:
    if (moved := _elsewhere("modulated_tap", waveform, delays, feedback, quadratic)) is not None:
        return moved
    _check_tap("modulated_tap", waveform, delays)
    _check_least("modulated_tap", delays, 0)
    channels, time = waveform.shape[1:]
    whole, weights = _weights(_along(delays, time), quadratic)
    weights, which = weights.to(waveform.dtype), torch.arange(channels)
    history, delayed = waveform.clone(), torch.zeros_like(waveform)
    for t in range(time):
        if t:
            history[..., t] += feedback * delayed[..., t - 1]
        for k in range(3):
            source = t - whole[:, t] - k
            value = weights[k, :, t] * history[:, which, source.clamp(min=0)]
            delayed[..., t] += torch.where(source >= 0, value, 0.0)
    return delayed


def _tap_backward_reference(grad: Tensor, delays: Tensor, feedback: float, quadratic: bool) -> Tensor:
    if (moved := _elsewhere("modulated_tap_backward", grad, delays, feedback, quadratic)) is not None:
        return moved
    _check_tap("modulated_tap_backward", grad, delays)
    _check_least("modulated_tap_backward", delays, 0)
    channels, time = grad.shape[1:]
    whole, weights = _weights(_along(delays, time), quadratic)
    weights, which = weights.to(grad.dtype), torch.arange(channels)
    flow = torch.zeros_like(grad)
    for t in reversed(range(time)):
        here = grad[..., t] + (feedback * flow[..., t + 1] if t + 1 < time else 0.0)
        for k in range(3):
            target = t - whole[:, t] - k
            flow[:, which, target.clamp(min=0)] += torch.where(target >= 0, weights[k, :, t] * here, 0.0)
    return flow


# --- native kernels through ctypes ----------------------------------------------------------------

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def _native_echo(op: Literal["modulated_echo", "modulated_echo_backward"]) -> Callable[..., Tensor]:
    def call(waveform: Tensor, delays: Tensor, decay: float) -> Tensor:
        _check_echo(op, waveform, delays)
        _check_least(op, delays, 1)
        x, delays = waveform.contiguous(), delays.contiguous()
        y = torch.empty_like(x)
        kernel(f"fb_{op}_{_SUFFIX[x.dtype]}", "ppndpnnt")(
            x.data_ptr(), delays.data_ptr(), delays.shape[0], decay, y.data_ptr(), *x.shape, torch.get_num_threads()
        )
        return y

    return call


def _native_tap(waveform: Tensor, delays: Tensor, feedback: float, quadratic: bool) -> Tensor:
    _check_tap("modulated_tap", waveform, delays)
    _check_least("modulated_tap", delays, 0)
    x, delays = waveform.contiguous(), delays.contiguous()
    y, history = torch.empty_like(x), torch.empty_like(x)
    kernel(f"fb_modulated_tap_{_SUFFIX[x.dtype]}", "ppnndbppnnt")(
        x.data_ptr(), delays.data_ptr(), delays.shape[1], x.shape[1], feedback, quadratic, history.data_ptr(),
        y.data_ptr(), x.shape[0] * x.shape[1], x.shape[2], torch.get_num_threads(),
    )  # fmt: skip
    return y


def _native_tap_backward(grad: Tensor, delays: Tensor, feedback: float, quadratic: bool) -> Tensor:
    _check_tap("modulated_tap_backward", grad, delays)
    _check_least("modulated_tap_backward", delays, 0)
    g, delays = grad.contiguous(), delays.contiguous()
    flow = torch.empty_like(g)
    kernel(f"fb_modulated_tap_backward_{_SUFFIX[g.dtype]}", "ppnndbpnnt")(
        g.data_ptr(), delays.data_ptr(), delays.shape[1], g.shape[1], feedback, quadratic, flow.data_ptr(),
        g.shape[0] * g.shape[1], g.shape[2], torch.get_num_threads(),
    )  # fmt: skip
    return flow


# --- gradients: both directions are linear, and each is the other's ------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.rest = inputs[2:]


def _gradient_through(op: str) -> Callable[..., tuple[Tensor | None, ...]]:
    def gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        flow = getattr(torch.ops.flambeau_audio, op)(grad, *ctx.saved_tensors, *ctx.rest)
        return (flow, None, *(None for _ in ctx.rest))

    return gradient


def _register(
    schema: str,
    op: str,
    adjoint: str,
    check: Callable[..., None],
    *,
    symbol: Callable[..., Tensor],
    python: Callable[..., Tensor],
) -> None:
    register_op(
        f"{op}{schema}",
        library=LIBRARY,
        fake=_fake_of(op, check),
        backward=_gradient_through(adjoint),
        setup_context=_keep,
        symbol=symbol,
        python=python,
    )


_ECHO, _ECHO_BACK = "modulated_echo", "modulated_echo_backward"
_TAP, _TAP_BACK = "modulated_tap", "modulated_tap_backward"
_OF_ECHO = "(Tensor waveform, Tensor delays, float decay) -> Tensor"
_OF_TAP = "(Tensor waveform, Tensor delays, float feedback, bool quadratic) -> Tensor"
_register(
    _OF_ECHO, _ECHO, _ECHO_BACK, _check_echo, symbol=_native_echo("modulated_echo"), python=_echo_reference
)  # fmt: skip
_register(
    _OF_ECHO, _ECHO_BACK, _ECHO, _check_echo,
    symbol=_native_echo("modulated_echo_backward"), python=_echo_backward_reference,
)  # fmt: skip
_register(_OF_TAP, _TAP, _TAP_BACK, _check_tap, symbol=_native_tap, python=_tap_reference)
_register(_OF_TAP, _TAP_BACK, _TAP, _check_tap, symbol=_native_tap_backward, python=_tap_backward_reference)

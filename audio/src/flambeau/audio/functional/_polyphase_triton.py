"""The sums of `_polyphase` on CUDA and XPU. Imported when first needed, because it needs Triton.

One lane makes one number of the result, so that the gradient too is summed in a fixed order.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.audio.functional import _polyphase

BLOCK = 256


def resample(waveform: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, length: int) -> Tensor:
    """See `_polyphase.polyphase`."""
    result = _polyphase._fake(waveform, taps, orig, new, reach, first, length)
    if result.numel():
        waveform, taps = waveform.contiguous(), taps.contiguous()
        grid = (triton.cdiv(length, BLOCK), waveform.shape[0])
        with torch.get_device_module(waveform.device).device(waveform.device):
            _gather[grid](
                waveform, taps, result, waveform.shape[1], length, *taps.shape, orig, new, reach, first, BLOCK=BLOCK
            )
    return result


def resample_backward(grad: Tensor, taps: Tensor, orig: int, new: int, reach: int, first: int, time: int) -> Tensor:
    """The transpose of `resample`."""
    result = _polyphase._fake_backward(grad, taps, orig, new, reach, first, time)
    if result.numel():
        grad, taps = grad.contiguous(), taps.contiguous()
        # Results that one sample takes part in, at most.
        most = -(-taps.shape[1] * new // orig) + 1
        grid = (triton.cdiv(time, BLOCK), grad.shape[0])
        with torch.get_device_module(grad.device).device(grad.device):
            _scatter[grid](
                grad, taps, result, grad.shape[1], time, *taps.shape, orig, new, reach, first, most, BLOCK=BLOCK
            )
    return result


@triton.jit
def _gather(x, taps, y, time, length, phases, count, orig, new, reach, first, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = i < length
    start = (first + i) * orig // new - reach
    weights = taps + i % phases * count
    total = tl.zeros((BLOCK,), dtype=y.dtype.element_ty)
    for k in range(count):
        j = start + k
        sample = tl.load(x + row * time + j, mask=there & (j >= 0) & (j < time), other=0.0)
        total += sample * tl.load(weights + k, mask=there, other=0.0)
    tl.store(y + row * length + i, total, mask=there)


@triton.jit
def _scatter(y, taps, g, length, time, phases, count, orig, new, reach, first, most, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = j < time
    earliest = tl.maximum(j - count + reach + 1, 0)
    i = (earliest * new + orig - 1) // orig - first
    total = tl.zeros((BLOCK,), dtype=g.dtype.element_ty)
    for _ in range(most):
        k = j - ((first + i) * orig // new - reach)
        used = there & (i >= 0) & (i < length) & (k >= 0) & (k < count)
        value = tl.load(y + row * length + i, mask=used, other=0.0)
        total += value * tl.load(taps + i % phases * count + k, mask=used, other=0.0)
        i += 1
    tl.store(g + row * time + j, total, mask=there)

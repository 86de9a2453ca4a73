"""Recursive filters beside torchaudio and scipy, in one process, on one thread.

python audio/benchmarks/filters.py [seconds]
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from _compare import Comparison, peer

import flambeau.audio.functional as F


def main(seconds: float) -> int:
    """Print the table; returns the exit status."""
    torchaudio, signal = peer("torchaudio.functional"), peer("scipy.signal")
    table = Comparison("filters", peer("torchaudio"), peer("scipy"))
    long = torch.randn(1, int(48_000 * seconds), generator=torch.Generator().manual_seed(0)) * 0.1
    table.row(
        f"lowpass_biquad, {seconds:g} s at 48 kHz, torchaudio",
        lambda: F.lowpass_biquad(long, 48_000, 1000.0),
        torchaudio and (lambda: torchaudio.lowpass_biquad(long, 48_000, 1000.0)),
        least=10,
    )
    if signal is not None:
        b, a = signal.butter(2, 1000, fs=48_000)
        wide, tensors = long.numpy(), (torch.tensor(a), torch.tensor(b))
        table.row(
            f"lfilter of order 2, {seconds:g} s at 48 kHz, scipy",
            lambda: F.lfilter(long, *tensors, clamp=False),
            lambda: signal.lfilter(b.astype(np.float32), a.astype(np.float32), wide, axis=-1),
            least=1,
        )
        for order in (4, 8):
            b, a = signal.butter(order, 8000, fs=48_000)
            rows, coefficients = long, (torch.tensor(a), torch.tensor(b))
            table.row(
                f"lfilter of order {order}, {seconds:g} s at 48 kHz, scipy",
                lambda x=rows, c=coefficients: F.lfilter(x, *c, clamp=False),
                lambda x=wide, a=a, b=b: signal.lfilter(b.astype(np.float32), a.astype(np.float32), x, axis=-1),
                least=1,
            )
    batch = torch.randn(16, 16_000, generator=torch.Generator().manual_seed(0)) * 0.1
    a, b = torch.tensor([1.0, -0.5, 0.25]), torch.tensor([0.6, 0.3, -0.2])

    def train(lfilter):  # type: ignore[no-untyped-def]
        leaves = [given.clone().requires_grad_() for given in (batch, a, b)]
        lfilter(*leaves, clamp=False).sum().backward()

    table.row(
        "lfilter and its three gradients, 16 x 1 s, torchaudio",
        lambda: train(F.lfilter),
        torchaudio and (lambda: train(torchaudio.lfilter)),
        least=5,
    )
    table.row(
        "filtfilt, 16 x 1 s, torchaudio",
        lambda: F.filtfilt(batch, a, b),
        torchaudio and (lambda: torchaudio.filtfilt(batch, a, b)),
        least=5,
    )
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))

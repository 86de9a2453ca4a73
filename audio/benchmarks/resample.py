"""Resampling beside torchaudio's and soxr's, in one process, on one thread.

python audio/benchmarks/resample.py [seconds]
"""

from __future__ import annotations

import sys

import torch
from _compare import Comparison, peer

from flambeau.audio import functional as F
from flambeau.audio import transforms as T

# From, to -> how many times torchaudio's speed the library holds itself to. On torch 2.8 the first takes
# it several times longer: that convolution had no fast path.
RATES = {(48000, 16000): 3.0, (44100, 16000): 3.0, (16000, 44100): 1.0, (48000, 44100): 1.0, (8000, 16000): 1.0}
BEST = {"lowpass_filter_width": 64, "rolloff": 0.9475937167399596, "resampling_method": "sinc_interp_kaiser"}


def main(seconds: float) -> int:
    """Print the table; returns the exit status."""
    theirs, soxr = peer("torchaudio"), peer("soxr")
    table = Comparison("resample", theirs, soxr)
    other = theirs and theirs.functional
    generator = torch.Generator().manual_seed(0)
    for (orig, new), least in RATES.items():
        wave = torch.randn(1, int(orig * seconds), generator=generator)
        what = f"{orig} -> {new}, {seconds:g} s"
        table.row(
            f"{what}, torchaudio",
            lambda x=wave, o=orig, n=new: F.resample(x, o, n),
            other and (lambda x=wave, o=orig, n=new: other.resample(x, o, n)),
            least=least,
        )
        array = wave[0].numpy()
        table.row(
            f"{what}, soxr HQ",
            lambda x=wave, o=orig, n=new: F.resample(x, o, n),
            soxr and (lambda x=array, o=orig, n=new: soxr.resample(x, o, n, quality="HQ")),
            least=1,
        )
    wave = torch.randn(1, int(48000 * seconds), generator=generator)
    table.row(
        f"48000 -> 16000, {seconds:g} s, sharpest, torchaudio",
        lambda: F.resample(wave, 48000, 16000, **BEST),
        other and (lambda: other.resample(wave, 48000, 16000, **BEST)),
        least=1,
    )
    learnt = wave.clone().requires_grad_()
    table.row(
        f"48000 -> 16000, {seconds:g} s, and its gradient, torchaudio",
        lambda: F.resample(learnt, 48000, 16000).sum().backward(),
        other and (lambda: other.resample(learnt, 48000, 16000).sum().backward()),
        least=4,
    )
    batch = torch.randn(32, 16000, generator=generator)
    module, peers = T.Resample(16000, 8000), theirs and theirs.transforms.Resample(16000, 8000)
    table.row("module, 16000 -> 8000, 32 x 1 s", lambda: module(batch), peers and (lambda: peers(batch)), least=1)
    short = torch.randn(1, 400, generator=generator)
    table.row(
        "4001 -> 4000, 0.1 s, torchaudio",
        lambda: F.resample(short, 4001, 4000),
        other and (lambda: other.resample(short, 4001, 4000)),
        least=100,
        repetitions=1,
    )
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))

"""Kaldi's features beside torchaudio's, in one process, on one thread.

python audio/benchmarks/kaldi.py [seconds]
"""

from __future__ import annotations

import sys

import torch
from _compare import Comparison, peer

from flambeau.audio.compliance import kaldi


def main(seconds: float) -> int:
    """Print the table; returns the exit status."""
    theirs = peer("torchaudio.compliance.kaldi")
    table = Comparison("kaldi", peer("torchaudio"))
    wave = torch.randn(1, int(16_000 * seconds), generator=torch.Generator().manual_seed(0)) * 3000
    short = wave[:, :16_000]
    for name, options in (("fbank", {"num_mel_bins": 80}), ("mfcc", {}), ("spectrogram", {})):
        for what, waveform in ((f"{seconds:g} s", wave), ("1 s", short)):
            ours, peers = getattr(kaldi, name), getattr(theirs, name, None)
            table.row(
                f"{name}, {what}",
                lambda f=ours, x=waveform, o=options: f(x, **o),
                peers and (lambda f=peers, x=waveform, o=options: f(x, **o)),
                least=3 if name == "fbank" else 2,
            )
    batch = short.expand(16, 1, -1).contiguous()
    table.row(
        "fbank, 16 x 1 s, one call beside 16",
        lambda: kaldi.fbank(batch, num_mel_bins=80),
        theirs and (lambda: [theirs.fbank(item, num_mel_bins=80) for item in batch]),
        least=3,
    )
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))

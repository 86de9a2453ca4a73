"""Forced alignment beside torchaudio, in one process, on one thread.

python audio/benchmarks/forced_align.py [tiny]
"""

from __future__ import annotations

import sys

import torch
from _compare import Comparison, peer

import flambeau.audio.functional as F

# Frames, labels, classes.
SIZES = ((3000, 400, 32), (500, 60, 32), (12_000, 1500, 32))
TINY = ((60, 8, 8),)


def main(sizes: tuple[tuple[int, int, int], ...]) -> int:
    """Print the table; returns the exit status."""
    torchaudio = peer("torchaudio.functional")
    table = Comparison("forced_align", peer("torchaudio"))
    generator = torch.Generator().manual_seed(0)
    for frames, labels, classes in sizes:
        log_probs = torch.randn(1, frames, classes, generator=generator).log_softmax(-1)
        targets = torch.randint(1, classes, (1, labels), generator=generator)
        if torchaudio is not None:
            # Of paths that score alike in float32, torchaudio does not always take the best.
            totals = [module.forced_align(log_probs, targets)[1].double().sum() for module in (F, torchaudio)]
            assert totals[0] >= totals[1] - 1e-6 * totals[1].abs(), totals
        table.row(
            f"{frames} frames, {labels} labels, {classes} classes",
            lambda p=log_probs, t=targets: F.forced_align(p, t),
            torchaudio and (lambda p=log_probs, t=targets: torchaudio.forced_align(p, t)),
            least=2,
        )
    path, scores = F.forced_align(log_probs, targets)
    table.row(
        f"merge_tokens, {frames} frames",
        lambda: F.merge_tokens(path[0], scores[0]),
        torchaudio and (lambda: torchaudio.merge_tokens(path[0], scores[0])),
        least=1,
    )
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(TINY if "tiny" in sys.argv else SIZES))

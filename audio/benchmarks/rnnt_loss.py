"""The transducer loss and its gradient beside torchaudio, in one process, on one thread.

python audio/benchmarks/rnnt_loss.py [tiny]
"""

from __future__ import annotations

import sys

import torch
from _compare import Comparison, peer
from torch import Tensor

import flambeau.audio.functional as F

# Items, frames, labels, classes.
SIZES = ((4, 200, 40, 128), (2, 150, 30, 1024), (8, 100, 20, 32))
TINY = ((2, 10, 3, 8),)


def inputs(items: int, frames: int, labels: int, classes: int) -> tuple[Tensor, ...]:
    """Full-length items."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(items, frames, labels + 1, classes, generator=generator)
    targets = torch.randint(0, classes - 1, (items, labels), generator=generator, dtype=torch.int32)
    lengths = (torch.full((items,), count, dtype=torch.int32) for count in (frames, labels))
    return (logits, targets, *lengths)


def main(sizes: tuple[tuple[int, int, int, int], ...]) -> int:
    """Print the table; returns the exit status."""
    torchaudio = peer("torchaudio.functional")
    table = Comparison("rnnt_loss", peer("torchaudio"))
    for size in sizes:
        logits, *rest = inputs(*size)

        def train(loss, logits=logits, rest=rest) -> None:  # type: ignore[no-untyped-def]
            leaf = logits.detach().requires_grad_()
            loss(leaf, *rest).backward()

        what = "{} x {} frames x {} labels x {} classes".format(*size)
        table.row(
            f"{what}, with gradient",
            lambda train=train: train(F.rnnt_loss),
            torchaudio and (lambda train=train: train(torchaudio.rnnt_loss)),
            least=5,
        )
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(TINY if "tiny" in sys.argv else SIZES))

"""Intersection over union of all pairs of boxes beside torchvision's, in one process, on one thread.

    python vision/benchmarks/box_iou.py

Times are CPU time, the best of several repetitions, product and peer in turn; the program exits with 1 where the peer
is ahead. Without torchvision only the product is timed.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import Tensor

from flambeau.vision.ops import box_iou
from flambeau.vision.ops._library import LIBRARY

# Boxes on either side -> calls in one repetition.
CALLS = {10: 2000, 100: 1000, 1_000: 10, 2_000: 3}
REPETITIONS = 9


def some_boxes(count: int, seed: int) -> Tensor:
    """Boxes in an image of 1,000 x 1,000."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * 900
    return torch.cat([corner, corner + torch.rand(count, 2, generator=generator) * 100], 1)


def main() -> int:
    """Print the table; returns the exit status."""
    try:
        from torchvision.ops import box_iou as peer
    except ImportError:
        peer = None
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, tier {LIBRARY.provider}")
    print(f"{'boxes':<20} {'ours, us':>12} {'peer, us':>14} {'ratio':>8}")
    behind = False
    for count, calls in CALLS.items():
        first, second = some_boxes(count, 0), some_boxes(count, 1)
        works = [work for work in (box_iou, peer) if work is not None]
        results = [work(first, second) for work in works]
        assert all(torch.allclose(result, results[0], atol=1e-6) for result in results), f"{count}: the values differ"
        best = [float("inf")] * len(works)
        for _ in range(REPETITIONS):
            for index, work in enumerate(works):
                start = time.process_time()
                for _ in range(calls):
                    work(first, second)
                best[index] = min(best[index], (time.process_time() - start) / calls * 1e6)
        ratio = best[1] / best[0] if peer else None
        behind |= ratio is not None and ratio < 1
        cells = f"{best[1]:>14,.1f} {ratio:>6.1f} x" if ratio else f"{'-':>14} {'-':>8}"
        print(f"{f'{count} x {count}':<20} {best[0]:>12,.1f} {cells}")
    return int(behind)


if __name__ == "__main__":
    sys.exit(main())

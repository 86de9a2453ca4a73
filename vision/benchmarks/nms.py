"""Non-maximum suppression beside torchvision's operator, in one process, on one thread.

    python vision/benchmarks/nms.py

Times are CPU time, the best of several repetitions, product and peer in turn. The bounds are those the library holds
itself to; the program exits with 1 when one is missed. Without torchvision's compiled operators, which `tools/peers.py`
installs, only the product is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.vision.ops import batched_nms, nms
from flambeau.vision.ops._library import LIBRARY

THRESHOLD, CLASSES = 0.5, 80
# Number of boxes -> calls in one repetition.
CALLS = {10: 5000, 100: 2000, 1_000: 100, 5_000: 8, 20_000: 1}
REPETITIONS = 7
missed: list[str] = []


def detections(count: int, *, clustered: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes in an image of 1,000 x 1,000, scores and classes: spread evenly, or 20 round each of a few objects."""
    generator = torch.Generator().manual_seed(count)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    corner, size = uniform(count, 2) * 900, 20 + uniform(count, 2) * 80
    if clustered:
        which = torch.randint(0, max(count // 20, 1), (count,), generator=generator)
        corner, size = corner[which] + uniform(count, 2) * 10, size[which] * (0.9 + 0.2 * uniform(count, 2))
    scores = torch.randperm(count, generator=generator) / count  # no two equal: the peer does not promise their order
    classes = torch.randint(0, CLASSES, (count,), generator=generator)
    return torch.cat([corner, corner + size], 1), scores, classes


def best_us(works: list[Callable[[], object]], calls: int) -> list[float]:
    """CPU microseconds of each work, in turn, so that what else the machine does meets all alike."""
    best = [float("inf")] * len(works)
    for _ in range(REPETITIONS):
        for index, work in enumerate(works):
            start = time.process_time()
            for _ in range(calls):
                work()
            best[index] = min(best[index], (time.process_time() - start) / calls * 1e6)
    return best


def row(what: str, ours: float, theirs: float | None, *, most_us: float | None, least_ratio: float | None) -> None:
    ratio = theirs / ours if theirs else None
    slow = most_us is not None and ours > most_us
    behind = least_ratio is not None and ratio is not None and ratio < least_ratio
    bound = f"<= {most_us:g} us" if most_us else f">= {least_ratio:g} x" if least_ratio else ""
    cells = f"{theirs:>14,.1f} {ratio:>8.1f} x" if theirs and ratio else f"{'-':>14} {'-':>10}"
    missed.extend([what] if slow or behind else [])
    print(f"{what:<40} {ours:>12,.1f} {cells} {bound:>10}{'  MISSED' if slow or behind else ''}")


def compare(what: str, count: int, ours: Callable[[], Tensor], theirs: Callable[[], Tensor] | None) -> None:
    works = [ours] if theirs is None else [ours, theirs]
    results = [work() for work in works]
    assert all(torch.equal(result, results[0]) for result in results), f"{what}: the boxes differ"
    times = best_us(works, CALLS[count])
    row(
        f"{what} ({len(results[0])} of {count} stay)",
        times[0],
        times[1] if theirs else None,
        most_us=4 if count == 10 and what.startswith("nms") else None,
        least_ratio=4 if count >= 1_000 and what.startswith("nms") else None,
    )


def main() -> int:
    """Print the table; returns the exit status."""
    try:
        import torchvision

        torch.ops.torchvision.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
        peer = torchvision.ops
    except (ImportError, AttributeError):
        peer = None
    torch.set_num_threads(1)
    versions = f"torch {torch.__version__}, tier {LIBRARY.provider}" + (
        f", {peer.__package__}" if peer else ", no peer"
    )
    print(f"{versions:<40} {'ours, us':>12} {'peer, us':>14} {'ratio':>10} {'bound':>10}")
    for clustered in (False, True):
        kind = "clustered" if clustered else "spread"
        for count in CALLS:
            boxes, scores, classes = detections(count, clustered=clustered)
            compare(
                f"nms, {kind}", count,
                lambda b=boxes, s=scores: nms(b, s, THRESHOLD),
                peer and (lambda b=boxes, s=scores: peer.nms(b, s, THRESHOLD)),
            )  # fmt: skip
            compare(
                f"batched_nms, {kind}", count,
                lambda b=boxes, s=scores, c=classes: batched_nms(b, s, c, THRESHOLD),
                peer and (lambda b=boxes, s=scores, c=classes: peer.batched_nms(b, s, c, THRESHOLD)),
            )  # fmt: skip
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

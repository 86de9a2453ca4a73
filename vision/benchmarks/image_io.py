"""Image files to tensors and back beside torchvision's codecs, in one process, on one thread and on two.

    python vision/benchmarks/image_io.py

Times are wall time, the best of several repetitions, product and peer in turn. Without torchvision's compiled codecs,
which `tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from flambeau.vision import io

SIZES = {"224 x 224": (224, 224), "480 x 640": (480, 640), "1080 x 1920": (1080, 1920)}
BATCH = 16
REPETITIONS = 7


def photograph(height: int, width: int) -> Tensor:
    """[3, H, W], uint8: smooth shapes with some grain, about as hard to pack as a photograph."""
    generator = torch.Generator().manual_seed(height)
    coarse = torch.rand(1, 3, height // 16, width // 16, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0] * 255
    return (smooth + torch.randn(3, height, width, generator=generator) * 4).clamp(0, 255).to(torch.uint8)


def best_ms(works: list[Callable[[], object]], calls: int) -> list[float]:
    """Milliseconds of each work, in turn, so that what else the machine does meets all alike."""
    best = [float("inf")] * len(works)
    for _ in range(REPETITIONS):
        for index, work in enumerate(works):
            start = time.perf_counter()
            for _ in range(calls):
                work()
            best[index] = min(best[index], (time.perf_counter() - start) / calls * 1e3)
    return best


def row(what: str, ours: Callable[[], object], theirs: Callable[[], object] | None, calls: int) -> None:
    times = best_ms([ours] if theirs is None else [ours, theirs], calls)
    peer = f"{times[1]:>10.2f} {times[1] / times[0]:>8.2f} x" if theirs else f"{'-':>10} {'-':>10}"
    print(f"{what:<44} {times[0]:>10.2f} {peer}{'  BEHIND' if theirs and times[1] < times[0] else ''}")


def compare(size: str, peer: ModuleType | None) -> None:
    image = photograph(*SIZES[size])
    jpeg, png = io.encode_jpeg(image), io.encode_png(image)
    calls = 4 if size == "1080 x 1920" else 20
    row(f"decode_jpeg {size}", lambda: io.decode_jpeg(jpeg), peer and (lambda: peer.decode_jpeg(jpeg)), calls)
    row(f"decode_png {size}", lambda: io.decode_png(png), peer and (lambda: peer.decode_png(png)), calls)
    row(f"encode_jpeg {size}", lambda: io.encode_jpeg(image), peer and (lambda: peer.encode_jpeg(image)), calls)
    row(
        f"encode_png {size}",
        lambda: io.encode_png(image),
        peer and (lambda: peer.encode_png(image)),
        max(calls // 4, 1),
    )
    batch = [jpeg] * BATCH
    row(
        f"decode_jpeg {size}, list of {BATCH}",
        lambda: io.decode_jpeg(batch),
        peer and (lambda: peer.decode_jpeg(batch)),
        max(calls // 10, 1),
    )


def main() -> int:
    """Print the tables; returns the exit status."""
    peer: ModuleType | None
    try:
        import torchvision.io as peer

        peer.encode_png(torch.zeros(3, 2, 2, dtype=torch.uint8))
    except (ImportError, RuntimeError):
        peer = None
    for threads in (1, 2):
        torch.set_num_threads(threads)
        title = f"torch {torch.__version__}, {threads} thread(s)" + ("" if peer else ", no peer")
        print(f"{title:<44} {'ours, ms':>10} {'peer, ms':>10} {'ratio':>10}")
        for size in SIZES:
            compare(size, peer)
    return 0


if __name__ == "__main__":
    sys.exit(main())

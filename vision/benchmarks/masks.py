"""Pasting Mask R-CNN's masks into pictures beside torchvision's way, in one process, on one thread and on two.

    python vision/benchmarks/masks.py [--rounds 5]

Wall time, the best of several rounds, product and peer in turn; run lengths have no counterpart in the peer and are
compared with pasting alone. Without torchvision, which `tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from flambeau.vision.models.detection._masks import encode_masks_in_image, paste_masks_in_image

CASES = {
    "100 in 800 x 1333": (100, (800, 1333)),
    "20 in 480 x 640": (20, (480, 640)),
    "5 in 2160 x 3840": (5, (2160, 3840)),
}


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    works = {"paste": paste_masks_in_image, "run lengths": encode_masks_in_image}
    try:
        from torchvision.models.detection import roi_heads

        works["peer"] = roi_heads.paste_masks_in_image
    except ImportError:
        print("There is nothing to compare with; tools/peers.py installs it.")
    print(f"torch {torch.__version__}; milliseconds")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, (count, size) in CASES.items():
            generator = torch.Generator().manual_seed(0)
            corner = torch.rand(count, 2, generator=generator) * torch.tensor([size[1], size[0]]) * 0.7
            far = corner + 20 + torch.rand(count, 2, generator=generator) * size[0] * 0.4
            masks, boxes = torch.rand(count, 1, 28, 28, generator=generator), torch.cat([corner, far], 1)
            best = dict.fromkeys(works, float("inf"))
            for _ in range(given.rounds):
                for what, work in works.items():
                    start = time.perf_counter()
                    work(masks, boxes, size)
                    best[what] = min(best[what], (time.perf_counter() - start) * 1e3)
            for what in ("paste", "run lengths"):
                cells = ""
                if "peer" in best:
                    ratio = best["peer"] / best[what]
                    cells = f"{best['peer']:>9.1f} {ratio:>7.2f}{'  BEHIND' if ratio < 1 else ''}"
                print(f"{f'{what}, {name}':<40} {threads:>7} {best[what]:>9.2f} {cells}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

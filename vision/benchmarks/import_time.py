"""How long `import flambeau.vision`, listing its models and importing its parts take, beside torchvision's.

    python vision/benchmarks/import_time.py [--rounds 5]

Each import runs in a process of its own; CPU seconds beyond those of `import torch`, which both need sooner or later,
the least of all rounds, product and peer in turn. Listing needs no torch here: its line is the whole process beside
torchvision's. The library holds itself to a fifth of the peer's own time; the program exits with 1 when it is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys

MOST_SHARE = 1 / 5
# What -> statements of ours and the peer's, after `import torch` or (False) without it.
CASES = {
    "import": ("import flambeau.vision", "import torchvision", True),
    "models": ("import flambeau.vision.models.resnet", "import torchvision.models.resnet", True),
    "transforms": (
        "from flambeau.vision.transforms.v2 import Compose, Resize",
        "from torchvision.transforms.v2 import Compose, Resize",
        True,
    ),
    "operators": ("from flambeau.vision.ops import nms", "from torchvision.ops import nms", True),
    "datasets": ("from flambeau.vision.datasets import CIFAR10", "from torchvision.datasets import CIFAR10", True),
    "listing models": (
        "from flambeau.vision.models import list_models; list_models()",
        "from torchvision.models import list_models; list_models()",
        False,
    ),
}
# The bound is for the library itself; its parts need parts of torch that torchvision has loaded before.
BOUND = ("import", "listing models")
MEASURE = """
import time
{before}
start = time.process_time()
{statement}
print(time.process_time() - start)
"""


def seconds(statement: str, with_torch: bool) -> float:
    """CPU seconds of a statement in a new process."""
    code = MEASURE.format(before="import torch" if with_torch else "", statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    peer = importlib.util.find_spec("torchvision") is not None
    missed = []
    print(f"{'':<20} {'ours, ms':>10} {'peer, ms':>10} {'ratio':>8}")
    for name, (ours, theirs, with_torch) in CASES.items():
        statements = [ours, theirs] if peer else [ours]
        best = [float("inf")] * len(statements)
        for _ in range(given.rounds):
            for index, statement in enumerate(statements):
                best[index] = min(best[index], seconds(statement, with_torch))
        if peer:
            behind = best[0] > best[1] * (MOST_SHARE if name in BOUND else 1)
            missed += [name] if behind else []
            cells = f"{best[1] * 1e3:>10.1f} {best[1] / best[0]:>7.1f}x{'  MISSED' if behind else ''}"
        else:
            cells = f"{'-':>10} {'-':>8}"
        print(f"{name:<20} {best[0] * 1e3:>10.1f} {cells}")
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""How long importing `flambeau.audio` and its parts takes, beside torchaudio's.

    python audio/benchmarks/import_time.py [--rounds 5]

Each import runs in a process of its own; CPU seconds beyond those of `import torch`, which both need sooner or later,
the least of all rounds, product and peer in turn. The program exits with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from _compare import peer

# What -> statements of ours and the peer's, most CPU seconds of ours.
CASES = {
    "import": ("import flambeau.audio", "import torchaudio", 0.05),
    "functional": (
        "from flambeau.audio.functional import resample",
        "from torchaudio.functional import resample",
        0.3,
    ),
    "transforms": (
        "from flambeau.audio.transforms import MFCC, Resample",
        "from torchaudio.transforms import MFCC, Resample",
        0.3,
    ),
}
MEASURE = """
import time
import torch
start = time.process_time()
{statement}
print(time.process_time() - start)
"""


def seconds(statement: str) -> float:
    """CPU seconds of a statement in a new process."""
    code = MEASURE.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    beside = peer("torchaudio") is not None
    missed = []
    print(f"{'':<20} {'ours, ms':>10} {'peer, ms':>10} {'ratio':>8} {'bound':>10}")
    for name, (ours, theirs, most) in CASES.items():
        statements = [ours, theirs] if beside else [ours]
        best = [float("inf")] * len(statements)
        for _ in range(given.rounds):
            for index, statement in enumerate(statements):
                best[index] = min(best[index], seconds(statement))
        slow = best[0] > most or (beside and best[0] > best[1])
        missed += [name] if slow else []
        cells = f"{best[1] * 1e3:>10.1f} {best[1] / best[0]:>7.1f}x" if beside else f"{'-':>10} {'-':>8}"
        print(f"{name:<20} {best[0] * 1e3:>10.1f} {cells} {f'<= {most:g} s':>10}{'  MISSED' if slow else ''}")
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

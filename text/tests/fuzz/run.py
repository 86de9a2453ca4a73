"""Fuzz for as long as wanted: mutated vocabularies and word vectors, read by processes of their own, batch after batch.

    python run.py [--minutes 5] [--first 0] [vocabularies] [vectors]

Prints how many files were read and how many of them were sound. A process that crashes, hangs, takes too much memory or
meets an exception that it should not ends the run: the number of its file is printed, which makes the file again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

SCRIPTS = {"vocabularies": ("fuzz_vocabularies.py", 1000), "vectors": ("fuzz_vectors.py", 1000)}
BATCH_SECONDS = 1800


def batch(script: str, first: int, count: int) -> subprocess.CompletedProcess[str]:
    """Read files `first` to `first + count`; the standard output is the number of sound ones."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name(script)), str(first), str(count)]
    return subprocess.run(command, capture_output=True, text=True, timeout=BATCH_SECONDS, check=False)


def explain(script: str, done: subprocess.CompletedProcess[str]) -> str:
    """What ended a process, and how to make it happen again."""
    lines = done.stderr.splitlines()
    number = next((line.split()[1] for line in reversed(lines) if line.startswith("file ")), "of the seeds")
    told = "\n".join(line for line in lines if not line.startswith("file "))[-3000:]
    return f"{script}: exit status {done.returncode} at file {number}; again: {script} {number} 1\n{told}"


def main() -> int:
    """Take turns until the time is up; 1 when a process failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*SCRIPTS, []], help="what to read (all)")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long in all (5)")
    parser.add_argument("--first", type=int, default=0, help="number of the first file (0)")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    read, sound = dict.fromkeys(arguments.kinds or SCRIPTS, 0), dict.fromkeys(SCRIPTS, 0)
    while time.monotonic() < end:
        for kind in read:
            script, count = SCRIPTS[kind]
            done = batch(script, arguments.first + read[kind], count)
            if done.returncode != 0:
                print(explain(script, done))
                return 1
            read[kind] += count
            sound[kind] += int(done.stdout)
    for kind, number in read.items():
        print(f"{kind}: {number} files read, {sound[kind]} of them sound; every other one raised the error it should")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Damaging files, and the bounds under which a process reads them."""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path

SECONDS = 20  # of CPU time for one file; the files take some milliseconds

_WORDS = (
    b"\xff",
    b"\0",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\n",
    b" ",
    b'"',
    b"{}",
    b"[]",
    b"-1",
    b"1e999",
    b"99999999999999999999",
)


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Change, repeat and cut out bytes; headers are hit as often as all that they describe."""
    mutated = bytearray(content)
    for _ in range(draw.choice([1, 2, 5, 20])):
        at = draw.randrange(len(mutated) if draw.random() < 0.5 else min(len(mutated), 200))
        kind = draw.randrange(6)
        if kind == 0:
            mutated[at] = draw.randrange(256)
        elif kind == 1:
            mutated[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            word = draw.choice(_WORDS)
            mutated[at : at + len(word)] = word
        elif kind == 3:
            del mutated[at : at + draw.randrange(1, 64)]
        elif kind == 4:
            mutated[at:at] = mutated[at : at + draw.randrange(1, 64)]
        elif draw.random() < 0.3:
            del mutated[at:]
        if len(mutated) < 8:
            break
    return bytes(mutated)


def limit_memory(extra_bytes: int) -> None:
    """Let this process have so much more memory than it has now: an allocation without bound fails."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + extra_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def read_all(make: Callable[[random.Random], tuple[object, ...]], read: Callable[..., bool]) -> int:
    """The program of a fuzzing process: `FIRST COUNT` of the command line say which files to make and to read.

    The number of each file is printed before it is read, to stderr: the last one printed is what ended the process.

    Args:
        make: one file, and with it all that is drawn for reading it.
        read: reads it; true when all went well, false for the error that a damaged file is to raise.
    """
    first, count = int(sys.argv[1]), int(sys.argv[2])
    sound = 0
    for number in range(first, first + count):
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        sys.stderr.write(f"file {number}\n")
        sys.stderr.flush()
        sound += read(*make(random.Random(number)))
    sys.stdout.write(f"{sound}\n")
    return 0

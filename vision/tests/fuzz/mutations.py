"""Damaging files, and the bounds under which a process reads them."""

from __future__ import annotations

import random
import resource
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "io"))  # where the tests' pictures and clips are made

SECONDS = 20  # of CPU time for one file; the files take some milliseconds

_WORDS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xd9", b"\xff\xda", b"\0\x01")


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Change, repeat and cut out bytes."""
    mutated = bytearray(content)
    for _ in range(draw.choice([1, 2, 5, 20])):
        at = draw.randrange(len(mutated))
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


def mutate_png(content: bytes, draw: random.Random) -> bytes:
    """Damage a PNG behind its checksums, which would catch all else: its chunks, or its pixels before packing."""
    chunks = []
    at = 8
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    target = draw.randrange(len(chunks))
    for index, (kind, body) in enumerate(chunks):
        if index != target and draw.random() < 0.8:
            continue
        if kind == b"IDAT" and draw.random() < 0.7:
            chunks[index] = (kind, zlib.compress(mutate(zlib.decompress(body), draw)))
        elif body:
            chunks[index] = (kind, mutate(body, draw) if len(body) > 8 else draw.randbytes(len(body)))
    if draw.random() < 0.2:
        chunks.insert(draw.randrange(1, len(chunks)), draw.choice(chunks))
    framed = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return content[:8] + b"".join(framed)


def limit_memory(extra_bytes: int) -> None:
    """Let this process have so much more memory than it has now: an allocation without bound fails."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + extra_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def read_all(make: Callable[[random.Random], Sequence[object]], read: Callable[..., bool]) -> int:
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
        print(f"file {number}", file=sys.stderr, flush=True)
        sound += read(*make(random.Random(number)))
    print(sound)
    return 0

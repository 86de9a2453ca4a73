"""Read mutated word vectors, in a process that may crash without hurting anyone.

    python fuzz_vectors.py FIRST COUNT

The native reader and the one in Python must give the same vectors, or both refuse the file.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
from pathlib import Path
from unittest import mock

import mutations
import numpy as np

from flambeau.text._vectors import reading

MEMORY = 2**30
SEEDS = (
    b"the 0.1 -2e-3 3\nmill 4 5 6\nriver 7 8 9\n",
    b"2 3\nthe 1 2 3\nmill 4 5 6\n",
    "é 1.5 inf nan\n中 -0 1e-40 3.4e38\n".encode() * 20,
)


def make(draw: random.Random) -> tuple[bytes]:
    return (mutations.mutate(draw.choice(SEEDS), draw),)


def found(path: Path) -> reading.Table | str:
    try:
        return reading.read_text(path, most=None)
    except (ValueError, RuntimeError) as error:
        return type(error).__name__


def read(content: bytes) -> bool:
    """Read a file both ways; tells whether it was sound."""
    PATH.write_bytes(content)
    native = found(PATH)
    with mock.patch.object(reading.LIBRARY, "load", lambda: None):
        plain = found(PATH)
    if isinstance(native, str) or isinstance(plain, str):
        assert native == plain, (native, plain)
        return False
    assert native.words == plain.words
    np.testing.assert_array_equal(native.vectors, plain.vectors)
    return True


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        PATH = Path(folder) / "mutated.vec"
        assert all(map(read, SEEDS)), "a seed cannot be read"
        mutations.limit_memory(MEMORY)
        sys.exit(mutations.read_all(make, read))

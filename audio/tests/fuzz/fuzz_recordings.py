"""Load mutated recordings, in a process that may crash without hurting anyone.

    python fuzz_recordings.py FIRST COUNT

`info` and `load` must give an answer or a `MediaError`, and where both answer, of one length.
"""

from __future__ import annotations

import io
import random
import sys
import tempfile
from pathlib import Path

import mutations
import torch

import flambeau.audio as audio
from flambeau.audio.io import MediaError

MEMORY = 4 * 2**30


def seeds() -> list[tuple[str, bytes]]:
    wave = torch.sin(torch.arange(4000) * 0.1)[None].repeat(2, 1) * 0.5
    made = []
    wavs = [{}, {"bits_per_sample": 24}, {"encoding": "ULAW"}]
    for kind, how in [*(("wav", how) for how in wavs), *((kind, {}) for kind in ("flac", "ogg", "mp3", "sph"))]:
        file = io.BytesIO()
        audio.save(file, wave, 8000, format=kind, **how)
        made.append((kind, file.getvalue()))
    return made


def make(draw: random.Random) -> tuple[str, bytes, int]:
    kind, content = draw.choice(FILES)
    return kind, mutations.mutate(content, draw), draw.randrange(5000)


def read(kind: str, content: bytes, offset: int) -> bool:
    """Use a file in every way; tells whether all went well."""
    path = FOLDER / f"mutated.{kind}"
    path.write_bytes(content)
    try:
        audio.info(path)
        audio.load(content)
        audio.load(path, offset, 100)
        audio.load(path, normalize=False, channels_first=False)
    except MediaError:
        return False
    return True


if __name__ == "__main__":
    FILES = seeds()
    with tempfile.TemporaryDirectory() as name:
        FOLDER = Path(name)
        assert all(read(kind, content, 0) for kind, content in FILES), "a seed cannot be read"
        mutations.limit_memory(MEMORY)
        sys.exit(mutations.read_all(make, read))

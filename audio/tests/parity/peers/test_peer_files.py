"""Files, effects of sox and streams beside torchaudio 2.8's: formats, encodings, arguments, and what is refused."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from sounds import DIFFERENCES, table

from flambeau.core.testing.differential import Suite, cross

torchaudio = pytest.importorskip("torchaudio", reason="needs torchaudio 2.8; `nox -s parity -- peers audio` has it")
if not hasattr(torchaudio, "info"):
    pytest.skip("needs torchaudio 2.8, the last release that reads and writes files itself", allow_module_level=True)
logging.getLogger("flambeau.sox").setLevel(logging.ERROR)  # where reports of the program go; upstream's go to no log
# Files are compared by what both libraries read from them, not by their bytes: FFmpeg writes its name into them.
FILE = {
    "differences": DIFFERENCES,
    "files": {"": lambda path: path.name},
    "roots": ("flambeau.audio", "torchaudio", "torio"),
}
SUITE = Suite("files", ours="flambeau.audio", peer="torchaudio", rtol=1e-4, atol=4e-5, **FILE)

_NOISE = "(torch.rand({shape}, generator=torch.Generator().manual_seed(0)) * 1.6 - 0.8)"
SOUNDS = {
    "float32": {"x": _NOISE.format(shape="(2, 4000)")},
    "float64": {"x": _NOISE.format(shape="(2, 4000)") + ".double()"},
    "int16": {"x": f"({_NOISE.format(shape='(1, 4000)')} * 30000).to(torch.int16)"},
    "int32": {"x": f"({_NOISE.format(shape='(2, 4000)')} * 2**30).to(torch.int32)"},
    "uint8": {"x": f"({_NOISE.format(shape='(2, 4000)')} * 100 + 128).to(torch.uint8)"},
}
LENT = {"torch": torch, "io": io}
CELLS = table("files_cells.txt")
SUITE.add(*cross("round", SOUNDS, CELLS["round"], names=LENT))
SUITE.add(*cross("info", SOUNDS, CELLS["info"], names=LENT))
SUITE.add(*cross("wrong", {"float32": SOUNDS["float32"]}, CELLS["wrong"], names=LENT))
SUITE.add(*cross("objects", {"float32": SOUNDS["float32"], "int16": SOUNDS["int16"]}, CELLS["objects"], names=LENT))

# Effects of sox by torchaudio's own binding.
EFFECTS = Suite("sox effects", ours="flambeau.audio", peer="torchaudio", rtol=0, atol=1e-4, **FILE)
KINDS = {
    **SOUNDS,
    "1d": {"x": "torch.zeros(100)"},
    "no time": {"x": "torch.zeros(2, 0)"},
    "int64": {"x": "torch.zeros(2, 100, dtype=torch.int64)"},
}
EFFECTS.add(*cross("tensor", KINDS, CELLS["tensor"], names=LENT))
EFFECTS.add(*cross("layout", {"float32": SOUNDS["float32"]}, CELLS["layout"], names=LENT))

# Streams, from a file that both read.
STREAMS = Suite("streams", ours="flambeau.audio.io", peer="torchaudio.io", rtol=0, atol=4e-5, **FILE)


def chunks_of(reader: Any) -> list[Any]:
    """All chunks, with their times."""
    return [None if one is None else (one._elem, round(one.pts, 6)) for step in reader.stream() for one in step]


def recorded(folder: Path) -> str:
    """A file of a second of two tones."""
    import soundfile

    path = folder / "tones.wav"
    times = torch.arange(8000) / 8000
    soundfile.write(
        path, torch.stack([torch.sin(440 * times), torch.sin(660 * times)], 1).numpy() * 0.5, 8000, "PCM_16"
    )
    return str(path)


STREAM_NAMES = {**LENT, "chunks_of": chunks_of}
STREAMS.add(
    *cross(
        "streams",
        {"tones": {"src": lambda library: recorded(library.folder), "x": SOUNDS["float32"]["x"]}},
        CELLS["streams"],
        names=STREAM_NAMES,
    )
)


@pytest.mark.parametrize("cell", [*SUITE.cells, *EFFECTS.cells, *STREAMS.cells], ids=str)
def test_both_libraries_do_the_same(cell):
    next(suite for suite in (SUITE, EFFECTS, STREAMS) if cell in suite.cells).check(cell)


@pytest.mark.parametrize("suite", [SUITE, EFFECTS, STREAMS], ids=lambda suite: suite.name)
def test_every_intended_difference_is_one(suite):
    suite.check_differences()

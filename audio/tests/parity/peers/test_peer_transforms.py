"""Transforms beside torchaudio's: waveforms and spectrograms of every shape and dtype, every form of arguments."""

from __future__ import annotations

import io

import pytest
import torch
from sounds import (
    COMPLEX,
    DIFFERENCES,
    HALF,
    HALF_SPECTROGRAMS,
    NAMES,
    SPECTROGRAMS,
    WAVEFORMS,
    table,
)

from flambeau.core.testing.differential import Suite, cross

pytest.importorskip("torchaudio", minversion="2.9", reason="needs torchaudio 2.11; `nox -s parity -- peers` has it")
FILE = {"ours": "flambeau.audio", "peer": "torchaudio", "differences": DIFFERENCES}
SUITE = Suite("transforms", **FILE, rtol=2e-4, atol=2e-5)
# Where one of the two computes in single precision, results are off by some steps of half precision.
HALVES = Suite("transforms in half precision", **FILE, rtol=5e-3, atol=5e-3)


def saved_and_loaded(module: torch.nn.Module) -> torch.nn.Module:
    """A module that went through a file."""
    content = io.BytesIO()
    torch.save(module, content)
    content.seek(0)
    loaded: torch.nn.Module = torch.load(content, weights_only=False)
    return loaded


LENT = {
    **NAMES,
    "import_pickle": saved_and_loaded,
    "seeded": lambda: torch.Generator().manual_seed(0),
}
CELLS = table("transforms_cells.txt")
SUITE.add(*cross("waveforms", WAVEFORMS, CELLS["waveforms"], names=LENT))
SUITE.add(*cross("spectrograms", SPECTROGRAMS, CELLS["spectrograms"], names=LENT))
SUITE.add(*cross("complex", COMPLEX, CELLS["complex"], names=LENT))
SUITE.add(*cross("state", {"none": {}}, CELLS["state"], names=LENT))
HALVES.add(*cross("waveforms", HALF, CELLS["waveforms"], names=LENT))
HALVES.add(*cross("spectrograms", HALF_SPECTROGRAMS, CELLS["spectrograms"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


@pytest.mark.parametrize("cell", HALVES.cells, ids=str)
def test_both_libraries_do_the_same_in_half_precision(cell):
    HALVES.check(cell)


@pytest.mark.parametrize("suite", [SUITE, HALVES], ids=lambda suite: suite.name)
def test_every_intended_difference_is_one(suite):
    suite.check_differences()

"""Data sets give the rows, batches and files of torchrec's."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset_programs import PROGRAMS, names, write
from sparse_describing import describe_sparse

from flambeau.core.testing.differential import Cell, Suite, program

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")
pytest.importorskip("iopath", reason="torchrec opens files by iopath; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "datasets",
    ours="flambeau.rec.datasets",
    peer="torchrec.datasets",
    roots=("flambeau.rec", "torchrec"),
    describers=(describe_sparse,),
    differences=Path(__file__).with_name("differences.toml"),
)


def run(library, text):
    return program(text)(library, names(library, write(library.folder)))


for _area, _programs in PROGRAMS.items():
    for _text in _programs:
        SUITE.add(Cell(f"{_area}/{_text}", _area, lambda library, given, text=_text: run(library, text), printed=False))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

"""Q-learning and what all losses share do the same as torchrl's."""

from __future__ import annotations

from pathlib import Path

import pytest
from loss_subjects import names_of

from flambeau.core.testing.differential import Cell, Suite, program, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent
SUITE = Suite(
    "losses",
    ours="flambeau.rl.objectives",
    peer="torchrl.objectives",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    rtol=1e-4,
    atol=1e-5,
)


def run(library, given, text):
    return program(text, names_of(library))(library, given)


for _area, _texts in read_table(HERE / "loss_programs.txt").items():
    for _text in _texts:
        SUITE.add(Cell(f"{_area}/{_text}", _area, lambda library, given, text=_text: run(library, given, text)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

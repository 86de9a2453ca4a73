"""Metrics have the values, keys and states of torchrec's, however they are used."""

from __future__ import annotations

from pathlib import Path

import pytest
from metric_programs import KINDS, WAYS, use

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "metrics",
    ours="flambeau.rec.metrics",
    peer="torchrec.metrics",
    # Errors of torchmetrics are the peer's, too.
    roots=("flambeau.rec", "torchrec", "torchmetrics"),
    differences=Path(__file__).with_name("differences.toml"),
)
for _name, _kind in KINDS.items():
    for _word, _way in WAYS.items():
        SUITE.add(
            Cell(
                f"{_name}/{_word}",
                "values",
                lambda library, given, kind=_kind, way=_way: use(library, kind, way),
            )
        )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

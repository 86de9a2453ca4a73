"""Metrics have the values, keys and states of torchrec's, however they are used."""

from __future__ import annotations

from pathlib import Path

import pytest
from metric_modules import CONFIGURED, train
from metric_programs import KINDS, WAYS, use
from metric_ranks import cells as rank_cells
from metric_ranks import rank_values
from metric_tables import FUNCTIONS, WORDS

from flambeau.core.testing.differential import Cell, Suite, program

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
_LENT: dict = {}
exec(WORDS, _LENT)
_LENT.pop("__builtins__")


def _run(library, module, text):
    return program(text, {**_LENT, **vars(getattr(library, module))})(library, {})


for _module, _programs in FUNCTIONS.items():
    for _text in _programs:
        SUITE.add(
            Cell(
                f"functions/{_module}/{_text}",
                "functions",
                lambda library, given, module=_module, text=_text: _run(library, module, text),
            )
        )
for _name in CONFIGURED:
    for _seconds in (1.0, 7.0):
        SUITE.add(
            Cell(
                f"module/{_name}/{_seconds:.0f}s",
                "module",
                lambda library, given, name=_name, seconds=_seconds: train(library, name, seconds),
            )
        )
for _name, _, _ in rank_cells():
    SUITE.add(
        Cell(
            f"ranks/{_name}",
            "ranks",
            lambda library, given, name=_name: rank_values(
                "flambeau.rec.metrics" if library.ours else "torchrec.metrics"
            )[name],
        )
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()

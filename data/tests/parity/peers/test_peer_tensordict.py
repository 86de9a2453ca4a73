"""Everything that tensordict does with its collections, ours do as well: results, effects, memory, files, errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tensordict_cells import all_cells
from tensordict_cells.content import content, pairs, same
from tensordict_cells.describing import FILES, describe_collection
from tensordict_cells.kinds import CLASSES
from tensordict_cells.methods import UNCOVERED

from flambeau.core.testing.differential import Suite

peer = pytest.importorskip("tensordict", reason="needs tensordict; `nox -s parity -- peers` has it")

OURS = "flambeau.data.tensordict"
SUITE = Suite(
    "tensordict",
    ours=OURS,
    peer="tensordict",
    roots=(OURS, "tensordict", *CLASSES),
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe_collection],
    files=FILES,
)
SUITE.add(*all_cells())


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_where_the_peer_fails_and_we_do_not_every_kind_gives_what_a_plain_tensordict_gives():
    wrong = []
    for cell, plain in pairs(SUITE.cells):
        verdict = SUITE.verdicts.get(cell.id)
        if verdict and any(finding.startswith("error: we return ") for finding in verdict.findings):
            expected = content(plain, OURS)
            if not isinstance(expected, type) and not same(content(cell, OURS), expected):
                wrong.append(cell.id)
    assert not wrong


def test_every_public_member_has_a_program():
    public = {name for name in dir(peer.TensorDictBase) if not name.startswith("_")}
    words = {word for cell in SUITE.cells for word in re.findall(r"\.(\w+)", cell.id)}
    assert public - words == UNCOVERED.keys()


def test_every_intended_difference_is_one():
    SUITE.check_differences()

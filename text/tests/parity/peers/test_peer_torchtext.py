"""What torchtext 0.18 does, cell by cell; its outcomes are on record, so that these tests need no torchtext."""

from __future__ import annotations

import pytest
from torchtext_suite import SUITE


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_we_do_as_torchtext_did(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()


def test_every_outcome_on_record_is_of_a_cell():
    assert set(SUITE.outcomes) == {cell.id for cell in SUITE.cells}

"""What sharded modules do on two processes; each test is a check that both of them ran."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

MODULES = ["checks_training", "checks_sequences", "checks_faults", "checks_plans"]


@pytest.fixture(scope="module")
def found():
    return outcomes(MODULES, size=2, local_size=2)


@pytest.mark.parametrize("name", names_of(MODULES))
def test_both_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"

"""What sharded modules around tables do on two processes, and on two hosts of two; each test is a check of all."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

MODULES = ["checks_processed_bags", "checks_collisions", "checks_towers"]


@pytest.fixture(scope="module")
def of_two():
    return outcomes(MODULES, size=2, local_size=2)


@pytest.fixture(scope="module")
def of_four():
    return outcomes(MODULES, size=4, local_size=2)


@pytest.mark.parametrize("name", names_of(MODULES))
def test_both_processes_pass(of_two, name):
    for rank, error in enumerate(of_two[name]):
        assert error is None, f"process {rank}: {error}"


@pytest.mark.slow
@pytest.mark.parametrize("name", names_of(MODULES))
def test_all_processes_of_two_hosts_pass(of_four, name):
    for rank, error in enumerate(of_four[name]):
        assert error is None, f"process {rank}: {error}"

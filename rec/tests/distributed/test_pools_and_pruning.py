"""What sharded pools, pruned and moved tables do on several processes; each test is a check that all of them ran."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

# How many processes, and how many of them are on one host.
PROCESSES = {"checks_pools": (2, 1), "checks_pruning": (2, 2), "checks_relay": (4, 4)}
ON_TWO_HOSTS = ["checks_pools", "checks_pruning"]
NAMES = [name for module in PROCESSES for name in names_of([module])]


@pytest.fixture(scope="module")
def found():
    return {
        name: one
        for module, (size, local_size) in PROCESSES.items()
        for name, one in outcomes([module], size=size, local_size=local_size).items()
    }


@pytest.fixture(scope="module")
def of_two_hosts():
    return outcomes(ON_TWO_HOSTS, size=4, local_size=2)


@pytest.mark.parametrize("name", NAMES)
def test_all_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"


@pytest.mark.slow
@pytest.mark.parametrize("name", names_of(ON_TWO_HOSTS))
def test_all_processes_of_two_hosts_pass(of_two_hosts, name):
    for rank, error in enumerate(of_two_hosts[name]):
        assert error is None, f"process {rank}: {error}"

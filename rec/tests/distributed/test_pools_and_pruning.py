"""What sharded pools, pruned and moved tables do on two processes; each test is a check that both of them ran."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

# Pools on two processes that are a host each, the others on two of one host.
HOSTS = {"checks_pools": 1, "checks_pruning": 2}
NAMES = [name for module in HOSTS for name in names_of([module])]


@pytest.fixture(scope="module")
def found():
    return {
        name: one
        for module, local_size in HOSTS.items()
        for name, one in outcomes([module], size=2, local_size=local_size).items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_both_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"

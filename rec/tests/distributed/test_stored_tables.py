"""What sharded modules do whose tables are on disk, on one process and on two; each test is a check that all ran."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

MODULES = ["checks_stored_tables"]


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "two"])
def found(request):
    return outcomes(MODULES, size=request.param, local_size=request.param)


@pytest.mark.parametrize("name", names_of(MODULES))
def test_all_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"

"""What sharded modules do whose tables are on disk, on one process and on two; each test is a check that all ran."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

MODULES = ["checks_stored_tables"]


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "two"])
def ran(request, tmp_path_factory):
    """Outcomes, and the folder where the processes had their temporary ones."""
    temporary = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        return outcomes(MODULES, size=request.param, local_size=request.param), temporary


@pytest.mark.parametrize("name", names_of(MODULES))
def test_all_processes_pass(ran, name):
    for rank, error in enumerate(ran[0][name]):
        assert error is None, f"process {rank}: {error}"


def test_processes_that_ended_left_no_tables_behind(ran):
    # They are of multiprocessing, and end without what `atexit` has.
    assert [one.name for one in ran[1].iterdir() if "table" in one.name] == []

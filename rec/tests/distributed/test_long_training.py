"""The same checks over 50 steps: on two processes, and on two hosts of two processes each."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

MODULES = ["checks_training", "checks_sequences", "checks_faults", "checks_plans"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[2, 4])
def found(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLAMBEAU_CHECK_STEPS", "50")
        return outcomes(MODULES, size=request.param, local_size=2)


@pytest.mark.parametrize("name", names_of(MODULES))
def test_all_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"

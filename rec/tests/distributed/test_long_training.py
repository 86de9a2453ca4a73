"""The same checks over 50 steps: on two processes, and on two hosts of two processes each.

In each way of spreading tables a model has the losses of the unsharded one in each step, to within 1e-5 of them, or
absolutely where they are below 1, and its parameters after the last step, to within 1e-4 of each and another 1e-5
(`LOSS_TOLERANCE` and `STATE_TOLERANCE` of `checks_training`). Saved, and loaded by a model that has its tables in other
places, it has the same parameters, and goes on for three steps within the same bounds.
"""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

MODULES = ["checks_training", "checks_sequences", "checks_faults", "checks_plans"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=[2, 4])
def found(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLAMBEAU_CHECK_STEPS", "50")
        return outcomes(MODULES, size=request.param, local_size=2)


@pytest.mark.parametrize("name", names_of(MODULES))
def test_all_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"

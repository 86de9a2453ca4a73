"""Runs the checks of pipelines, of replicated models and of trackers: on two processes, and on two hosts of two."""

from __future__ import annotations

import pytest
from processes import names_of, outcomes

MODULES = ["checks_pipelines", "checks_replicas", "checks_trackers"]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def found(request):
    return outcomes(MODULES, size=request.param, local_size=2)


@pytest.mark.parametrize("name", names_of(MODULES))
def test_all_processes_pass(found, name):
    for rank, error in enumerate(found[name]):
        assert error is None, f"process {rank}: {error}"

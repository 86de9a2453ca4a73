"""Google Cloud Batch: its own types are what is made, and understood."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from flambeau.launch.components.dist import ddp
from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.runner import Runner
from flambeau.launch.schedulers import get_scheduler_factories
from flambeau.launch.schedulers.gcp_batch_scheduler import log_filter
from flambeau.launch.specs import AppState

batch = pytest.importorskip("google.cloud.batch_v1")


class Client:
    """Keeps jobs as Batch does."""

    def __init__(self):
        self.jobs = {}

    def create_job(self, asked):
        job = batch.Job(asked.job, name=f"{asked.parent}/jobs/{asked.job_id}", uid="uid")
        job.status.state = batch.JobStatus.State.RUNNING
        self.jobs[job.name] = job

    def get_job(self, asked):
        from google.api_core.exceptions import NotFound

        if asked.name not in self.jobs:
            raise NotFound("no such job")
        return self.jobs[asked.name]

    def delete_job(self, asked):
        self.jobs[asked.name].status.state = batch.JobStatus.State.DELETION_IN_PROGRESS


@pytest.fixture
def runner():
    with Runner("torchx", get_scheduler_factories(), scheduler_params={"client": Client()}) as made:
        yield made


def test_a_job_is_made_found_and_cancelled(runner):
    handle = runner.run(ddp(script="t.py", j="2x2", gpu=2, max_retries=3), "gcp_batch", {"project": "p"})
    assert runner.status(handle).state is AppState.RUNNING
    (role,) = runner._scheduler("gcp_batch").describe(handle.rpartition("/")[2]).roles
    assert (role.name, role.num_replicas, role.max_retries, role.resource.gpu) == ("t", 2, 3, 2)
    assert "${BATCH_MAIN_NODE_HOSTNAME:=localhost}:29500" in role.args[1]
    runner.cancel(handle)
    assert runner.status(handle).state is AppState.CANCELLED
    assert runner.status("gcp_batch://torchx/p:us-central1:nobody") is None


def test_gpus_that_no_machine_has_are_refused(runner):
    with pytest.raises(ValueError, match="3 GPUs"):
        runner.dryrun(ddp(script="t.py", gpu=3), "gcp_batch", {"project": "p"})


def test_ids_that_are_none_and_roles_of_nobody_are_told(runner):
    with pytest.raises(SchedulerError, match="PROJECT:LOCATION:NAME"):
        runner.status("gcp_batch://torchx/nobody")
    handle = runner.run(ddp(script="t.py"), "gcp_batch", {"project": "p"})
    with pytest.raises(LogsUnavailable, match="no role"):
        runner.log_lines(handle, "nobody")


def test_logs_are_those_of_one_task():
    chosen = log_filter(batch.Job(uid="u"), 1, 2, datetime(2026, 1, 1, tzinfo=UTC), None)
    assert (
        chosen == 'labels.job_uid="u" AND labels.task_id:"task/u-group1-2/" AND timestamp>="2026-01-01T00:00:00+00:00"'
    )
